"""What MLflow and Weights & Biases hold after a run is what its records hold."""

from __future__ import annotations

import csv
import io
import json

import pytest

from hyperfront.errors import HyperfrontError
from hyperfront.training import MLflow, TensorBoard, WandB, trackers
from tests.helpers import runs

pytestmark = pytest.mark.filterwarnings("ignore")  # of the tools themselves


def numbers(table: list[list]) -> list[list[float]]:
    return [[float(entry) for entry in row] for row in table]


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """MLflow with a data base and artifacts in a folder of its own."""
    found, folder = pytest.importorskip("mlflow"), tmp_path_factory.mktemp("mlflow")
    before = found.get_tracking_uri()
    found.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = found.create_experiment("tests", artifact_location=(folder / "files").as_uri())
    with pytest.MonkeyPatch.context() as patch:  # set_experiment would hold for the tests of other files, too
        patch.setenv("MLFLOW_EXPERIMENT_ID", experiment)
        yield found
    found.set_tracking_uri(before)


def test_mlflow_holds_what_the_records_hold(tmp_path, mlflow):
    run = runs.run(tmp_path / "run", epochs=2, callbacks=(MLflow(run_name="mine"),))
    (kept,) = mlflow.search_runs(output_format="list", filter_string="run_name = 'mine'")
    assert kept.info.status == "FINISHED"
    assert kept.data.metrics == pytest.approx(trackers.scalars(run.history[-1]))
    history = mlflow.MlflowClient().get_metric_history(kept.info.run_id, "validation/hypervolume")
    assert [entry.value for entry in history] == [r["validation"]["hypervolume"] for r in run.history]
    assert [entry.step for entry in history] == [r["step"] for r in run.history]
    text = mlflow.artifacts.load_text(f"{kept.info.artifact_uri}/fronts/epoch-2.csv")
    names, *rows = csv.reader(io.StringIO(text))
    assert names == ["ray sum", "ray product", "sum", "product"]
    front = run.history[-1]["validation"]
    assert numbers(rows) == [[*ray, *losses] for ray, losses in zip(front["rays"], front["losses"])]


def test_an_active_mlflow_run_is_used_and_left_open(tmp_path, mlflow):
    with mlflow.start_run() as own:
        runs.run(tmp_path / "run", epochs=1, callbacks=(MLflow(),))
        assert mlflow.active_run().info.run_id == own.info.run_id
    assert "validation/hypervolume" in mlflow.get_run(own.info.run_id).data.metrics


@pytest.fixture
def offline(tmp_path):
    """Options of ``wandb.init`` for a run that no network sees."""
    wandb = pytest.importorskip("wandb")
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    return wandb, {"mode": "offline", "dir": str(tmp_path), "settings": settings}


def test_an_active_wandb_run_holds_what_the_records_hold_and_is_left_open(tmp_path, offline):
    wandb, options = offline
    with wandb.init(**options) as own:
        run = runs.run(tmp_path / "run", epochs=2, callbacks=(WandB(),))
        assert wandb.run is own
        expected = trackers.scalars(run.history[-1])
        assert {name: own.summary[name] for name in expected} == pytest.approx(expected)
    tables = [json.loads(path.read_text()) for path in tmp_path.glob("wandb/offline-run-*/files/**/*.table.json")]
    assert [table["columns"] for table in tables] == [["ray sum", "ray product", "sum", "product"]] * 2
    fronts = [record["validation"] for record in run.history]
    held = [[[*ray, *losses] for ray, losses in zip(front["rays"], front["losses"])] for front in fronts]
    assert sorted(numbers(table["data"]) for table in tables) == sorted(held)


def test_a_wandb_run_of_one_s_own_is_started_with_the_options_and_ended(tmp_path, offline):
    wandb, options = offline
    callback = WandB(**options, name="mine")
    runs.run(tmp_path / "run", epochs=1, callbacks=(callback,))
    assert wandb.run is None and callback.run.name == "mine"
    assert len(list(tmp_path.glob("wandb/offline-run-*/files/**/*.table.json"))) == 1


def test_a_front_with_scores_has_a_column_for_each():
    validation = {"rays": [[0.5, 0.5]], "losses": [[1.0, 2.0]], "scores": {"accuracy": [0.9]}}
    assert trackers.front({"losses": {"a": 0.0, "b": 0.0}, "validation": validation}) == [
        ["ray a", "ray b", "a", "b", "accuracy"],
        [0.5, 0.5, 1.0, 2.0, 0.9],
    ]


def test_an_epoch_without_validation_or_reference_logs_the_rest(tmp_path):
    record = {"epoch": 1, "step": 4, "losses": {"a": 1.0}, "status": {"as_named": 4}, "lr": 0.1}
    assert trackers.scalars(record) == {"loss/a": 1.0, "status/as_named": 4, "lr": 0.1}
    assert "validation/hypervolume" not in trackers.scalars(record | {"validation": {"hypervolume": None}})


@pytest.mark.parametrize(
    ("make", "module", "extra"),
    [
        (lambda: TensorBoard("logs"), "torch.utils.tensorboard", "log"),
        (MLflow, "mlflow", "mlflow"),
        (WandB, "wandb", "wandb"),
    ],
)
def test_a_tool_that_is_missing_is_an_error_with_the_line_that_installs_it(monkeypatch, make, module, extra):
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(HyperfrontError, match="not installed") as error:
        make()
    assert error.value.fix == f"pip install 'hyperfront[{extra}]'"
