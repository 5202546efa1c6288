"""Pictures hold the numbers of the front: all points, no line where there is no front, no need of a network."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import matplotlib
import numpy as np
import plotly.offline
import pytest
import torch
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.image import imread
from torch import Tensor

from hyperfront import indicators, preferences
from hyperfront.errors import HyperfrontError
from hyperfront.front import Front, plots
from hyperfront.front.plots import interactive, measures, static
from hyperfront.problem import Meaning

BACK_ENDS = pytest.mark.parametrize("back_end", [static, interactive])


def fonseca() -> Front:
    """25 rays on the front of Fonseca and Fleming, one of them dominated; they fix ``r_1 l_1 = r_2 l_2``."""

    def losses(t: Tensor) -> Tensor:
        return torch.stack([1 - torch.exp(-((t - 1) ** 2)), 1 - torch.exp(-((t + 1) ** 2))], dim=-1)

    rays, dense = preferences.rays(25, m=2), losses(torch.linspace(-1, 1, 20001, dtype=torch.float64))
    found = dense[(rays[:, None] * dense).diff(dim=-1).abs().squeeze(-1).argmin(dim=1)]
    found[4] += 0.1
    scores = {"accuracy": torch.linspace(0.5, 0.875, 25)}
    source = {"problem": "fonseca", "solver": "EPO", "split": "val", "seed": 7}
    return Front(("left", "right"), rays, found, scores, (1.1, 1.1), dense[::100], provenance=source)


def zdt3(samples: int) -> Tensor:
    """The five curves of ZDT3's front, moved up to be positive."""
    x = torch.linspace(0, 1, samples, dtype=torch.float64)
    points = torch.stack([x, 1.8 - x.sqrt() - x * torch.sin(10 * math.pi * x)], dim=-1)
    return points[indicators.nondominated(points)]


def dtlz2() -> Front:
    rays = preferences.rays(45, m=3)
    cloud = torch.randn(300, 3, generator=torch.Generator().manual_seed(0)).abs()
    sphere = [points / points.norm(dim=1, keepdim=True) for points in (1 / rays, cloud)]
    return Front(("f1", "f2", "f3"), rays, sphere[0], truth=sphere[1])


def five() -> Front:
    rays = preferences.rays(12, m=5)
    return Front(("a", "b", "c", "d", "e"), rays, 1 / rays, {"IoU": rays[:, 0]}, convention="weights")


def records(m: int, epochs: int = 21) -> list[dict[str, Any]]:
    rays = preferences.rays(10, m)
    return [
        {"epoch": 5 * e, "losses": (1 / rays + 9 / (1 + e)).tolist(), "hypervolume": 1 + e / 10, "uniformity": 0.9}
        for e in range(epochs)
    ]


def dots(axes: Any) -> list[np.ndarray]:
    return [np.asarray(c.get_offsets()) for c in axes.collections if isinstance(c, PathCollection)]


def named(figure: Any, name: str) -> list[Any]:
    return [trace for trace in figure.data if (trace.name or "").startswith(name)]


def drawn_curves(back_end: Any, front: Front, what: str) -> list[np.ndarray]:
    """The unbroken lines ``[K, 2]`` of the true front or of the front, as they were drawn."""
    figure = back_end.front(front)
    color = {"truth": plots.MUTED, "front": plots.INK}[what]
    if back_end is static:
        return [line.get_xydata() for line in figure.axes[0].lines if line.get_color() == color]
    (trace,) = [t for t in figure.data if t.mode == "lines" and t.line.color == color]
    assert not trace.connectgaps
    points = np.array(list(zip(trace.x, trace.y)), dtype=float)
    return [part[np.isfinite(part[:, 0])] for part in np.split(points, np.flatnonzero(np.isnan(points[:, 0])))]


def ray_lines(back_end: Any, front: Front) -> np.ndarray:
    figure = back_end.front(front)
    if back_end is static:
        (lines,) = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
        return np.array(lines.get_segments()).reshape(-1, 2, 2)
    return np.array([list(zip(trace.x, trace.y)) for trace in named(figure, "rays")]).reshape(-1, 2, 2)


