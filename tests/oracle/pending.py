"""Cells of the table that are known to be wrong or to fail today, and are to become right or refused."""

CASES: dict[str, set[str]] = {
    "parameter under a hidden name": {"deepcopy"},
    "torch.jit.script": {"deepcopy"},
    "torch.jit.trace": {"deepcopy"},
}
"""Features under which a case may still be wrong or fail, by its name; ``"*"`` stands for all."""


def pending(case: str, feature: str) -> bool:
    """Whether a cell may be wrong or fail for now."""
    return bool(CASES.get(case, set()) & {feature, "*"})
