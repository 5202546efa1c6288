"""Summary of a model: its numbers of generated, trained and frozen weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from hyperfront.model.roles import Role

if TYPE_CHECKING:
    from hyperfront.model.pareto_model import ParetoModel


def title(model: ParetoModel) -> str:
    """Describe the model in one line."""
    return f"{type(model.target.skeleton).__name__} as a function of rays over {', '.join(model.objectives)}"


def counts(model: ParetoModel) -> list[tuple[str, int, str]]:
    """List the kinds of numbers in the model, each with its name, count and description."""
    target = model.target
    sizes = {role: [spec.size for spec in target.tensors if spec.role == role] for role in get_args(Role)}
    own = sum(p.numel() for p in model.hypernet.parameters())
    trained, whole = own + sum(sizes["trained"]), sum(map(sum, sizes.values())) - sum(sizes["buffer"])
    each = own / target.n
    rows = [
        ("generated", target.n, target.assembly.describe()),
        ("trained", sum(sizes["trained"]), "weights directly, shared by all rays"),
        ("frozen", sum(sizes["frozen"]), "weights"),
        ("hypernetwork", own, f"parameters, {each:,.{1 if each >= 1 else 3}f} for each number generated"),
        ("in all", trained, f"parameters to train, {trained / whole:,.2f} times the target's"),
        ("BatchNorm", len(target.norms), f"layer(s), statistics: {target.batchnorm}"),
    ]
    return [row for row in rows if row[1]]