@BACK_ENDS
def test_plane_draws_every_ray_once(back_end: Any) -> None:
    front = fonseca()
    figure = back_end.front(front)
    if back_end is static:
        (points,) = dots(figure.axes[0])
    else:
        (trace,) = named(figure, "front")
        points = np.stack([trace.x, trace.y], axis=1)
        assert list(trace.marker.color) == pytest.approx(front.rays[:, 0].tolist())
    np.testing.assert_allclose(points, front.losses)


def test_dominated_points_are_hollow() -> None:
    front = fonseca()
    (points,) = [c for c in static.front(front).axes[0].collections if isinstance(c, PathCollection)]
    hollow = (points.get_facecolors() == 1).all(axis=1)
    assert np.flatnonzero(hollow).tolist() == [4]
    assert not (points.get_edgecolors() == 1).all(axis=1).any()
    (trace,) = named(interactive.front(front), "front (dominated: hollow)")
    assert [i for i, symbol in enumerate(trace.marker.symbol) if symbol == "circle-open"] == [4]


@BACK_ENDS
@pytest.mark.parametrize("samples", [100, 300, 2000])
def test_true_front_is_not_joined_across_gaps(back_end: Any, samples: int) -> None:
    truth = zdt3(samples)
    curves = drawn_curves(back_end, Front(("f1", "f2"), fonseca().rays, truth[:25] + 0.1, truth=truth), "truth")
    assert len(curves) == 5
    np.testing.assert_allclose(np.concatenate(curves), truth)  # all points, in order
    starts = [curve[0, 0] for curve in curves[1:]]
    np.testing.assert_allclose(starts, [0.18223, 0.40931, 0.61840, 0.82333], atol=1 / samples)


@pytest.mark.parametrize("samples", [30, 500])
@pytest.mark.parametrize("power", [0.5, 2.0])
def test_curves_sampled_unevenly_stay_whole(samples: int, power: float) -> None:
    x = np.linspace(0, 1, samples)
    shuffled = np.random.default_rng(0).permutation(np.stack([x, 1 - x**power], axis=1))
    (curve,) = plots.curves(shuffled)
    assert len(curve) == samples and (np.diff(curve[:, 0]) > 0).all()


@BACK_ENDS
def test_front_is_joined_within_curves_of_the_truth_only(back_end: Any) -> None:
    truth = zdt3(500)
    losses = truth[::6] + 0.005
    rays = preferences.rays(len(losses), m=2)
    curves = drawn_curves(back_end, Front(("f1", "f2"), rays, losses, truth=truth), "front")
    assert len(curves) == 5 and sum(map(len, curves)) == len(losses)
    (curve,) = drawn_curves(back_end, Front(("f1", "f2"), rays, losses), "front")  # nothing known of gaps
    assert len(curve) == len(losses)


@BACK_ENDS
def test_half_lines_follow_the_convention(back_end: Any) -> None:
    front = fonseca()
    rays, lines = front.rays.numpy(), ray_lines(back_end, front)
    assert lines.shape == (25, 2, 2) and not lines[:, 0].any()
    np.testing.assert_allclose(lines[:, 1, 0] * rays[:, 0], lines[:, 1, 1] * rays[:, 1])
    exact = np.delete(np.arange(25), 4)  # these solve r_1 l_1 = r_2 l_2: the line to its end passes through them
    losses, end = front.losses[exact].numpy(), lines[exact, 1]
    cross = losses[:, 0] * end[:, 1] - losses[:, 1] * end[:, 0]
    np.testing.assert_allclose(cross, 0, atol=2e-4)
    assert (end >= losses).all()
    along = ray_lines(back_end, replace(front, convention="direction"))
    np.testing.assert_allclose(along[:, 1, 0] * rays[:, 1], along[:, 1, 1] * rays[:, 0])
    assert len(ray_lines(back_end, replace(front, convention="weights"))) == 0


def test_a_ray_with_a_zero_is_an_axis() -> None:
    (line,) = plots.half_lines(np.array([[1.0, 0.0]]), "inverse", upper=np.array([2.0, 3.0]))
    assert line.tolist() == [[0, 0], [0, 3]]


