"""The explorer in a real browser: dragging, limits, pins, keys, a narrow window, the file that can be mailed."""

from __future__ import annotations

import http.server
import json
import re
import threading
from functools import partial

import pytest
import safetensors.torch
import torch

import hyperfront as hf
from hyperfront.apps.shared.choice import Choice
from hyperfront.front import search
from tests.helpers import explored
from tests.helpers.chromium import chromium, opened
from tests.helpers.data import DATA

__all__ = ["chromium"]  # the fixture
pytestmark = pytest.mark.browser
PHONE = {"width": 360, "height": 780}
SETTLED = "() => document.getElementById('chip').classList.contains('exact')"


@pytest.fixture(scope="module")
def explorations(tmp_path_factory):
    """Pages for 2, 3 and 7 objectives; measured to the end, so that answers do not change while they are tested."""
    folder = tmp_path_factory.mktemp("explored")
    made = {
        2: hf.explore(explored.own(folder / "two"), explored.regression(2), baselines=[folder / "two"]),
        3: hf.explore(explored.toy(folder / "three", "dtlz2")),
        7: hf.explore(explored.own(folder / "seven", 7), explored.regression(7)),
    }
    for exploration in made.values():
        exploration.session.refine()
    yield made
    for exploration in made.values():
        exploration.close()


def ray_of(page) -> list[float]:
    return page.evaluate("state.ray")


def middle(page, selector: str, share: float = 0.5, down: float = 0.5) -> tuple[float, float]:
    box = page.locator(selector).bounding_box()
    return box["x"] + share * box["width"], box["y"] + down * box["height"]


# ---- dragging --------------------------------------------------------------------------------------------------------


def test_a_drag_is_followed_by_interpolated_values_and_measured_when_let_go(chromium, explorations):
    session = explorations[2].session
    with opened(chromium, explorations[2].url) as page:
        page.wait_for_function(SETTLED)
        page.mouse.move(*middle(page, "#slider"))
        page.mouse.down()
        seen = []
        for step in range(1, 8):
            page.mouse.move(*middle(page, "#slider", 0.5 - 0.043 * step))
            seen.append(page.locator("#chip").inner_text())
        assert set(seen) == {"≈ interpolated"}
        dragged = page.evaluate("state.values")
        page.mouse.up()
        page.wait_for_function(SETTLED)
        ray = ray_of(page)
        exact = session.measure(ray)
        assert ray[1] == pytest.approx(0.5 - 0.043 * 7, abs=0.03)
        assert page.evaluate("state.values") == pytest.approx(
            [*exact.losses[0].tolist(), float(exact.scores["sharpness"])], rel=1e-7
        )
        assert dragged == pytest.approx(page.evaluate("state.values"), rel=0.02)  # interpolated, but close
        page.wait_for_function(f"() => JSON.stringify(state.predictions) === {json.dumps(_json(session.predict(ray)))}")
        shown = page.locator(".readout .value").all_inner_texts()
        assert [float(text.split()[0]) for text in shown] == pytest.approx(exact.losses[0].tolist(), abs=1e-3)


def _json(document) -> str:
    """As JavaScript writes it."""
    return json.dumps(document, separators=(",", ":")).replace(".0,", ",").replace(".0]", "]")


@pytest.mark.parametrize("m", [2, 3, 7])
def test_the_page_interpolates_with_the_surface_of_the_selection(chromium, explorations, m):
    front = explorations[m].session.front
    rays = hf.Dirichlet(1.0).sample(40, m, torch.Generator().manual_seed(0))
    columns = dict(zip(front.objectives, front.losses.T)) | dict(front.scores)
    expected = torch.stack([*search._surface(front.rays, columns)(rays).values()], dim=1)
    spans = torch.stack([*columns.values()], dim=1)
    low, high = spans.amin(0), spans.amax(0)
    expected = expected.clamp(low - 0.05 * (high - low), high + 0.05 * (high - low))
    with opened(chromium, explorations[m].url) as page:
        found = torch.tensor(page.evaluate("(rays) => rays.map((ray) => state.surface.at(ray))", rays.tolist()))
        assert ((found - expected).abs() / (high - low)).max() < 1e-4
        at_knots = page.evaluate("state.front.rays.map((ray) => state.surface.at(ray))")
        torch.testing.assert_close(torch.tensor(at_knots).double(), spans, rtol=1e-4, atol=1e-5)


