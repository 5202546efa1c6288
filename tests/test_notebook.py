"""What a notebook shows: pictures, tables, progress, the explorer; and that its kernel ends in order."""

from __future__ import annotations

import base64
import collections
import dataclasses
import html.parser
import io
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.parse

import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from torch import nn

import hyperfront as hf
from hyperfront.problem.registry import build
from hyperfront.training import Callback, Progress
from tests.helpers import explored
from tests.helpers.chromium import chromium
from tests.helpers.notebooks import execute
from tests.helpers.waiting import LIMIT, until

__all__ = ["chromium"]  # the fixture
EVIL = ("</td></table><script>alert(1)</script>", "<img src=x onerror=alert(2)>\"'&$x_ \\frac{$ 損失")
SLOW = """
import torch, hyperfront as hf
from torch import nn
torch.set_num_threads(1)
x = torch.randn(3000, 400)
losses = {"a": lambda y, batch: (y - 1).square().mean(), "b": lambda y, batch: (y + 1).square().mean()}
problem = hf.supervised((x[:64],), (x,), losses=losses, reference=(9, 9))
model = hf.wrap(nn.Sequential(nn.Linear(400, 400), nn.Linear(400, 1)), ["a", "b"], generate="1.*", hidden=4)
run = hf.Run(model, front=None, history=[], folder=None)
"""  # measuring its front takes seconds, nearly all of them inside PyTorch


class Page(html.parser.HTMLParser):
    """Tags, texts and pictures of a piece of HTML; an error if it leaves a tag open."""

    VOID = frozenset({"img"})

    def __init__(self, source: str):
        super().__init__()
        self.open, self.tags, self.texts, self.pictures = [], set(), [], []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag == "img":
            head, _, data = dict(attrs)["src"].partition(",")
            assert head == "data:image/png;base64"
            self.pictures.append(Image.open(io.BytesIO(base64.b64decode(data))))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def front(m: int, count: int, names: tuple[str, ...] = (), **parts) -> hf.Front:
    """Points of a sphere."""
    rays = hf.rays(count, m).double()
    losses = 1 / rays.clamp_min(0.05)
    losses = losses / losses.norm(dim=1, keepdim=True)
    names = names or tuple(f"objective {j}" for j in range(m))
    return hf.Front(names, rays, losses, **{"reference": (2.0,) * m, **parts})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return explored.own(tmp_path_factory.mktemp("own") / "run", 3)


# ---- HTML ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 5])
def test_a_front_is_a_picture_and_a_table_of_its_points(m):
    shown = front(m, 9, scores={"accuracy": torch.linspace(0, 1, len(hf.rays(9, m))).double()})
    page = Page(shown._repr_html_())
    (picture,) = page.pictures
    assert picture.width >= 600
    assert len(picture.convert("RGB").getcolors(2**24)) > 10
    values = [shown.hypervolume(), shown.uniformity(), *shown.losses[:25].flatten(), *shown.scores["accuracy"][:25]]
    for value in values:
        assert f"{float(value):.4g}" in page.texts
    for ray in shown.rays[:25]:
        assert ", ".join(f"{entry:.2f}" for entry in ray.tolist()) in page.texts
    assert {*shown.objectives, "accuracy score"} <= {*page.texts}


@pytest.mark.parametrize(("m", "count"), [(2, 20_000), (3, 5_000), (30, 60)])
def test_its_size_is_bounded(m, count):
    shown = front(m, count, tuple(f"{j} {'long ' * 200}" for j in range(m)))
    assert len(shown._repr_html_()) < 500_000
    rows = len(re.findall("<tr", shown._repr_html_()))
    assert rows < 40


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reference": None}, "needs a reference point"),
        ({"reference": (1e-3, 1e-3)}, "better than the reference point"),
        ({"losses": torch.full((5, 2), torch.nan, dtype=torch.float64)}, "nan"),
        ({"losses": torch.full((5, 2), 0.3, dtype=torch.float64)}, "0.3"),
        ({"rays": torch.zeros(0, 2).double(), "losses": torch.zeros(0, 2).double()}, "0 rays"),
        ({"convention": "weights"}, "uniformity"),
    ],
)
def test_a_front_that_lacks_something_says_so(change, words):
    assert words in Page(dataclasses.replace(front(2, 5), **change)._repr_html_()).text


