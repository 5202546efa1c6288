"""fit: it learns what theory says, and nothing is lost when it stops."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import hyperfront as hf
from hyperfront import indicators
from hyperfront.errors import CheckpointError, LossError, ProblemError
from hyperfront.preferences import FixedRays
from hyperfront.problem.registry import build
from hyperfront.solvers import Average, Clip, HVMax, NormalizeByStart, Status, chain, lift
from hyperfront.storage import checkpoint, trees
from hyperfront.training import Callback, TensorBoard, loop
from tests.helpers import runs

RESULTS = ("last.safetensors", "best.safetensors", "front.json")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    runs.run(folder)
    return folder


@pytest.mark.slow
def test_a_run_killed_five_times_ends_with_the_same_bytes(tmp_path, uninterrupted):
    folder, steps = tmp_path / "run", ["3", "19", "24", "37", "9"]  # in and at the end of epochs, which have 8 steps
    assert runs.process(folder, signal.SIGKILL, *steps).returncode == -signal.SIGKILL
    runs.run(folder, resume=True)
    for name in RESULTS:
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name
    epochs = [json.loads(line)["epoch"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert epochs == list(range(1, 13))


@pytest.mark.slow
def test_ctrl_c_saves_in_the_middle_of_an_epoch_and_says_how_to_go_on(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    ended = runs.process(folder, signal.SIGINT, "35")
    assert ended.returncode != 0
    assert "resume=True" in ended.stderr
    assert str(folder) in ended.stderr
    runs.run(folder, resume=True)
    for name in RESULTS:
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    runs.run(tmp_path / "run", epochs=2)
    before = {name: (tmp_path / "run" / name).read_bytes() for name in (*RESULTS, "metrics.jsonl")}
    again = runs.run(tmp_path / "run", epochs=2, resume=True)
    assert len(again.history) == 2
    for name, content in before.items():
        assert (tmp_path / "run" / name).read_bytes() == content


def test_a_folder_with_a_run_is_never_overwritten(tmp_path):
    runs.run(tmp_path / "run", epochs=1)
    with pytest.raises(CheckpointError, match="already holds a run"):
        runs.run(tmp_path / "run", epochs=1)


def test_a_resume_with_another_configuration_names_what_differs(tmp_path):
    runs.run(tmp_path / "run", epochs=1)
    with pytest.raises(CheckpointError, match=r"batch_size = 32[\s\S]*batch_size = 16"):
        runs.run(tmp_path / "run", epochs=1, batch_size=32, resume=True)


def test_an_unwritable_folder_is_an_error_before_training(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CheckpointError, match="cannot make the folder"):
        runs.run(tmp_path / "file" / "run")


def test_the_configuration_is_written_before_the_first_step(tmp_path):
    class Fails(Callback):
        def stepped(self):
            raise RuntimeError("here")

    with pytest.raises(RuntimeError, match="here"):
        runs.run(tmp_path / "run", callbacks=(Fails(),))
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["solver"] == {"name": "EPO", "space": "weights", "tolerance": 1e-4, "descent": None}
    assert config["preferences"] == {"name": "Dirichlet", "alpha": 0.2}
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["torch"] == torch.__version__


def test_a_loaded_model_predicts_the_same_without_the_code_that_made_it(tmp_path):
    run = runs.run(tmp_path / "run", epochs=3)
    x = torch.randn(5, 4)
    for model in (hf.load(tmp_path / "run", runs.Net()), hf.load(tmp_path / "run", "tests.helpers.runs:Net")):
        torch.testing.assert_close(model(x, [0.3, 0.7]), run.model(x, [0.3, 0.7]), atol=0, rtol=0)
        assert model.record["convention"] == "inverse"
    last = hf.load(tmp_path / "run" / "last.safetensors", runs.Net())
    assert last(x, [0.3, 0.7]).shape == (1, 5, 1)
    run.model.save(tmp_path / "model.safetensors")
    torch.testing.assert_close(
        hf.load(tmp_path / "model.safetensors", runs.Net())(x, [0.3, 0.7]), run.model(x, [0.3, 0.7]), atol=0, rtol=0
    )


def test_a_checkpoint_without_its_module_or_with_another_is_refused(tmp_path):
    runs.run(tmp_path / "run", epochs=1)
    with pytest.raises(CheckpointError, match="no code"):
        hf.load(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"body\.0\.weight"):
        hf.load(tmp_path / "run", nn.Linear(4, 1))
    with pytest.raises(hf.HyperfrontError, match="cannot be imported"):
        hf.load(tmp_path / "run", "tests.helpers.runs:Nothing")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        hf.load(tmp_path / "nowhere")


class Breaks(Callback):
    """Raises at the end of an epoch, before its checkpoint."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def epoch_ended(self, record):
        if record["epoch"] == self.epoch:
            raise OSError("no space left")