def test_the_triangle_is_dragged_to_the_ray_under_the_pointer(chromium, explorations):
    with opened(chromium, explorations[3].url) as page:
        box = page.locator(".field").bounding_box()
        corners = [(0.5, 0.0), (0.0, 1.0), (1.0, 1.0)]
        ray = [0.2, 0.5, 0.3]
        x, y = (sum(r * corner[axis] for r, corner in zip(ray, corners)) for axis in (0, 1))
        page.mouse.move(*middle(page, ".knob .core"))
        page.mouse.down()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=4)
        assert page.locator("#chip").inner_text() == "≈ interpolated"
        page.mouse.up()
        page.wait_for_function(SETTLED)
        assert ray_of(page) == pytest.approx(ray, abs=0.02)
        page.mouse.move(box["x"] - 40, box["y"] - 40)  # far outside: the nearest edge
        page.mouse.down()
        page.mouse.up()
        assert min(ray_of(page)) >= 0


def test_one_slider_of_many_leaves_the_others_as_they_are_to_each_other(chromium, explorations):
    with opened(chromium, explorations[7].url + "#ray=1,2,3,4,5,6,7") as page:
        before = ray_of(page)
        page.mouse.move(*middle(page, ".readout tr:nth-child(3) input[type=range]", 0.12))
        page.mouse.down()
        page.mouse.move(*middle(page, ".readout tr:nth-child(3) input[type=range]", 0.6), steps=3)
        page.mouse.up()
        page.wait_for_function(SETTLED)
        after = ray_of(page)
        assert after[2] == pytest.approx(0.6, abs=0.05)
        assert sum(after) == pytest.approx(1)
        rest = [j for j in range(7) if j != 2]
        shares = [[ray[j] / (1 - ray[2]) for j in rest] for ray in (before, after)]
        assert shares[0] == pytest.approx(shares[1])


def test_the_plot_itself_can_be_dragged_along_and_turned(chromium, explorations):
    with opened(chromium, explorations[2].url) as page:
        page.mouse.click(*middle(page, ".front", 0.02, 0.02))  # the end of the curve with the best left
        page.wait_for_function(SETTLED)
        assert ray_of(page)[0] > 0.8
    with opened(chromium, explorations[3].url) as page:
        before, ray = page.locator(".here").get_attribute("transform"), ray_of(page)
        page.mouse.move(*middle(page, "#plot svg"))
        page.mouse.down()
        page.mouse.move(*middle(page, "#plot svg", 0.7, 0.4), steps=4)
        page.mouse.up()
        assert page.locator(".here").get_attribute("transform") != before
        assert ray_of(page) == ray
        page.locator("#views button", has_text="Ternary").click()
        page.mouse.click(*middle(page, "#plot .edge", 0.5, 0.1))
        page.wait_for_function(SETTLED)
        assert ray_of(page)[0] > 0.8


