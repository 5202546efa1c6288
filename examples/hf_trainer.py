"""A Hugging Face ``Trainer`` with a Transformer: one method is overridden, everything else is the Trainer's.

The model is a small BERT with random weights, made from a configuration: nothing is downloaded. Its two logits answer
two questions about the same text, which are in conflict.

    pip install transformers accelerate
    python examples/hf_trainer.py
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hyperfront as hf


def dataset(rows: int) -> list[dict[str, Tensor]]:
    """Random tokens; "first" asks whether the first token is small, "many" whether the tokens are small on average."""
    tokens = torch.randint(0, 32, (rows, 8), generator=torch.Generator().manual_seed(0))
    first, many = (tokens[:, 0] < 16).long(), (tokens.float().mean(1) < 15.5).long()
    return [{"input_ids": t, "first": a, "many": b} for t, a, b in zip(tokens, first, many)]


def make_trainer(model: hf.ParetoModel, rows: list[dict[str, Tensor]], folder: str | Path, **settings: Any) -> Any:
    """A trainer of ``model``; ``settings`` are those of ``transformers.TrainingArguments``."""
    from transformers import Trainer, TrainingArguments

    class ParetoTrainer(Trainer):
        """Every step draws a ray and takes the gradient of its trade-off."""

        solver, preferences = hf.LS(), hf.Dirichlet(0.5)

        def training_step(self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None) -> Tensor:
            model.train()
            inputs = self._prepare_inputs(inputs)

            def losses(net: Any) -> list[Tensor]:
                logits = net(input_ids=inputs["input_ids"]).logits
                return [F.cross_entropy(logits, inputs[name]) for name in ("first", "many")]

            generator = torch.Generator().manual_seed(self.state.global_step)  # one ray for all micro-batches of a step
            rays = self.preferences.sample(1, 2, generator)
            share = 1 / self.current_gradient_accumulation_steps
            result = hf.backward(model, rays, losses, solver=self.solver, scale=share)
            return result.losses.mean() * share

    defaults = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 2, "learning_rate": 3e-3}
    fixed = {"remove_unused_columns": False}  # the Trainer would look for their names in the model's own forward
    quiet = {"report_to": "none", "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments(str(folder), **(defaults | settings), **fixed, **quiet)
    return ParetoTrainer(model=model, args=arguments, train_dataset=rows)


def make_model(dropout: float = 0.1) -> hf.ParetoModel:
    """A small BERT as a function of rays."""
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32,
        max_position_embeddings=8,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        attn_implementation="eager",  # vmap batches it; it has no rule for the fused one
    )
    return hf.wrap(BertForSequenceClassification(config), objectives=["first", "many"], hidden=32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smallest settings: shows in seconds that the script runs")
    options = parser.parse_args()
    missing = [name for name in ("transformers", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"this script needs {' and '.join(missing)}: pip install {' '.join(missing)}")
        return

    model, rows = make_model(), dataset(64 if options.quick else 2048)
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(model, rows, folder, max_steps=4 if options.quick else 300, logging_steps=100)
        trainer.train()

    problem = hf.supervised(
        {name: torch.stack([row[name] for row in rows]) for name in rows[0]},
        losses={
            "first": lambda output, batch: F.cross_entropy(output.logits, batch["first"]),
            "many": lambda output, batch: F.cross_entropy(output.logits, batch["many"]),
        },
        inputs=lambda batch: {"input_ids": batch["input_ids"]},
    )
    front = hf.evaluate(model, problem.train, rays=5)
    for ray, losses in zip(front.rays.tolist(), front.losses.tolist()):
        print("ray", [f"{entry:.2f}" for entry in ray], "losses", [f"{loss:.3f}" for loss in losses])


if __name__ == "__main__":
    main()