@pytest.mark.parametrize("every", [8, 1])  # better weights are found in between, and not written yet
def test_where_checkpoints_are_dear_a_run_goes_on_from_an_earlier_one_and_ends_at_the_same_bytes(
    every, tmp_path, monkeypatch
):
    settings = {"epochs": 8, "validate_every": every}
    runs.run(tmp_path / "whole", **settings)
    monkeypatch.setattr("hyperfront.training.checkpoints.INTERVAL", 1e9)
    with pytest.raises(OSError, match="no space left"):
        runs.run(tmp_path / "cut", callbacks=(Breaks(5),), **settings)
    assert len((tmp_path / "cut" / "metrics.jsonl").read_text().splitlines()) == 5
    seen = []
    monkeypatch.setattr(Callback, "epoch_ended", lambda self, record: seen.append(record["epoch"]))
    runs.run(tmp_path / "cut", callbacks=(Callback(),), resume=True, **settings)
    assert seen == list(range(2, 9))  # the first epoch had a checkpoint, since its price was not known
    for name in RESULTS:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_the_model_ends_at_its_best_validated_weights(tmp_path):
    run = runs.run(tmp_path / "run", epochs=6)
    volumes = [record["validation"]["hypervolume"] for record in run.history]
    assert run.front.hypervolume() == pytest.approx(max(volumes), rel=1e-12)


def test_while_no_point_is_below_the_reference_the_latest_weights_are_kept(tmp_path):
    out_of_reach = dataclasses.replace(runs.problem(), reference=(1e-9, 1e-9))
    torch.manual_seed(0)
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    with pytest.warns(UserWarning, match="not aligned"):  # data so far from the training data have nothing to say
        run = hf.fit(model, out_of_reach, epochs=4, batch_size=16, out=tmp_path / "run", callbacks=[], align=True)
    assert not model.alignment.any()
    assert {record["validation"]["hypervolume"] for record in run.history} == {0.0}
    assert (
        run.front.losses.tolist() == run.history[-1]["validation"]["losses"] != run.history[0]["validation"]["losses"]
    )


class Falls(hf.EPO):
    """Always falls back."""

    def __call__(self, losses, rays, gram=None):
        weights, status = super().__call__(losses, rays, gram)
        return weights, torch.full_like(status, Status.MIN_NORM)


def test_a_solver_that_falls_back_on_most_rays_is_refused_as_often_as_one_tries(tmp_path):
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    for resume in (False, True, True):
        with pytest.raises(LossError, match="most rays of epoch 1"):
            hf.fit(
                model,
                runs.problem(),
                solver=Falls(),
                epochs=2,
                batch_size=16,
                out=tmp_path / "run",
                resume=resume,
                callbacks=[],
            )
    assert not (tmp_path / "run").exists()


def test_a_criterion_needs_no_reference_point(recwarn):
    problem = dataclasses.replace(runs.problem(), reference=None)
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    settings = {"epochs": 9, "batch_size": 16, "lr": 0.0, "patience": 2, "callbacks": []}
    run = hf.fit(model, problem, criterion=lambda front: -front.losses.sum().item(), **settings)
    assert len(run.history) == 3 and not [w for w in recwarn if "last weights" in str(w.message)]


@pytest.mark.parametrize(
    "criterion", ["hypervolume", lambda front: None, lambda front: "1", lambda front: front.losses]
)
def test_a_criterion_is_a_function_that_returns_a_number(criterion):
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    with pytest.raises(hf.HyperfrontError, match="criterion"):
        hf.fit(model, runs.problem(), criterion=criterion, epochs=1, batch_size=16, callbacks=[])


