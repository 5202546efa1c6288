"""Nests: tuples, lists and dicts of any depth that hold tensors and other leaves. optree walks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import optree
import torch
from torch import Tensor

NAMESPACE = "hyperfront"
"""Our namespace of optree, in which dicts keep their order; in others optree sorts keys. The setting is never undone,
since other threads walk nests too."""
_ORDER = optree.dict_insertion_ordered(True, namespace=NAMESPACE)
_ORDER.__enter__()


def map_leaves(
    function: Callable[..., Any], nest: Any, *others: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Apply ``function`` to every leaf of the nest, and to the same places of ``others``. A leaf is no container.

    None is a leaf. Subclasses of dict, list and tuple become plain ones.
    """

    def visit(leaf: Any, *rest: Any) -> Any:
        inner = None if is_leaf and is_leaf(leaf) else _plain(leaf)
        if inner is None:
            return function(leaf, *rest)
        return map_leaves(function, inner, *map(_plain, rest), is_leaf=is_leaf)

    return optree.tree_map(visit, nest, *others, is_leaf=is_leaf, none_is_leaf=True, namespace=NAMESPACE)


def map_tensors(function: Callable[..., Any], nest: Any, *others: Any) -> Any:
    """Apply ``function`` to every tensor (and to the same places of ``others``); other leaves are unchanged.

    >>> map_tensors(len, {"x": torch.zeros(3, 2), "name": "a"})
    {'x': 3, 'name': 'a'}
    """
    return map_leaves(lambda leaf, *rest: function(leaf, *rest) if isinstance(leaf, Tensor) else leaf, nest, *others)


def tensors(nest: Any) -> list[Tensor]:
    """All tensors of the nest, in order."""
    found: list[Tensor] = []
    map_tensors(found.append, nest)
    return found


def named(nest: Any, name: str) -> list[tuple[str, Tensor]]:
    """The tensors of a nest, in order, named by the keys and positions that lead to them.

    >>> [name for name, _ in named((torch.zeros(1), {"mask": torch.zeros(1)}), "x")]
    ['x_0', 'x_1_mask']
    """
    plain = map_leaves(lambda leaf: leaf, nest)
    paths, leaves, _ = optree.tree_flatten_with_accessor(plain, namespace=NAMESPACE)
    found = zip(paths, leaves)
    return [("_".join([name] * bool(name) + _steps(path)), leaf) for path, leaf in found if isinstance(leaf, Tensor)]


def _steps(path: optree.PyTreeAccessor) -> list[str]:
    """The keys, fields or positions that lead to a leaf."""
    return [str(getattr(entry, "field", entry.entry)) for entry in path]


def _plain(leaf: Any) -> Any:
    """Convert a subclass of a container to the container that optree knows; None for a leaf."""
    if isinstance(leaf, Mapping):
        return dict(leaf)
    if isinstance(leaf, list):
        return list(leaf)
    return tuple(leaf) if isinstance(leaf, tuple) and not isinstance(leaf, torch.Size) else None
