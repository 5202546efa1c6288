"""Cells of the table that are known to be wrong or to fail today, and are to become right or refused."""

CASES: dict[str, set[str]] = {
    "EmbeddingBag, sparse": {"*"},
    "weight_norm, old": {"*"},
    "parameter under a hidden name": {"deepcopy"},
    "dataclass as output": {"at(ray)", "reload"},
    "activation kept on the module": {"fit"},
    "torch.jit.script": {"deepcopy"},
    "torch.jit.trace": {"deepcopy"},
    "transformers: GPT-2 with a cache": {"at(ray)", "reload"},
}
"""Features under which a case may still be wrong or fail, by its name; ``"*"`` stands for all."""


def pending(case: str, feature: str) -> bool:
    """Whether a cell may be wrong or fail for now."""
    return bool(CASES.get(case, set()) & {feature, "*"})