def test_an_epoch_that_was_stopped_keeps_the_time_it_had_taken(tmp_path):
    class Stop(Callback):
        def stepped(self):
            time.sleep(0.05)
            if next(count) == 4:
                os.kill(os.getpid(), signal.SIGINT)

    count = itertools.count()
    with pytest.raises(KeyboardInterrupt):
        runs.run(tmp_path, epochs=1, callbacks=(Stop(),))
    run = runs.run(tmp_path, epochs=1, resume=True)
    assert run.history[0]["seconds"] >= 0.2


def test_options_of_the_optimizer_are_those_of_the_device_it_goes_on_at(tmp_path):
    runs.run(tmp_path, epochs=1)
    tensors, document = checkpoint.read(tmp_path / "last.safetensors")
    state, packed = trees.unpack(document["training"], tensors), {}
    state["optimizer"]["param_groups"][0]["capturable"] = True  # as a GPU's
    document["training"] = trees.pack(state, "training", packed)
    del document["run"]  # that of one epoch
    checkpoint.write(tmp_path / "last.safetensors", tensors | packed, document)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"epochs": 2}))
    assert len(runs.run(tmp_path, epochs=2, resume=True).history) == 2


def test_training_stops_early_when_validation_no_longer_improves(tmp_path):
    run = runs.run(tmp_path / "run", epochs=50, lr=0.0, patience=3)
    assert len(run.history) == 4
    assert len(runs.run(tmp_path / "run", epochs=50, lr=0.0, patience=3, resume=True).history) == 4


def test_losses_that_break_in_the_middle_are_named_with_epoch_and_step(tmp_path):
    calls = []

    def breaks(output, batch):
        calls.append(1)
        return output.square().mean() * (float("nan") if len(calls) > 12 else 1.0)

    problem = hf.supervised(
        (torch.randn(32, 4),), losses={"fine": lambda output, batch: (output - 1).square().mean(), "breaks": breaks}
    )
    model = hf.wrap(runs.Net(), ["fine", "breaks"], hidden=4)
    with pytest.raises(LossError, match=r"'breaks'.*epoch \d, step \d"):
        hf.fit(model, problem, epochs=4, batch_size=8, out=tmp_path / "run", callbacks=[])
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    assert (tmp_path / "run" / "last.safetensors").exists()


def test_a_data_loader_trains_too_and_resumes_at_epochs(tmp_path):
    data = TensorDataset(*runs.problem().train.source.data)

    def fit(epochs_seen: int | None, out: Path, resume: bool = False) -> hf.Run:
        torch.manual_seed(0)
        loader = DataLoader(data, batch_size=24, shuffle=True)  # 128 rows: 5 batches and a rest
        problem = hf.supervised(loader, loader, losses=dict(runs.problem().measures), reference=(10, 10))
        model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
        return hf.fit(model, problem, epochs=4, rays_per_step=2, out=out, resume=resume, callbacks=[Stop(epochs_seen)])

    class Stop(Callback):
        def __init__(self, after):
            self.after = after

        def epoch_ended(self, record):
            assert record["step"] == 5 * record["epoch"]
            if record["epoch"] == self.after:
                raise RuntimeError("stop")

    whole = fit(None, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="stop"):
        fit(3, tmp_path / "cut")
    fit(None, tmp_path / "cut", resume=True)
    assert whole.front is not None
    for name in RESULTS:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_any_optimizer_and_schedule_can_be_used_and_resumed(tmp_path):
    optimizer = partial(torch.optim.SGD, lr=0.01, momentum=0.9)
    schedule = partial(torch.optim.lr_scheduler.StepLR, step_size=8)
    settings = {"optimizer": optimizer, "schedule": schedule, "epochs": 3}
    run = runs.run(tmp_path / "whole", **settings)
    assert [record["lr"] for record in run.history] == pytest.approx([1e-3, 1e-4, 1e-5])
    with pytest.raises(OSError, match="no space left"):
        runs.run(tmp_path / "cut", callbacks=(Breaks(2),), **settings)
    runs.run(tmp_path / "cut", resume=True, **settings)
    assert (tmp_path / "cut" / "last.safetensors").read_bytes() == (
        tmp_path / "whole" / "last.safetensors"
    ).read_bytes()


class Unbatchable(runs.Net):
    """Looks at a number, which vmap cannot."""

    def forward(self, x):
        hidden = self.body(x)
        return self.head(hidden if hidden.sum() > -1e9 else -hidden)


