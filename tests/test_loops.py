"""Every block of code in docs/loops.md runs, section by section; the recipes do what they promise."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import hyperfront as hf

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "loops.md").read_text()
SECTIONS = {
    title: re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for title, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
}
NEEDS = {
    "Lightning": ["lightning"],
    "The Hugging Face Trainer": ["transformers", "accelerate"],
    "accelerate": ["accelerate"],
    "MLflow and Weights & Biases": ["mlflow", "wandb"],
}
pytestmark = pytest.mark.filterwarnings("ignore")  # advice of other tools


def needed(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package, reason=f"needs {package}: pip install -e '.[test]'")


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A folder for files; Weights & Biases looks for no network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")  # which the page sets, and nobody else should see
    return tmp_path


@pytest.mark.parametrize("section", [title for title, blocks in SECTIONS.items() if blocks])
def test_the_blocks_of_a_section_run_in_order(section, elsewhere):
    needed(*NEEDS.get(section, ()))
    names: dict = {"k": 4}
    for block in [*SECTIONS["The loop"], *(SECTIONS[section] if section != "The loop" else ())]:
        exec(compile(block, f"docs/loops.md, {section}", "exec"), names)  # our own text
    models = [value for value in names.values() if isinstance(value, hf.ParetoModel)]
    assert models and all(p.isfinite().all() for model in models for p in model.parameters())


def test_what_the_page_points_to_exists():
    titles = {
        re.sub(r"[^a-z0-9 -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^## (.*)", PAGE, re.M)
    }
    for file, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", PAGE):
        assert not file or (ROOT / "docs" / file).exists(), file
        assert not anchor or anchor in titles, anchor
    assert "(docs/loops.md)" in (ROOT / "README.md").read_text()


def parameters(model: hf.ParetoModel) -> list[torch.Tensor]:
    return [p.detach().clone() for p in model.parameters()]


class TestAccelerate:
    def test_what_was_saved_is_loaded_also_into_a_model_that_has_statistics(self, tmp_path):
        """Empty statistics and alignments once looked like one shared tensor to the writer of the file."""
        needed("accelerate")
        from accelerate import Accelerator

        def prepared() -> hf.ParetoModel:
            net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
            return hf.wrap(net, ["left", "right"], hidden=8)

        torch.manual_seed(0)
        before, after = prepared(), prepared()
        accelerator, x = Accelerator(cpu=True), torch.randn(8, 4)
        accelerator.prepare(before)
        accelerator.save_state(str(tmp_path / "fresh"))
        before.calibrate([x])
        accelerator.save_state(str(tmp_path / "calibrated"))
        accelerator = Accelerator(cpu=True)
        accelerator.prepare(after)
        accelerator.load_state(str(tmp_path / "calibrated"))
        before.eval(), after.eval()
        assert torch.equal(before(x, [[0.3, 0.7]]), after(x, [[0.3, 0.7]]))
        accelerator.load_state(str(tmp_path / "fresh"))
        assert not len(after.target.statistics)

    def test_the_recipe_resumes_exactly(self, tmp_path):
        needed("accelerate")
        recipe = importlib.import_module("examples.accelerate_loop")
        whole = recipe.train(range(4), tmp_path / "whole")
        recipe.train(range(2), tmp_path / "halves")
        resumed = recipe.train(range(2, 4), tmp_path / "halves")
        assert all(map(torch.equal, parameters(whole), parameters(resumed)))


class TestTrainer:
    def test_an_accumulated_step_is_that_of_the_whole_batch(self, tmp_path):
        needed("transformers", "accelerate")
        recipe = importlib.import_module("examples.hf_trainer")
        rows = recipe.dataset(32)
        found = []
        for parts in (1, 2):
            model = recipe.make_model(dropout=0.0)
            trainer = recipe.make_trainer(
                model,
                rows,
                tmp_path,
                max_steps=1,
                per_device_train_batch_size=32 // parts,
                gradient_accumulation_steps=parts,
                optim="sgd",
                learning_rate=1.0,
                max_grad_norm=0.0,
                lr_scheduler_type="constant",
                save_strategy="no",
            )
            before = parameters(model)
            trainer.train()
            found.append([old - new for old, new in zip(before, parameters(model))])
        assert any(step.abs().max() > 1e-3 for step in found[0])
        for whole, summed in zip(*found):
            torch.testing.assert_close(summed, whole, atol=1e-6, rtol=1e-3)

    def test_the_recipe_resumes_exactly(self, tmp_path):
        needed("transformers", "accelerate")
        recipe = importlib.import_module("examples.hf_trainer")
        rows, found = recipe.dataset(64), []
        for folder, stops in (("whole", [6]), ("halves", [3, 6])):
            for stop in stops:
                model = recipe.make_model()
                settings = {"max_steps": stop, "save_steps": 3, "lr_scheduler_type": "constant"}
                trainer = recipe.make_trainer(model, rows, tmp_path / folder, **settings)
                trainer.train(resume_from_checkpoint=stop != stops[0])
            found.append(parameters(model))
        assert all(map(torch.equal, *found))