@BACK_ENDS
def test_reference_is_marked_at_the_edge_where_it_is_far(back_end: Any) -> None:
    near, far = (plots.limits([np.array([[0.0, 1.0], [1.0, 0.0]])], None, r)[1] for r in ((1.2, 1.2), (9.0, 9.0)))
    assert (near > 1.2).all() and (far < 1.2).all()
    figure = back_end.front(replace(fonseca(), reference=(9.0, 9.0)))
    label = "reference (9, 9), beyond the axes"
    if back_end is static:
        assert label in [text.get_text() for text in figure.legends[0].get_texts()]
    else:
        (mark,) = named(figure, label)
        assert mark.x[0] < 1.2


@BACK_ENDS
def test_titles_say_what_is_shown(back_end: Any) -> None:
    figure = back_end.front(fonseca())
    text = figure.get_suptitle() if back_end is static else str(figure.layout.title)
    assert all(part in text for part in ("fonseca", "EPO", "25 rays", "split val", "seed 7"))
    bare = back_end.front(replace(fonseca(), provenance={}))
    assert "None" not in (bare.get_suptitle() if back_end is static else bare.layout.title.text)


def test_space_shows_points_before_a_translucent_truth() -> None:
    front = dtlz2()
    cloud, points = [c for c in static.front(front).axes[0].collections if isinstance(c, PathCollection)]
    assert len(points.get_offsets()) == 45 and len(cloud.get_offsets()) == 300 and cloud.get_alpha() < 0.5
    cloud, points = interactive.front(front).data
    assert points.type == "scatter3d" and len(points.x) == 45
    np.testing.assert_allclose(points.z, front.losses[:, 2])
    assert len(cloud.x) == 300 and cloud.marker.opacity < 0.5


def test_ternary_places_rays_and_names_corners() -> None:
    rays = torch.cat([torch.eye(3, dtype=torch.float64), preferences.rays(45, m=3)]).clamp_min(1e-6)
    front = replace(dtlz2(), rays=rays, losses=1 / rays, scores={"IoU": rays[:, 0]})
    figure = static.front(front, kind="ternary")
    panels = [axes for axes in figure.axes if dots(axes)]
    assert len(panels) == 4  # three losses and uniformity
    for axes in panels:
        (points,) = dots(axes)
        assert len(points) == 48
        for corner, label in zip(points[:3], axes.texts):
            np.testing.assert_allclose(label.xy, corner, atol=1e-5)
        assert [label.get_text() for label in axes.texts] == ["f1", "f2", "f3"]
    figure = interactive.front(front, kind="ternary")
    np.testing.assert_allclose(figure.data[0].b, rays[:, 1])
    assert figure.layout.ternary.caxis.title.text == "f3"
    menu = {button.label: button.args for button in figure.layout.updatemenus[0].buttons}
    assert list(menu) == ["f1 loss", "f2 loss", "f3 loss", "IoU score", "uniformity"]
    assert menu["IoU score"][0]["marker.color"][0] == pytest.approx(rays[:, 0].tolist())


def test_parallel_has_a_line_for_each_ray_and_an_axis_for_each_number() -> None:
    front = five()
    axes = static.front(front).axes[0]
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    heights = np.array(lines.get_segments())[:, :, 1]
    assert heights.shape == (12, 7) and heights.min() == 0 and heights.max() == 1
    assert heights[front.losses[:, 2].argmax(), 2] == 1
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        "a loss", "b loss", "c loss", "d loss", "e loss", "IoU score", "uniformity"
    ]  # fmt: skip
    figure = interactive.front(front)
    assert len([trace for trace in figure.data if trace.mode == "lines"]) == 12
    assert len(figure.data[-1].x) == 12 * 7 and list(figure.layout.xaxis.ticktext)[5] == "IoU score"
    np.testing.assert_allclose(np.reshape(figure.data[-1].y, (12, 7)), heights)


def test_hover_tells_ray_losses_scores_and_uniformity() -> None:
    front = fonseca()
    (trace,) = named(interactive.front(front), "front")
    assert "%{text}" in trace.hovertemplate and len(trace.text) == 25
    ray, left = front.rays[4], front.losses[4, 0]
    uniformity = indicators.uniformity(front.losses, front.rays)[4]
    for part in (
        f"{ray[0]:.4g}, {ray[1]:.4g}",
        "dominated",
        f"left loss: <b>{left:.4g}",
        f"accuracy score: <b>{0.5625}",
    ):
        assert part in trace.text[4]
    assert f"uniformity: <b>{uniformity:.4g}" in trace.text[4] and "dominated" not in trace.text[5]


