"""Nests: tuples, lists, dicts and other containers of any depth that hold tensors and other leaves.

optree walks them; :mod:`hyperfront.storage.containers` opens the containers that optree does not know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import optree
from torch import Tensor

from hyperfront.errors import HyperfrontError
from hyperfront.storage.containers import opened

NAMESPACE = "hyperfront"
"""Our namespace of optree, in which dicts keep their order; in others optree sorts keys. The setting is never undone,
since other threads walk nests too."""
_ORDER = optree.dict_insertion_ordered(True, namespace=NAMESPACE)
_ORDER.__enter__()


def map_leaves(
    function: Callable[..., Any], nest: Any, *others: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply ``function`` to every leaf of the nest, and to the leaves of ``others`` in the same places.

    Everything that is no container is a leaf, also None. Containers keep their types.
    """

    def visit(leaf: Any, *rest: Any) -> Any:
        if isinstance(leaf, Tensor) or (is_leaf and is_leaf(leaf)) or (found := opened(leaf)) is None:
            return function(leaf, *rest)
        parts = map_leaves(function, found.parts, *(_parts(other, leaf) for other in rest), is_leaf=is_leaf)
        return found.close(parts)

    try:
        return optree.tree_map(visit, nest, *others, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError:
        raise _too_deep() from None


def _too_deep() -> HyperfrontError:
    return HyperfrontError("a nest of containers is too deep", expected="at most a few hundred levels")


def map_tensors(function: Callable[..., Any], nest: Any, *others: Any) -> Any:
    """Apply ``function`` to every tensor (and to the leaves of ``others`` in its place); keep the other leaves.

    >>> import torch
    >>> map_tensors(len, {"x": torch.zeros(3, 2), "name": "a"})
    {'x': 3, 'name': 'a'}
    """
    return map_leaves(lambda leaf, *rest: function(leaf, *rest) if isinstance(leaf, Tensor) else leaf, nest, *others)


def tensors(nest: Any) -> list[Tensor]:
    """Return all tensors of the nest, in order."""
    return [leaf for leaf in things(nest) if isinstance(leaf, Tensor)]


def things(nest: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return all leaves of the nest, in order."""
    found: list[Any] = []
    try:
        leaves = optree.tree_leaves(nest, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE)
    except RecursionError:
        raise _too_deep() from None
    for leaf in leaves:
        known = isinstance(leaf, Tensor) or (is_leaf and is_leaf(leaf))
        inner = None if known else opened(leaf)
        found += [leaf] if inner is None else things(inner.parts, is_leaf)
    return found


def named(nest: Any, name: str) -> list[tuple[str, Tensor]]:
    """Return the tensors of a nest, in order, named by the keys and positions that lead to them.

    >>> import torch
    >>> [name for name, _ in named((torch.zeros(1), {"mask": torch.zeros(1)}), "x")]
    ['x_0', 'x_1_mask']
    """
    found = leaves(nest)
    return [("_".join([name] * bool(name) + path), leaf) for path, leaf in found if isinstance(leaf, Tensor)]


def leaves(nest: Any) -> list[tuple[list[str], Any]]:
    """Return all leaves of a nest, in order, each with the keys, fields or positions that lead to it.

    >>> leaves({"x": (1, 2)})
    [(['x', '0'], 1), (['x', '1'], 2)]
    """
    paths, found, _ = optree.tree_flatten_with_accessor(nest, none_is_leaf=True, namespace=NAMESPACE)
    every = []
    for path, leaf in zip(paths, found):
        inner = None if isinstance(leaf, Tensor) else opened(leaf)
        below = [([], leaf)] if inner is None else leaves(inner.parts)
        every += [(_steps(path) + steps, inmost) for steps, inmost in below]
    return every


def _steps(path: optree.PyTreeAccessor) -> list[str]:
    """The keys, fields or positions that lead to a leaf."""
    return [str(getattr(entry, "field", entry.entry)) for entry in path]


def _parts(other: Any, like: Any) -> Any:
    """Return the parts of ``other``, which must be a container of the same type as ``like``."""
    found = opened(other) if type(other) is type(like) else None
    if found is None:
        raise ValueError(f"expected a {type(like).__name__}, got a {type(other).__name__}")
    return found.parts
