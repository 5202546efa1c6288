"""Cells of the table that are known to be wrong or to fail today, and are to become right or refused."""

EVERYWHERE = {"checkpointing"}
"""Features under which every case may still be wrong."""
CASES: dict[str, set[str]] = {
    "Embedding, max_norm": {"*"},
    "EmbeddingBag, sparse": {"*"},
    "weight_norm, old": {"*"},
    "spectral_norm, old": {"fit"},
    "buffer assigned": {"*"},
    "parameters in a Python list": {"*"},
    "parameter under a hidden name": {"*"},
    "layers in a Python list": {"fit"},
    "function that holds a layer": {"*"},
    "checkpoint inside": {"*"},
    "checkpoint inside, with dropout": {"*"},
    "checkpoint in segments": {"*"},
    "backward pass by hand that runs a layer again": {"*"},
    "dataclass as output": {"at(ray)", "reload"},
    "activation kept on the module": {"fit"},
    "torch.jit.script": {"deepcopy"},
    "torch.jit.trace": {"deepcopy"},
    "transformers: BERT, checkpointing": {"*"},
    "transformers: GPT-2, checkpointing": {"*"},
    "transformers: Llama, checkpointing": {"*"},
    "transformers: GPT-2 with a cache": {"at(ray)", "reload"},
}
"""Features under which one case may still be wrong, by its name; ``"*"`` stands for all."""


def pending(case: str, feature: str) -> bool:
    """Whether a cell may be wrong for now."""
    return feature in EVERYWHERE or bool(CASES.get(case, set()) & {feature, "*"})