def test_a_network_that_vmap_gives_up_on_after_its_dropout_resumes_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "Net", Unbatchable)
    runs.run(tmp_path / "whole", epochs=3)
    with pytest.raises(OSError, match="no space left"):
        runs.run(tmp_path / "cut", callbacks=(Breaks(2),), epochs=3)
    runs.run(tmp_path / "cut", resume=True, epochs=3)
    assert (tmp_path / "cut" / "last.safetensors").read_bytes() == (
        tmp_path / "whole" / "last.safetensors"
    ).read_bytes()


@pytest.mark.parametrize("generator", [None, 3])
def test_how_often_one_validates_does_not_change_training_from_a_loader(generator):
    def losses(every: int) -> list:
        plain = runs.problem()
        loaders = {
            part: DataLoader(
                TensorDataset(*plain.sources[part].data),
                batch_size=16,
                shuffle=True,
                generator=None if generator is None else torch.Generator().manual_seed(generator),
            )
            for part in ("train", "val")
        }
        problem = hf.supervised(**loaders, losses=dict(plain.measures), reference=(10, 10))
        torch.manual_seed(0)
        model = hf.wrap(runs.Net(), ["sum", "product"], generate="body.*", hidden=8)
        run = hf.fit(model, problem, epochs=4, validate_every=every, validation_rays=3, callbacks=[])
        return [record["losses"] for record in run.history]

    assert losses(1) == losses(4)


def test_warm_up_and_cosine_have_the_right_learning_rates(tmp_path):
    run = runs.run(tmp_path / "run", epochs=4, lr=0.01, warmup=8, solver=hf.LS())
    rates = [record["lr"] for record in run.history]
    assert rates[0] == pytest.approx(0.01)
    assert rates[-1] == pytest.approx(0.0, abs=1e-12)
    assert rates[1] > rates[2] > rates[3]


def test_the_caller_s_random_numbers_are_left_alone(tmp_path):
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    state = torch.get_rng_state()
    hf.fit(model, runs.problem(), epochs=1, batch_size=32, callbacks=[])
    assert torch.equal(torch.get_rng_state(), state)