@pytest.mark.parametrize(("convention", "favored"), [("inverse", 0), ("weights", 0), ("direction", 1)])
def test_the_slider_goes_to_the_better_of_its_end_in_every_convention(chromium, tmp_path, convention, favored):
    run = explored.own(tmp_path / "run")
    run.model.record["convention"] = convention
    (tmp_path / "run" / "front.json").unlink()
    exploration = hf.explore(run, explored.regression())
    with opened(chromium, exploration.url) as page:
        page.focus("#slider")
        page.keyboard.press("Home")  # the end on the left, of the first objective
        assert ray_of(page)[favored] == 1
    exploration.close()


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_limits_take_one_to_the_measured_operating_point(chromium, explorations):
    session = explorations[2].session
    bound = round(float(session.front.losses[:, 1].quantile(0.4)), 3)
    with opened(chromium, explorations[2].url) as page:
        page.select_option(".limit-row select >> nth=0", label="right")
        page.fill(".limit-row input", str(bound))
        page.select_option("#goal", label="left")
        page.get_by_role("button", name="Take me there").click()
        assert page.evaluate("state.values[1]") <= bound + 1e-6  # at once, by interpolation
        page.wait_for_function("() => /measured/.test(document.getElementById('limits-answer').textContent)")
        page.wait_for_function(SETTLED)
        exact = session.measure(ray_of(page)).losses[0]
        assert exact[1] <= bound
        assert exact[0] == pytest.approx(
            float(session.select(Choice(minimize="left", subject_to={"right": ("<=", bound)})).values["left"]), rel=1e-3
        )
        assert page.locator(".limit").count() == 1
        page.fill(".limit-row input", "-5")
        page.get_by_role("button", name="Take me there").click()
        page.wait_for_function("() => /No point keeps/.test(document.getElementById('limits-answer').textContent)")
        nearest = float(re.search(r"right (?:= )?(\S+?)\.?$", page.locator("#limits-answer").inner_text())[1])
        assert nearest == pytest.approx(float(session.front.losses[:, 1].min()), rel=0.02)


def test_several_limits_hold_together(chromium, explorations):
    losses = explorations[7].session.front.losses
    with opened(chromium, explorations[7].url) as page:
        page.get_by_role("button", name="Another limit").click()
        for row, name in enumerate(("right", "cost")):
            page.select_option(f".limit-row:nth-child({row + 1}) select >> nth=0", label=name)
            page.fill(f".limit-row:nth-child({row + 1}) input", f"{losses[:, 1 + row].quantile(0.6):.3f}")
        page.keyboard.press("Enter")
        page.wait_for_function("() => /measured/.test(document.getElementById('limits-answer').textContent)")
        found = explorations[7].session.measure(ray_of(page)).losses[0]
        assert found[1] <= losses[:, 1].quantile(0.6) + 1e-3
        assert found[2] <= losses[:, 2].quantile(0.6) + 1e-3


def test_a_column_has_one_limit(chromium, explorations):
    with opened(chromium, explorations[2].url) as page:
        another = page.get_by_role("button", name="Another limit")
        columns = page.evaluate("COLUMNS.length")
        for _ in range(columns - 1):
            assert another.is_enabled()
            another.click()
        assert another.is_disabled()
        assert sorted(page.evaluate("limits.read().map((limit) => limit.column)")) == list(range(columns))
        assert page.locator(".limit-row:first-child option:enabled").count() == 1 + 2  # its own, and two signs
        page.get_by_role("button", name="Remove this limit").first.click()
        assert another.is_enabled()


def test_rays_in_space_are_where_the_model_was_asked_to_go(chromium, explorations):
    """In the convention inverse all ``r_j l_j`` are equal along the line, whatever the model made of it."""
    with opened(chromium, explorations[3].url) as page:
        page.evaluate("goTo([0.5, 0.3, 0.2])")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        drawn = page.evaluate(
            """() => {
                const line = document.querySelector(".ray.now");
                const { domains, at } = VIEWS[state.view].projection(frontView.box());
                const inverse = state.ray.map((part) => 1 / part);
                const reach = Math.min(...inverse.map((part, j) => domains[j][1] / part));
                const end = at(inverse.map((part) => part * reach));
                return [end[0] - line.x2.baseVal.value, end[1] - line.y2.baseVal.value];
            }"""
        )
        assert drawn == pytest.approx([0, 0], abs=0.01)