def test_a_score_named_uniformity_is_shown_once() -> None:
    front = replace(dtlz2(), scores={"uniformity": torch.full((45,), 0.25)})
    assert [column.label for column in plots.columns(front)][3:] == ["uniformity score"]
    assert len([axes for axes in static.front(front, kind="ternary").axes if dots(axes)]) == 4


def test_evolution_in_the_plane() -> None:
    history = records(2)
    figure = static.evolution(history, objectives=("a", "b"), truth=zdt3(200), reference=(20, 20))
    fronts = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 10]
    assert len(fronts) == 8
    np.testing.assert_allclose(fronts[-1].get_xydata(), history[-1]["losses"])
    panels = {axes.get_ylabel(): axes for axes in figure.axes}
    assert panels["hypervolume"].lines[0].get_ydata().tolist() == [r["hypervolume"] for r in history]
    best = panels["hypervolume"].lines[1].get_ydata()[0]
    assert 398 < best < indicators.hypervolume(zdt3(200), (20, 20))  # of ten points, as many as the front has


@pytest.mark.parametrize("m", [2, 3, 5])
def test_interactive_evolution_has_a_frame_for_each_epoch(m: int) -> None:
    history = records(m)
    figure = interactive.evolution(history, objectives=tuple("abcde"[:m]))
    (slider,), (menu,) = figure.layout.sliders, figure.layout.updatemenus
    names = [str(record["epoch"]) for record in history]
    assert [frame.name for frame in figure.frames] == names == [step.args[0][0] for step in slider.steps]
    assert [button.label for button in menu.buttons] == ["Play", "Pause"]
    moving = figure.frames[3].traces
    assert [figure.data[i].name for i in moving] == ["front", "hypervolume", "uniformity"]
    assert figure.frames[3].data[1].y == (history[3]["hypervolume"],) and figure.frames[3].data[1].x == (15,)
    left, right = history[3]["losses"][9][:2]
    assert (
        figure.frames[3].data[0].text[-1].startswith(f"<b>ray 9</b><br>a: <b>{left:.4g}</b><br>b: <b>{right:.4g}</b>")
    )
    if m == 2:
        np.testing.assert_allclose(figure.frames[3].data[0].x, np.array(history[3]["losses"])[:, 0])
    else:
        assert figure.frames[3].data[0].x.count(None) == 9  # ten lines


def test_evolution_beyond_the_plane_and_with_holes() -> None:
    history = records(5)
    history[2]["hypervolume"] = None
    panels = static.evolution(history, objectives=tuple("abcde")).axes
    assert [axes.get_ylabel() for axes in panels] == ["hypervolume", "uniformity"]
    assert np.isnan(panels[0].lines[0].get_ydata()).tolist() == [i == 2 for i in range(21)]
    assert len(interactive.evolution(records(2, 300), objectives=("a", "b")).frames) == 200


def test_page_is_self_contained_and_holds_the_data(tmp_path: Any) -> None:
    front = fonseca()
    front = replace(front, objectives=("</script><b>", "right"), provenance={"problem": "<i>&", "seed": 0})
    path = plots.save(interactive.front(front), tmp_path / "new" / "front.html")
    page = path.read_text(encoding="utf-8")
    library = re.search(r'id="library">([^<]+)<', page)[1]
    assert gzip.decompress(base64.b64decode(library)).decode() == plotly.offline.get_plotlyjs()
    assert path.stat().st_size < 2.2e6 and 'src="http' not in page
    own = page.replace(library, "")
    assert not re.search(r"https?:|//cdn|<script[^>]+src|<link|@import", own)
    assert "<title>Pareto front of &lt;i&gt;&amp;</title>" in own and own.count("</script>") == own.count("<script")
    drawn = json.loads(re.search(r'id="figure">([^<]+)<', page)[1])
    assert drawn["config"]["showSendToCloud"] is False  # nothing is sent to plotly either
    np.testing.assert_allclose(drawn["data"][-1]["x"], front.losses[:, 0])
    assert page == plots.save(interactive.front(front), tmp_path / "again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["2d", "parallel"])
def test_png_is_a_picture(tmp_path: Any, kind: str) -> None:
    path = plots.save(static.front(fonseca(), kind=kind), tmp_path / "front.PNG")
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = imread(path, format="png")[..., :3]
    assert min(pixels.shape[:2]) > 800
    drawn = (pixels < 0.97).any(axis=-1)
    assert 0.02 < drawn.mean() < 0.5
    assert len(np.unique((pixels[::4, ::4] * 255).astype(np.uint8).reshape(-1, 3), axis=0)) > 200
    edge = np.concatenate([drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]])
    assert not edge.any()  # nothing is cut off


