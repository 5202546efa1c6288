"""Every module of the zoo against plain autograd: right, or refused with the words that the zoo expects.

Each case runs under the features that have found most, and under four of the others in turn, so that all features meet
many cases. ``python -m tests.oracle`` runs all of them.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

import hyperfront as hf
from tests.oracle.__main__ import main
from tests.oracle.case import Case
from tests.oracle.features import COMPILED, FEATURES, ON_GPU, Feature
from tests.oracle.oracle import Outcome, examine, worst
from tests.oracle.zoo import CASES

ALWAYS = ("EPO", "checkpointing", "at(ray)")
OTHERS = [name for name in FEATURES if name not in ALWAYS]
CHOSEN = {
    name: (*ALWAYS, *(OTHERS[(4 * turn + more) % len(OTHERS)] for more in range(4))) for turn, name in enumerate(CASES)
}


def assert_as_expected(case: Case, feature: str, outcome: Outcome) -> None:
    words = case.expects(feature)
    if words is None:
        assert outcome.kind in ("right", "not applicable"), f"{feature}: {outcome}"
    else:
        assert outcome.kind == "refused", f"{feature}: {outcome}, where a refusal was expected"
        assert words in outcome.message, f"{feature}: {outcome}"


@pytest.mark.parametrize("name", CASES)
def test_a_module_is_driven_as_plain_autograd_would_or_refused(name):
    case = CASES[name]
    if case.missing:
        pytest.skip(f"{', '.join(case.missing)} is not installed: pip install -e '.[modules]'")
    outcomes = {feature: examine(case, feature, FEATURES[feature]) for feature in CHOSEN[name]}
    for feature, outcome in outcomes.items():
        assert_as_expected(case, feature, outcome)
    assert {outcome.kind for outcome in outcomes.values()} != {"not applicable"}, "the case tests nothing"


def test_the_zoo_is_large_and_every_feature_meets_many_cases():
    assert len(CASES) >= 60
    counts = {feature: sum(feature in chosen for chosen in CHOSEN.values()) for feature in FEATURES}
    assert min(counts.values()) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.compiled][::4])
def test_compiled_steps_are_those_of_plain_autograd(name):
    assert_as_expected(CASES[name], "compiled", examine(CASES[name], "compiled", COMPILED["compiled"]))


@pytest.mark.gpu
@pytest.mark.parametrize("name", CASES)
def test_every_engine_and_stream_setting_is_right_on_a_gpu(name):
    case = CASES[name]
    if case.missing:
        pytest.skip(f"{', '.join(case.missing)} is not installed: pip install -e '.[modules]'")
    for feature, setting in ON_GPU.items():
        for _ in range(3):
            outcome = examine(case, feature, setting, "cuda")
            assert outcome.kind != "wrong", f"{feature}: {outcome}"


class Detached(nn.Module):
    """A module that tells generated weights from its own, and gives them a wrong gradient."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.a(x))
        if type(self.a.weight) is not nn.Parameter:
            hidden = hidden + 0.001 * (hidden - hidden.detach())
        return self.b(hidden)


def test_the_oracle_sees_a_gradient_that_is_wrong_by_a_thousandth():
    case = Case("detached", Detached, lambda: torch.randn(6, 4))
    outcome = examine(case, "loop", FEATURES["loop"])
    assert outcome.kind == "wrong"
    assert 1e-4 < outcome.error < 1e-2
    assert examine(case, "at(ray)", FEATURES["at(ray)"]).kind == "right"  # outputs are the same


def test_the_oracle_sees_a_solver_that_is_not_the_one_it_was_asked_for(monkeypatch):
    monkeypatch.setattr(hf.EPO, "__call__", lambda self, losses, rays, gram=None: hf.LS()(losses, rays))
    feature = Feature(solver=hf.EPO())
    assert examine(CASES["MLP"], "EPO", feature).kind == "right"  # both sides have it
    calls = itertools.count()
    monkeypatch.setattr(
        hf.EPO,
        "__call__",
        lambda self, losses, rays, gram=None: hf.LS()(losses, rays.flip(-1) if next(calls) else rays),
    )
    assert examine(CASES["MLP"], "EPO", feature).kind == "wrong"


def test_errors_are_relative_to_each_tensor():
    assert worst([torch.tensor([1.0, 2.2])], [torch.tensor([1.0, 2.0])]) == pytest.approx(0.1)
    assert worst([torch.tensor([float("nan")])], [torch.ones(1)]) == float("inf")


def test_the_command_writes_the_table(tmp_path, capsys):
    wrong = main(["--only", "RMSNorm", "lazy", "--markdown", str(tmp_path / "table.md")])
    text = (tmp_path / "table.md").read_text()
    assert "| RMSNorm | " in text
    assert f"**{wrong} silently wrong**" in text
    assert "refused (" in text and "uninitialized" in text
    assert "2 modules" in capsys.readouterr().out