def test_a_manager_reads_labels_directions_and_words_for_the_ray(chromium, tmp_path):
    """The most accurate model with a gap of at most .1: the limit has the direction of its score."""
    exploration = hf.explore(explored.lent(tmp_path / "run"), explored.loans(), title="Loans")
    exploration.session.refine()
    with opened(chromium, exploration.url) as page:
        assert page.locator("h1").inner_text() == "Loans"
        assert page.locator("#notes p").count() == 2
        assert page.locator(".readout tbody th").all_inner_texts() == ["log loss", "gap in probability"]
        words = page.evaluate("[[1, 0], [0.8, 0.2], [0.5, 0.5], [0.1, 0.9]].map(rayWords)")
        assert words[0] == "only log loss"
        assert [text.split(" ")[0] for text in words[1:]] == ["mostly", "both", "mostly"]
        for label, sign in (("accuracy", ">="), ("gap in false positive rates", "<=")):
            page.select_option(".limit-row select >> nth=0", label=label)
            assert page.locator(".limit-row select >> nth=1").input_value() == sign
        page.fill(".limit-row input", "0.1")
        page.select_option("#goal", label="accuracy")
        page.get_by_role("button", name="Take me there").click()
        page.wait_for_function("() => /measured/.test(document.getElementById('limits-answer').textContent)")
        asked = Choice(maximize="accuracy", subject_to={"fpr_gap": 0.1})
        expected = exploration.session.select(asked).values["accuracy"]
        accuracy, gap = page.evaluate("state.values.slice(2)")
        assert gap <= 0.1 and accuracy == pytest.approx(float(expected), abs=0.02)
        before = page.locator(".groups").inner_text()
        page.focus("#threshold")
        page.keyboard.press("Home")  # nearly everybody gets a loan
        assert page.locator(".groups").inner_text() != before
        assert all(
            "lend" in text
            for text in page.locator(".item .says b, .item .right-answer, .item .wrong-answer").all_inner_texts()
        )
        page.locator("#views button", has_text="Any two").click()
        assert page.locator("#plot .point").count() == len(exploration.session.front)
    exploration.close()


# ---- pins, links, files ----------------------------------------------------------------------------------------------


def test_pins_are_compared_and_travel_in_the_link(chromium, explorations):
    with opened(chromium, explorations[2].url, permissions=["clipboard-read", "clipboard-write"]) as page:
        for share in (0.2, 0.8):
            page.mouse.click(*middle(page, "#slider", share))
            page.wait_for_function(SETTLED)
            page.get_by_role("button", name="Pin this point").click()
        page.mouse.click(*middle(page, "#slider", 0.5))
        page.wait_for_function(SETTLED)
        table = page.locator(".compare")
        heads = table.locator("thead th").all_inner_texts()
        assert [re.sub(r"\W", "", head) for head in heads] == ["A", "B", "atthehandle"]
        left = [float(cell) for cell in table.locator("tr", has_text="left loss").locator("td").all_inner_texts()]
        assert left[0] < left[2] < left[1]  # A is the one with the best left
        assert table.locator("tr", has_text="left loss").locator(".best").all_inner_texts() == [f"{left[0]}"]
        assert page.locator(".badge").all_text_contents() == ["A", "B"]
        for scrolled in (0, 300, 10_000):  # the handle stays in sight, and covers nothing
            page.evaluate(f"scrollTo(0, {scrolled})")
            edges = page.evaluate("['take', 'pins'].map((id) => byId(id).getBoundingClientRect())")
            assert edges[0]["bottom"] < edges[1]["top"]
        page.locator("#copy-link").click()
        link = page.evaluate("navigator.clipboard.readText()")
        pinned, ray = page.evaluate("state.pins.map((pin) => pin.ray)"), ray_of(page)
        page.get_by_role("button", name="Remove A", exact=True).click()
        assert page.locator(".badge").all_text_contents() == ["A"]
    assert link.startswith(explorations[2].url)
    with opened(chromium, link) as page:
        assert ray_of(page) == pytest.approx(ray, abs=1e-4)
        assert (
            torch.tensor(page.evaluate("state.pins.map((pin) => pin.ray)")).sub(torch.tensor(pinned)).abs().max() < 1e-4
        )
        page.wait_for_function("() => state.pins.every((pin) => pin.certainty === 'exact')")