def test_names_are_texts_whatever_is_in_them(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(20, 4)
    losses = {name: lambda output, batch, j=j: (output - j).square().mean() + 0.1 for j, name in enumerate(EVIL)}
    score = {"<b>bold</b>": hf.Score(lambda output, batch: output.mean(), maximize=True)}
    problem = hf.supervised((x,), (x,), losses=losses, scores=score, reference=(9, 9))
    module = nn.Sequential(collections.OrderedDict({"<u>": nn.Linear(4, 1)}))
    model = hf.wrap(module, list(EVIL), hidden=4)
    run = hf.fit(model, problem, epochs=1, batch_size=10, out=tmp_path / "<i>run", callbacks=[], validation_rays=3)
    allowed = {"div", "table", "thead", "tbody", "tr", "th", "td", "img", "details", "summary"}
    for shown in (run, run.front, model):
        page = Page(shown._repr_html_())
        assert page.tags <= allowed
        assert "</td></table><script>" in page.text
    assert "<i>run" in Page(run._repr_html_()).text
    assert "<u>.weight" in Page(model._repr_html_()).texts


def test_a_run_says_what_was_trained_and_how_it_ended(run):
    page = Page(run._repr_html_())
    best = max(record["validation"]["hypervolume"] for record in run.history)
    assert f"{best:.4g}, in epoch" in page.text
    assert {"Sequential", "left, right, cost", "EPO", str(run.folder.path)} <= {*page.texts}
    assert f"{run.status['as_named']:,} exactly" in page.text
    assert len(page.pictures) == 1
    mixed = dataclasses.replace(run, front=None, history=[run.history[0] | {"status": {"relaxed": 7, "floored": 2}}])
    page = Page(mixed._repr_html_())
    assert re.search(r"7 after dropping a constraint.*; 2 with a loss of zero", page.text)
    assert "no validation data" in page.text
    assert "0 epochs" in Page(dataclasses.replace(run, history=[])._repr_html_()).text


@pytest.mark.parametrize("options", [{}, {"hypernet": "low_rank"}, {"generate": "0.*", "rest": "freeze"}])
def test_a_model_says_where_the_values_of_its_tensors_come_from(options):
    target = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model = hf.wrap(target, ["left", "right"], **options)
    page = Page(model._repr_html_())
    made = set(model.target.assembly.names)
    for spec in model.target.tensors:
        values = page.texts[page.texts.index(spec.name) + 1]
        assert values.startswith("generated") if spec.name in made else values == spec.role
    for line in model.summary().splitlines()[1:]:
        what, count = line.split()[:2]
        assert count in page.texts or what == "in"
    deep = hf.wrap(nn.Sequential(*(nn.Linear(2, 2) for _ in range(300))), ["left", "right"], hidden=2)
    assert len(deep._repr_html_()) < 40_000


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_looks_right_by_day_and_by_night_and_on_a_phone(chromium, run, scheme):
    shown = [run, run.model, front(7, 50), front(2, 5, EVIL)]
    body = "".join(f"<section>{each._repr_html_()}</section>" for each in shown)
    page = chromium.new_page(color_scheme=scheme, viewport={"width": 360, "height": 800})
    faults = []
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on("console", lambda line: faults.append(line.text))
    page.on("request", lambda request: None if request.url.startswith("data:") else faults.append(request.url))
    page.set_content(f"<meta name=color-scheme content='light dark'><body>{body}")
    page.locator("summary").click()
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 600)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    colors = "(cell) => [getComputedStyle(cell).color, getComputedStyle(document.body).color]"
    assert all(len(set(cell.evaluate(colors))) == 1 for cell in page.locator("td").all()[:30])  # those of the page
    assert not faults
    page.close()


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_a_plot_is_a_figure_in_scripts_too(tmp_path):
    figure = front(2, 5).plot(tmp_path / "front.svg")
    assert isinstance(figure, Figure)
    assert (tmp_path / "front.svg").stat().st_size > 1000
    again = pickle.loads(pickle.dumps(figure))
    data, size = again._repr_png_()
    picture = Image.open(io.BytesIO(data))
    assert picture.size == (2 * size["width"], 2 * size["height"])
    assert figure.axes[0].get_xlabel() == "objective 0"


def test_a_dollar_in_a_name_is_a_dollar():
    figure = front(2, 5, ("cost $", "a $x_ \\frac{$ b")).plot()
    figure._repr_png_()
    assert not any(text.get_parse_math() for text in (figure.axes[0].xaxis.label, figure.axes[0].yaxis.label))


# ---- progress --------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A terminal that remembers what stands on it in the end."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        found = []
        for line in self.getvalue().split("\n"):
            shown = ""
            for part in line.split("\r"):
                shown = part + shown[len(part) :]
            found.append(shown.rstrip())
        return [line for line in found if line]


@pytest.mark.parametrize("align", [False, True])
def test_the_last_line_of_a_terminal_is_the_last_epoch(monkeypatch, align):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "150")
    problem = explored.regression()
    model = hf.wrap(explored.network(), problem.objectives, hidden=8)
    run = hf.fit(model, problem, epochs=4, batch_size=32, rays_per_step=2, validation_rays=5, align=align)
    (line,) = terminal.lines
    assert line.startswith("epoch 4/4")
    assert f"HV={run.history[-1]['validation']['hypervolume']:.4f}" in line