@pytest.mark.parametrize(("suffix", "start"), [(".svg", b"<?xml"), (".pdf", b"%PDF")])
def test_the_same_front_is_the_same_file(tmp_path: Any, suffix: str, start: bytes) -> None:
    one, two = (plots.save(static.front(fonseca()), tmp_path / f"{n}{suffix}").read_bytes() for n in "ab")
    assert one == two and one.startswith(start)


@BACK_ENDS
def test_a_front_that_is_worse_than_its_reference_is_drawn_with_it(back_end: Any, tmp_path: Any) -> None:
    figure = back_end.front(replace(fonseca(), losses=fonseca().losses + 5, truth=None))
    plots.save(figure, tmp_path / ("front.png" if back_end is static else "front.html"))  # the layout has no complaints
    low = figure.axes[0].get_xlim()[0] if back_end is static else figure.layout.xaxis.range[0]
    assert low < 1.1


@BACK_ENDS
@pytest.mark.parametrize("kind", ["auto", "ternary", "parallel"])
def test_degenerate_fronts_are_drawn(back_end: Any, kind: str) -> None:
    """One ray; the same losses everywhere; a loss that is not a number."""
    for rows in ([[1.0, 1.0, 1.0]], [[2.0, 2.0, 2.0]] * 3, [[1.0, 2.0, math.nan], [2.0, 1.0, 1.0]]):
        losses = torch.tensor(rows)
        front = Front(("a", "b", "c"), torch.full_like(losses, 1 / 3), losses)
        assert back_end.front(front, kind=kind)
        if kind != "ternary":
            assert back_end.front(replace(front, objectives=("a", "b"), rays=front.rays[:, :2], losses=losses[:, 1:]))


@BACK_ENDS
def test_errors_name_the_fix(back_end: Any) -> None:
    with pytest.raises(HyperfrontError, match=r"2 objectives[\s\S]*3 objectives"):
        back_end.front(fonseca(), kind="3d")
    with pytest.raises(HyperfrontError, match="2d"):
        back_end.front(five(), kind="2d")
    with pytest.raises(HyperfrontError, match="did you mean 'parallel'"):
        back_end.front(five(), kind="paralel")
    with pytest.raises(HyperfrontError, match="without rays"):
        back_end.front(replace(five(), rays=torch.empty(0, 5), losses=torch.empty(0, 5), scores={}))
    with pytest.raises(HyperfrontError, match="no records"):
        back_end.evolution([], objectives=("a", "b"))


def test_unknown_and_unfit_suffixes(tmp_path: Any) -> None:
    with pytest.raises(HyperfrontError) as caught:
        plots.save(static.front(fonseca()), tmp_path / "front.jpgg")
    assert (caught.value.got, caught.value.fix) == ("front.jpgg", "front.png") and ".pdf" in str(caught.value.expected)
    with pytest.raises(HyperfrontError, match=r"draw it with hyperfront\.front\.plots\.interactive"):
        plots.save(static.front(fonseca()), tmp_path / "front.html")
    with pytest.raises(HyperfrontError, match=r"draw it with hyperfront\.front\.plots\.static"):
        plots.save(interactive.front(fonseca()), tmp_path / "front.png")
    assert not list(tmp_path.iterdir())


def test_drawing_leaves_no_trace() -> None:
    before = dict(matplotlib.rcParams)
    static.front(fonseca())
    static.evolution(records(2), objectives=("a", "b"))
    assert dict(matplotlib.rcParams) == before