def test_the_copied_line_and_the_downloaded_file_are_the_model_at_the_ray(chromium, explorations, tmp_path):
    model = explorations[3].session.model
    url = explorations[3].url + "#ray=0.2,0.3,0.5"
    with opened(chromium, url, permissions=["clipboard-read", "clipboard-write"], accept_downloads=True) as page:
        page.locator("#copy-python").click()
        names: dict = {}
        exec(page.evaluate("navigator.clipboard.readText()"), names)
        assert torch.equal(names["net"](), model.at([0.2, 0.3, 0.5])())
        with page.expect_download() as download:
            page.locator("#download").click()
        download.value.save_as(tmp_path / "model.safetensors")
    tensors = safetensors.torch.load_file(tmp_path / "model.safetensors")
    torch.testing.assert_close(tensors["z"], model.at([0.2, 0.3, 0.5]).z, rtol=0, atol=1e-7)


def test_training_can_be_watched(chromium, explorations):
    with opened(chromium, explorations[2].url) as page:
        page.focus("#epochs")
        page.keyboard.press("Home")
        assert "epoch 1" in page.locator(".evolution .words").inner_text()
        assert page.locator(".then").count() == 7  # validation rays
        first = page.locator(".then-line").get_attribute("d")
        page.get_by_role("button", name="Play the training").click()
        page.wait_for_function("() => !document.querySelector('.then')")
        assert "as it is" in page.locator(".evolution .words").inner_text()
        page.focus("#epochs")
        page.keyboard.press("ArrowLeft")
        assert page.locator(".then-line").get_attribute("d") != first


# ---- keys and screen readers -----------------------------------------------------------------------------------------


def test_everything_works_from_the_keyboard_and_is_spoken(chromium, explorations):
    with opened(chromium, explorations[2].url) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the handle"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "slider"
        before = ray_of(page)[1]
        for _ in range(5):
            page.keyboard.press("ArrowRight")
        assert ray_of(page)[1] == pytest.approx(before + 0.005, abs=1e-6)
        assert "left" in page.locator("#slider").get_attribute("aria-valuetext")
        page.wait_for_function(SETTLED)
        page.wait_for_function("() => /^Measured. left/.test(document.getElementById('live').textContent)")
        page.keyboard.press("p")
        page.wait_for_function("() => document.getElementById('live').textContent === 'Pinned as A'")
        page.get_by_label("Ray entry of left").fill("0.25")
        page.keyboard.press("Enter")
        assert ray_of(page) == pytest.approx([0.25, 0.75])
    with opened(chromium, explorations[3].url) as page:
        page.focus(".knob")
        page.keyboard.press("1")
        assert ray_of(page) == [1, 0, 0]
        page.keyboard.press("Home")
        page.keyboard.press("Shift+ArrowUp")
        assert ray_of(page)[0] == pytest.approx(1 / 3 + 0.1)
        page.wait_for_function(SETTLED)
        assert "exact" in page.locator(".knob").get_attribute("aria-valuetext")


@pytest.mark.parametrize("m", [2, 3, 7])
def test_whatever_takes_the_focus_has_a_name_and_a_role(chromium, explorations, m):
    with opened(chromium, explorations[m].url) as page:
        page.get_by_role("button", name="Pin this point").click()
        tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
        focusable = [
            node
            for node in tree
            if any(p["name"] == "focusable" and p["value"]["value"] for p in node.get("properties", []))
            and node["role"]["value"] != "RootWebArea"
        ]
        assert len(focusable) > 15
        nameless = [node["role"]["value"] for node in focusable if not node.get("name", {}).get("value", "").strip()]
        assert not nameless
        assert not [node for node in focusable if node["role"]["value"] == "generic"]
        images = page.locator("canvas, svg[role=img]").all()
        assert all(image.get_attribute("aria-label") or image.get_attribute("aria-labelledby") for image in images)