def test_tensorboard_holds_what_the_records_hold(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = runs.run(tmp_path / "run", epochs=2, callbacks=(TensorBoard(tmp_path / "board"),))
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    found = [event.value for event in events.Scalars("validation/hypervolume")]
    assert found == pytest.approx([record["validation"]["hypervolume"] for record in run.history])


def test_what_a_solver_remembers_is_resumed_too(tmp_path):
    rays = hf.rays(3, m=2)
    solver = chain(NormalizeByStart(steps=12), Average(rays.tolist()), hf.EPO(), Clip(low=0.01))

    class Stop(Callback):
        def epoch_ended(self, record):
            if record["epoch"] == 3:
                raise RuntimeError("stop")

    def run(folder: Path, **changes) -> hf.Run:
        return runs.run(folder, epochs=4, solver=solver, preferences=FixedRays.of(rays), **changes)

    run(tmp_path / "whole")  # the same solver in all runs: what it remembers of one is no part of the next
    with pytest.raises(RuntimeError, match="stop"):
        run(tmp_path / "cut", callbacks=(Stop(),))
    seen = solver.state()["0"]["mean"]
    run(tmp_path / "cut", resume=True)
    for name in RESULTS:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert torch.equal(solver.state()["0"]["mean"], seen)


class TestTheory:
    def test_epo_reaches_every_point_of_a_concave_front(self):
        problem = build("fonseca", variables=5)
        torch.manual_seed(0)
        run = hf.fit(problem.model(hidden=50), problem, epochs=10, rays_per_step=16, lr=3e-3, callbacks=[])
        assert problem.truth.distance(run.front.losses).max() < 1e-3
        assert indicators.uniformity(run.front.losses, run.front.rays).min() > 0.99
        assert {name for record in run.history for name in record["status"]} <= {"as_named", "floored"}

    def test_linear_scalarization_ends_up_at_the_extremes_of_a_concave_front(self):
        problem = build("fonseca", variables=5)
        torch.manual_seed(0)
        run = hf.fit(
            problem.model(hidden=50), problem, solver=hf.LS(), epochs=20, rays_per_step=16, lr=3e-3, callbacks=[]
        )
        extremes = torch.tensor([[0.0, 0.9817], [0.9817, 0.0]], dtype=torch.float64)  # 1 - exp(-4)
        off_center = (run.front.rays[:, 0] - 0.5).abs() > 0.1  # at 1/2 both extremes are equally good
        nearest = torch.cdist(run.front.losses[off_center], extremes).min(1).values
        assert nearest.max() < 0.05
        assert run.front.convention == "weights"

    def test_hypernetwork_space_reaches_the_front_too(self):
        problem = build("vlmop2")
        torch.manual_seed(0)
        solver = hf.EPO(space="hypernetwork")
        run = hf.fit(
            problem.model(hidden=32), problem, solver=solver, epochs=8, rays_per_step=16, lr=3e-3, callbacks=[]
        )
        assert problem.truth.distance(run.front.losses).max() < 1e-2
        assert indicators.uniformity(run.front.losses, run.front.rays).min() > 0.98

    def test_a_lifted_scalarization_trains_like_a_solver(self):
        problem = build("vlmop2")
        torch.manual_seed(0)
        smooth = lift(lambda losses, rays: (rays * losses / 0.02).logsumexp(-1), convention="inverse")
        run = hf.fit(
            problem.model(hidden=32), problem, solver=smooth, epochs=8, rays_per_step=16, lr=3e-3, callbacks=[]
        )
        assert problem.truth.distance(run.front.losses).max() < 1e-2
        assert run.front.uniformity() > 0.95


class TestBatchNormStatistics:
    @staticmethod
    def fit(x, **settings) -> hf.ParetoModel:
        torch.manual_seed(0)
        problem = hf.supervised(
            (x,), losses={"a": lambda o, b: o.square().mean() + 1, "b": lambda o, b: (o - 1).square().mean() + 1}
        )
        model = hf.wrap(nn.Sequential(nn.BatchNorm1d(1), nn.Linear(1, 1)), ["a", "b"], hidden=4)
        return hf.fit(model, problem, epochs=1, callbacks=[], **settings).model

    def test_they_come_from_all_of_the_data_however_it_is_sorted(self):
        model = self.fit(torch.cat([torch.full((3000, 1), -5.0), torch.full((3000, 1), 5.0)]), batch_size=256)
        assert abs(model.at([0.5, 0.5])[0].running_mean.item()) < 1
        assert model.at([0.5, 0.5])[0].running_var.item() == pytest.approx(25, rel=0.1)

    def test_a_last_batch_of_one_row_does_no_harm(self):
        assert self.fit(torch.randn(101, 1), batch_size=100).at([0.5, 0.5])[0].running_mean.isfinite().all()


def test_weights_that_broke_never_replace_a_checkpoint(tmp_path):
    class Breaks(Callback):
        def __init__(self):
            self.steps = 0

        def stepped(self):
            self.steps += 1
            if self.steps == 16:  # the last step of the second epoch
                next(run_model.parameters()).data.fill_(float("nan"))

    torch.manual_seed(0)
    run_model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    with pytest.raises(LossError, match="epoch 2"):
        hf.fit(run_model, runs.problem(), epochs=3, batch_size=16, out=tmp_path / "run", callbacks=[Breaks()])
    loaded = hf.load(tmp_path / "run" / "last.safetensors", runs.Net())
    assert all(p.isfinite().all() for p in loaded.parameters())


def test_an_interruption_saves_no_weights_that_broke(tmp_path):
    class Breaks(Callback):
        steps = 0

        def stepped(self):
            self.steps += 1
            if self.steps == 11:  # in the second epoch of 8
                next(model.parameters()).data.fill_(float("nan"))
                signal.raise_signal(signal.SIGINT)

    settings = {"epochs": 3, "batch_size": 16, "out": tmp_path / "run"}
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    with pytest.raises(KeyboardInterrupt, match="weights are NaN"):
        hf.fit(model, runs.problem(), callbacks=[Breaks()], **settings)
    resumed = hf.fit(model, runs.problem(), callbacks=[], resume=True, **settings)
    assert [record["epoch"] for record in resumed.history] == [1, 2, 3]
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("where", ["loss", "score", "criterion"])
def test_a_validation_that_says_nothing_is_an_error_at_once(tmp_path, where):
    problem = runs.problem()
    x, y = (tensor.clone() for tensor in problem.val.source.data)
    y[0, 0] = float("nan") if where == "loss" else y[0, 0]
    ratio = hf.Score(lambda output, batch: output.new_tensor(float("nan")), maximize=True)
    undefined = {"ratio": ratio} if where == "score" else {}
    broken = hf.supervised(
        problem.train.source.data, (x, y), losses=problem.measures, scores=undefined, reference=(10, 10)
    )
    said = {"loss": "sum at 5 of 5 rays", "score": "ratio at 5 of 5 rays", "criterion": "criterion"}
    with pytest.raises(LossError, match=said[where]):
        hf.fit(
            hf.wrap(runs.Net(), ["sum", "product"], hidden=4),
            broken,
            epochs=9,
            batch_size=16,
            validation_rays=5,
            criterion=(lambda front: float("nan")) if where == "criterion" else None,
            out=tmp_path / "run",
            callbacks=[],
        )
    assert not (tmp_path / "run").exists()  # free for the next attempt


def test_a_single_row_for_batchnorm_is_an_error_that_says_what_to_do():
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    with pytest.raises(ProblemError, match=r"(?s)a single row.*share_batch=True"):
        hf.fit(model, runs.problem(), epochs=1, batch_size=4, rays_per_step=4, callbacks=[])


def test_a_run_with_a_loader_keeps_the_batch_size_that_the_loader_has(tmp_path):
    problem = runs.problem()
    loader = DataLoader(TensorDataset(*problem.train.source.data), batch_size=32)
    for name, data in (("loader", loader), ("list", list(loader))):
        own = hf.supervised(data, problem.val.source.data, losses=problem.measures, reference=(10, 10))
        model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
        run = hf.fit(model, own, epochs=1, out=tmp_path / name, callbacks=[])
        assert run.folder.read_config()["batch_size"] == (32 if name == "loader" else None)


def test_a_problem_whose_identity_holds_tuples_can_be_resumed(tmp_path):
    def fit(**options) -> hf.Run:
        problem = dataclasses.replace(runs.problem(), identity={"problem": "own", "arguments": {"sizes": (1, 2)}})
        model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
        return hf.fit(model, problem, epochs=1, batch_size=16, out=tmp_path / "run", callbacks=[], **options)

    fit()
    assert fit(resume=True).model.record["arguments"] == {"sizes": [1, 2]}


def test_a_run_that_fails_before_its_first_step_leaves_the_folder_free(tmp_path):
    with pytest.raises(hf.HyperfrontError):
        runs.run(tmp_path / "run", rays_per_step=3)
    runs.run(tmp_path / "run", epochs=1)


def test_a_loader_with_its_own_generator_resumes_exactly(tmp_path):
    data = TensorDataset(*runs.problem().train.source.data)

    class Stop(Callback):
        def __init__(self, after):
            self.after = after

        def epoch_ended(self, record):
            if record["epoch"] == self.after:
                raise RuntimeError("stop")

    def fit(out: Path, after: int, resume: bool = False) -> None:
        torch.manual_seed(0)
        generator = torch.Generator().manual_seed(7)
        loader = DataLoader(data, batch_size=32, shuffle=True, generator=generator)
        problem = hf.supervised(
            loader, runs.problem().val.source, losses=dict(runs.problem().measures), reference=(9, 9)
        )
        model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
        hf.fit(model, problem, epochs=4, out=out, resume=resume, callbacks=[Stop(after)])

    fit(tmp_path / "whole", 99)
    with pytest.raises(RuntimeError, match="stop"):
        fit(tmp_path / "cut", 3)
    fit(tmp_path / "cut", 99, resume=True)
    for name in RESULTS:
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "out of range"),
        ({"lr": -1.0}, "out of range"),
        ({"schedule": "cosin"}, "unknown schedule"),
        ({"schedule": torch.optim.lr_scheduler.ReduceLROnPlateau}, "without a metric"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS"),
        ({"patience": 0}, "patience"),
        ({"warmup": -1}, "out of range"),
        ({"solver": "epo"}, "no solver"),
        ({"solver": hf.EPO}, "no solver"),
        ({"batch_size": 1000}, "larger than the data"),
    ],
)
def test_settings_that_cannot_work_are_refused(tmp_path, settings, message):
    with pytest.raises(hf.HyperfrontError, match=message):
        runs.run(tmp_path / "run", **settings)