def test_libraries_are_imported_with_their_back_end_only() -> None:
    script = """
import sys, hyperfront.front.plots
assert not {"matplotlib", "plotly"} & set(sys.modules)
import hyperfront.front.plots.static
assert "plotly" not in sys.modules and "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_points_exactly_in_the_direction_of_their_rays_have_uniformity_one():
    rays = preferences.rays(5, m=2)
    along = Front(("a", "b"), rays, 2 * rays, convention="direction")
    (even,) = (column.values for column in plots.columns(along) if column.name == "uniformity")
    assert even == pytest.approx(1)


# ---- any two or three losses or scores -------------------------------------------------------------------------------


def judged() -> Front:
    """A front with an error and a gap; more of its third score is better."""
    rays = preferences.rays(6, m=2)
    scores = {"error": rays[:, 0], "gap": rays[:, 1] ** 2, "gain": 1 - rays[:, 0]}
    meanings = {
        "error": Meaning("error"),
        "gap": Meaning("gap in rates", unit="%"),
        "gain": Meaning("gain", maximize=True),
    }
    return Front(("a", "b"), rays, 1 / rays.clamp_min(0.1), scores, meanings=meanings)


def test_any_two_measures_are_drawn_with_points_of_others_beside_them(tmp_path: Any) -> None:
    front, file = judged(), tmp_path / "fairlearn.csv"
    file.write_text("model,error,gap\none,0.5,0.25\ntwo,0.6,0.3\nthree,,0.1\n")
    axes = front.plot(x="gap", y="error", beside=file).axes[0]
    mine, others = dots(axes)
    np.testing.assert_allclose(mine, np.stack([front.scores["gap"], front.scores["error"]], axis=1))
    np.testing.assert_allclose(others, [[0.25, 0.5], [0.3, 0.6]])  # a point without the error is left out
    assert axes.get_xlabel() == "gap in rates (%) (less is better)"
    assert axes.get_ylabel() == "error (less is better)"
    front.plot(tmp_path / "page.html", x="gap", y="error", beside={"fair": file, "again": front})
    page = (tmp_path / "page.html").read_text()
    assert "fair, point 2" in page and '"again"' in page


@pytest.mark.parametrize("other", ["error", "gain"])
def test_dominance_follows_the_direction_of_each_measure(other: str) -> None:
    """Less error and more gain are the same here, so the same points are best."""
    front = judged()
    worse = {"gap": [1.0], other: [1.0 if other == "error" else 0.0]}
    found = measures.clouds(["gap", other], front.meanings, front.columns(), front.rays, {"x": worse})
    assert found[0].best.all() and found[1].best.all()  # each is judged beside its own points
    doubled = {
        name: torch.cat([column, column[-1:] + (0.1 if name != "gain" else -0.1)])
        for name, column in front.columns().items()
    }
    (cloud,) = measures.clouds(["gap", other], front.meanings, doubled, torch.cat([front.rays, front.rays[-1:]]), {})
    assert cloud.best.tolist() == [True] * 6 + [False]


def test_three_measures_are_drawn_in_space(tmp_path: Any) -> None:
    front = judged()
    axes = front.plot(x="gap", y="error", z="a").axes[0]
    assert axes.get_zlabel() == "a (less is better)"
    front.plot(tmp_path / "space.html", x="gap", y="error", z="a")
    assert "scatter3d" in (tmp_path / "space.html").read_text()


@pytest.mark.parametrize(
    "options, said",
    [
        ({"x": "error"}, "two or three different"),
        ({"x": "error", "y": "error"}, "two or three different"),
        ({"x": "errors", "y": "gap"}, "error"),
        ({"x": "error", "y": "gap", "kind": "parallel"}, "has no kind"),
        ({"x": "error", "y": "gap", "beside": {"others": {"error": [1.0]}}}, "lack a loss or score"),
        ({"x": "error", "y": "gap", "beside": {"others": {"error": [1.0], "gap": [1.0, 2.0]}}}, "differ in length"),
        ({"x": "error", "y": "gap", "beside": 3}, "not understood"),
        ({"x": "error", "y": "gap", "beside": "nowhere.csv"}, "cannot be read"),
    ],
)
def test_impossible_plots_of_measures_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(HyperfrontError, match=said):
        judged().plot(**options)