def test_the_last_line_of_an_interrupted_run_is_its_last_epoch(monkeypatch, tmp_path):
    class Stops(Callback):
        def epoch_ended(self, record):
            if record["epoch"] == 3:
                os.kill(os.getpid(), signal.SIGINT)

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    problem = build("vlmop2")
    with pytest.raises(KeyboardInterrupt):
        hf.fit(problem.model(hidden=4), problem, epochs=9, callbacks=[Progress(), Stops()], out=tmp_path)
    (line,) = terminal.lines
    assert line.startswith("epoch 3/9")


# ---- a kernel --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    cells = {
        "setup": SLOW,
        "fit": 'again = hf.fit(model, problem, epochs=3, batch_size=16, validation_rays=3, align=True)\n"done"',
        "run": "again",
        "front": "again.front",
        "model": "model",
        "plot": "again.front.plot()",
        "silent": "again.front.plot();",
        "inline": "import matplotlib.pyplot\n%matplotlib inline\nagain.front.plot()",
        "last": "again.history[-1]",
        "fails": "hf.fit(model, problem, epochs=3, batch_size=16, validation_rays=3, solver=3)",
        "explore": "first = hf.explore(run, problem)\nfirst",
        "twice": "second = hf.explore(run, problem)\nsecond",
        "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
        "answers": "import urllib.request\n[urllib.request.urlopen(page.url).status for page in (first, second)]",
    }
    executed = execute(tmp_path_factory.mktemp("notebook"), *cells.values())
    return dict(zip(cells, executed.outputs)), executed


def data(outputs) -> dict:
    (output,) = outputs
    assert output.output_type in ("execute_result", "display_data"), output
    return output.data


def test_cells_show_what_they_should_and_nothing_else(notebook):
    cells, _ = notebook
    assert cells["setup"] == []
    for name in ("run", "front", "model"):
        Page(data(cells[name])["text/html"])
    assert not [o for outputs in cells.values() for o in outputs if o.output_type == "stream"]
    assert [o.ename for outputs in cells.values() for o in outputs if o.output_type == "error"] == [
        "HyperfrontError",
        "KeyboardInterrupt",
    ]


def test_a_plot_is_one_picture_with_and_without_matplotlibs_own(notebook):
    cells, _ = notebook
    for name in ("plot", "inline"):
        assert Image.open(io.BytesIO(base64.b64decode(data(cells[name])["image/png"]))).width > 500
    assert cells["silent"] == []


def test_progress_is_one_output_that_ends_at_the_last_epoch(notebook):
    cells, _ = notebook
    progress, value = cells["fit"]
    assert value.data["text/plain"] == "'done'"
    assert progress.output_type == "display_data"
    assert set(progress.data) == {"text/plain", "text/html"}
    record = eval(data(cells["last"])["text/plain"])
    assert progress.data["text/plain"].startswith(f"epoch 3/3, HV={record['validation']['hypervolume']:.4f}")
    assert progress.data["text/plain"] in Page(progress.data["text/html"]).text


def test_pages_survive_an_interruption_of_the_kernel(notebook):
    cells, _ = notebook
    first, second = (re.search(r'src="(http\S+)"', data(cells[name])["text/html"])[1] for name in ("explore", "twice"))
    assert first != second
    assert data(cells["answers"])["text/plain"] == "[200, 200]"


def test_the_kernel_ends_in_order_while_a_front_is_measured(notebook):
    _, executed = notebook
    assert executed.code == 0, executed.log
    assert "terminate" not in executed.log
    assert "Traceback" not in executed.log


# ---- the end of a script ---------------------------------------------------------------------------------------------


def test_a_script_ends_in_order_while_a_front_is_measured():
    """At its last line, and by Ctrl-C."""
    start = f"{SLOW}\npages = [hf.explore(run, problem).url for _ in range(2)]\n"
    waits = start + "print('ready', flush=True)\nimport time\ntime.sleep(600)"
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen([sys.executable, "-c", start], **options) as ends,
        subprocess.Popen([sys.executable, "-c", waits], **options) as stops,
    ):
        assert stops.stdout.readline() == "ready\n"
        stops.send_signal(signal.SIGINT)
        assert ends.communicate(timeout=LIMIT) == ("", "")
        _, errors = stops.communicate(timeout=LIMIT)
    assert (ends.returncode, stops.returncode) == (0, -signal.SIGINT)
    assert re.fullmatch(r"Traceback.*KeyboardInterrupt\n", errors, re.DOTALL)
    assert errors.count("Traceback") == 1


def test_a_closed_page_frees_its_port_and_ends_its_threads(run):
    before = set(threading.enumerate())
    exploration = hf.explore(run, explored.regression(3))
    port = urllib.parse.urlparse(exploration.url).port
    with pytest.raises(OSError):
        socket.create_server(("127.0.0.1", port)).close()
    exploration.close()
    socket.create_server(("127.0.0.1", port)).close()
    until(lambda: not [t for t in set(threading.enumerate()) - before if t.name.startswith("hyperfront")])