def test_a_loader_that_gives_fewer_batches_than_announced_is_an_error():
    class Short(list):
        def __len__(self):
            return 5

    problem = hf.supervised(Short([(torch.ones(4, 4), torch.ones(4, 2))]), losses=dict(runs.problem().measures))
    with pytest.raises(hf.HyperfrontError, match="ended an epoch early"):
        hf.fit(hf.wrap(runs.Net(), ["sum", "product"], hidden=4), problem, epochs=1, callbacks=[])


def test_without_a_reference_point_one_is_told_that_nothing_is_selected():
    base = runs.problem()
    problem = hf.supervised(base.train.source, base.val.source, losses=dict(base.measures))
    with pytest.warns(UserWarning, match="the last weights are kept"):
        run = hf.fit(hf.wrap(runs.Net(), ["sum", "product"], hidden=4), problem, epochs=2, batch_size=32, callbacks=[])
    assert run.history[-1]["validation"]["losses"] == run.front.losses.tolist()
    assert len(repr(run)) < 200


def test_one_is_told_of_a_hypernetwork_that_ignores_its_ray():
    model = hf.wrap(runs.Net(), ["sum", "product"], hidden=4)
    nn.init.constant_(model.hypernet.second.bias, -1e6)  # no unit is positive at any ray, nor has a gradient
    with pytest.warns(UserWarning, match="25 rays"):
        hf.fit(model, runs.problem(), epochs=1, batch_size=16, callbacks=[])