# ---- how it looks ----------------------------------------------------------------------------------------------------

CONTRAST = """() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgb = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = (parts) => {
    const [r, g, b] = parts.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || !node.checkVisibility() || node.closest("script, .unseen, .skip")) continue;
    const stack = [];
    for (let e = node; e; e = e.parentElement) stack.unshift(getComputedStyle(e).backgroundColor);
    const style = getComputedStyle(node);
    const disc = node.closest(".badge")?.firstChild;
    const behind = disc ? rgb([getComputedStyle(disc).fill]) : rgb(stack);
    const ink = rgb([`rgb(${behind})`, node.closest("svg") ? style.fill : style.color]);
    const [a, b] = [light(ink), light(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push([text.slice(0, 30), ratio.toFixed(2)]);
  }
  return poor;
}"""


OUTSIDE = """() => [...document.querySelectorAll("#plot text")].filter((node) => {
  const box = node.getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth;
}).map((node) => node.textContent)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_by_day_and_by_night(chromium, explorations, scheme):
    for m in (2, 3, 7):
        with opened(chromium, explorations[m].url, color_scheme=scheme) as page:
            page.get_by_role("button", name="Pin this point").click()
            page.fill(".limit-row input", "-5")
            page.get_by_role("button", name="Take me there").click()
            page.wait_for_function("() => /No point keeps/.test(document.getElementById('limits-answer').textContent)")
            assert page.evaluate(CONTRAST) == []
            night = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (night == "rgb(15, 18, 20)") == (scheme == "dark")


@pytest.mark.parametrize("m", [2, 3, 7])
def test_a_phone_has_everything_in_one_column_and_nothing_beside_it(chromium, explorations, m):
    with opened(chromium, explorations[m].url, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.get_by_role("button", name="Pin this point").tap()
        for view in page.locator("#views button").all() or [None]:
            if view:
                view.tap()
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
            assert page.evaluate(OUTSIDE) == []
        tops = page.evaluate(
            "['front','tradeoff','samples','limits'].map((id) => byId(id).getBoundingClientRect().top)"
        )
        assert tops == sorted(tops)
        small = page.evaluate(
            """() => [...document.querySelectorAll("button, select, input, a.button")]
              .filter((node) => node.checkVisibility() && !node.closest("label") && node.id !== "tint")
              .map((node) => node.getBoundingClientRect()).filter((box) => box.width < 24 || box.height < 24).length"""
        )
        assert small == 0


def test_a_touch_drags_the_handle(chromium, explorations):
    with opened(chromium, explorations[3].url, viewport=PHONE, has_touch=True, is_mobile=True) as page:
        page.locator(".field").scroll_into_view_if_needed()
        box = page.locator(".field").bounding_box()
        page.touchscreen.tap(box["x"] + 0.5 * box["width"], box["y"] + 0.1 * box["height"])
        page.wait_for_function(SETTLED)
        assert ray_of(page)[0] > 0.8


# ---- where it is shown -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 7])
def test_the_file_that_can_be_mailed_works_without_server_and_network(chromium, explorations, m, tmp_path):
    explorations[m].save(tmp_path / "front.html")
    session = explorations[m].session
    with opened(chromium, (tmp_path / "front.html").as_uri(), offline=True) as page:
        assert "sampled" in page.locator("#facts").inner_text()
        assert page.locator("#download").count() == 0
        corner = [1.0] + [0.0] * (m - 1)
        page.evaluate("(ray) => goTo(ray, { settled: true })", corner)
        page.wait_for_function(SETTLED)  # a ray that was measured
        assert page.evaluate("state.values")[:m] == pytest.approx(session.measure(corner).losses[0].tolist(), rel=1e-6)
        page.wait_for_function(
            f"() => JSON.stringify(state.predictions) === {json.dumps(_json(session.predict(corner)))}"
        )
        inside = hf.rays(1, m)[0].mul(torch.linspace(1, 1.37, m)).tolist()
        page.evaluate("(ray) => goTo(ray, { settled: true })", inside)
        assert page.locator("#chip").inner_text() == "≈ interpolated"
        page.get_by_role("button", name="Take me there").click()
        assert "interpolated" in page.locator("#limits-answer").inner_text()
        page.get_by_role("button", name="Pin this point").click()
        assert page.locator(".badge").count() == 1


def test_a_notebook_on_this_machine_shows_the_page_in_its_cell_and_other_pages_cannot(chromium, explorations, tmp_path):
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html><body>{explorations[2]._repr_html_()}</body>")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    page, lines = chromium.new_page(), []
    page.on("console", lambda line: lines.append(line.text))
    frame = page.frame_locator("iframe")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as notebooks:
        threading.Thread(target=notebooks.serve_forever, daemon=True).start()
        page.goto(f"http://localhost:{notebooks.server_port}/notebook.html")
        frame.locator("#slider").press("End")
        frame.locator("#chip.exact").wait_for()
        assert "at([0, 1])" in frame.locator("#python").inner_text()
        notebooks.shutdown()
    page.goto((tmp_path / "notebook.html").as_uri())
    assert any("frame-ancestors" in line for line in lines) and frame.locator("#slider").count() == 0
    page.close()


def test_names_are_texts_whatever_is_in_them(chromium, tmp_path):
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>\"'&"]
    torch.manual_seed(0)
    x = torch.randn(20, 4)
    losses = {name: lambda output, batch, j=j: (output - j).square().mean() + 0.1 for j, name in enumerate(names)}
    problem = hf.supervised(
        (x,),
        (x,),
        losses=losses,
        scores={"<b>": hf.Score(lambda output, batch: output.mean(), maximize=True)},
        reference=(9, 9),
    )
    model = hf.wrap(explored.network(), names, hidden=12)
    run = hf.fit(model, problem, epochs=1, batch_size=10, out=tmp_path / "<i>run", callbacks=[], validation_rays=3)
    exploration = hf.explore(run, problem)
    with opened(chromium, exploration.url) as page:
        assert page.locator(".readout tbody th").all_inner_texts() == names
        assert page.locator("h1").inner_text() == "<i>run"
        assert page.locator("i, b, img").count() == 0
    exploration.close()


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "arguments", "seen"),
    [
        ("multi-fashion-mnist", {"rows": 300}, ".columns"),
        ("adult", {"rows": 2000}, ".groups .meter"),
        ("nyuv2", {"rows": 30, "size": "72x96"}, ".scene canvas"),
        ("sarcos", {"rows": 60}, ".aim"),
    ],
)
def test_real_data_are_shown_and_follow_the_handle(chromium, tmp_path, name, arguments, seen):
    from hyperfront.apps.explorer.exploration import Exploration
    from hyperfront.apps.explorer.session import Session
    from hyperfront.problem.registry import build

    torch.manual_seed(0)
    problem = build(name, data_dir=DATA, **arguments)
    model = problem.model(hidden=12, batchnorm="batch")
    exploration = Exploration(Session(model, problem), name=name, python="hf.load('x')", baselines=[])
    with opened(chromium, exploration.url) as page:
        assert page.locator(seen).count() >= 8
        before = page.evaluate("JSON.stringify(state.predictions)")
        page.get_by_role("button", name="Pin this point").click()
        page.evaluate(f"goTo(dasDennis({problem.m}, 1)[0])")
        page.wait_for_function("(before) => JSON.stringify(state.predictions) !== before", arg=before)
        assert page.locator(".compare .predicted").count() == 3
        page.set_viewport_size(PHONE)
        page.wait_for_function("() => frontView.root.clientWidth < 360")
        assert page.evaluate(OUTSIDE) == []
    exploration.close()