def test_a_run_that_fails_in_its_first_step_does_not_keep_its_folder(tmp_path):
    with pytest.raises(hf.HyperfrontError, match="several rays"):
        runs.run(tmp_path / "run", solver=HVMax(), rays_per_step=1, epochs=1)
    assert not (tmp_path / "run").exists()
    runs.run(tmp_path / "run", solver=HVMax(), rays_per_step=2, epochs=1)


def test_patience_needs_validation_data():
    problem = build("zdt2", variables=2)
    with pytest.raises(hf.HyperfrontError, match="validation data"):
        hf.fit(problem.model(), problem, epochs=2, patience=1, callbacks=[])


@pytest.mark.parametrize(("named", "refused"), [(60, False), (50, False), (49, True)])
def test_a_solver_may_fall_back_on_half_of_the_rays(named, refused):
    record = {"epoch": 1, "status": {"as_named": named, "relaxed": 25, "min_norm": 25}}
    with pytest.raises(LossError, match=r"EPO.*epoch 1") if refused else nullcontext():
        loop._refuse_fallbacks(record, hf.EPO())


def test_where_there_is_no_terminal_progress_is_a_line_now_and_then_and_one_at_the_end(monkeypatch, capsys):
    problem = build("vlmop2")
    for seconds, epochs in ((1e9, [3]), (0.0, [1, 2, 3])):
        monkeypatch.setattr("hyperfront.training.progress.LOG_EVERY", seconds)
        hf.fit(problem.model(hidden=4), problem, epochs=3)
        printed = capsys.readouterr().err.splitlines()
        assert [line.split("  ")[0] for line in printed] == [f"epoch {k}/3" for k in epochs]
    assert "HV=" in printed[-1] and "l2=" in printed[-1]


def test_while_a_run_trains_in_a_folder_no_other_does(uninterrupted, tmp_path):
    class Another(Callback):
        def epoch_ended(self, record):
            with torch.random.fork_rng(), pytest.raises(CheckpointError, match="another process"):
                runs.run(tmp_path / "run", resume=True)

    runs.run(tmp_path / "run", callbacks=(Another(),))
    assert all((tmp_path / "run" / name).read_bytes() == (uninterrupted / name).read_bytes() for name in RESULTS)
    assert len(runs.run(tmp_path / "run", resume=True).history) == 12  # it is free again


def test_a_run_of_a_problem_of_ones_own_asks_for_the_module_whatever_its_name(tmp_path):
    problem = dataclasses.replace(runs.problem(), identity={"problem": "mine"})
    hf.fit(hf.wrap(runs.Net(), ["sum", "product"]), problem, epochs=1, batch_size=16, out=tmp_path, callbacks=())
    with pytest.raises(CheckpointError, match="module"):
        hf.load(tmp_path)
    assert hf.load(tmp_path, target=runs.Net()).record["problem"] == "mine"
