"""The splits of a problem: sources that the user passes, or that are loaded at the first access, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import ProblemError
from hyperfront.problem.sources import Augmentation, LoaderSource, NoData, Source, TensorSource
from hyperfront.storage.nests import tensors

CALIBRATION = "calibration"


class Deferred(Mapping[str, Source]):
    """The splits of a problem by name, loaded all together at the first access to one of them.

    So a model of a built-in problem can be loaded on a machine without its data. Only loading shows whether there is a
    ``calibration`` split, so asking for it loads the data.
    """

    def __init__(
        self,
        load: Callable[[], Mapping[str, Any]],
        names: Sequence[str],
        augment: Augmentation | None,
        counted: bool = False,
    ):
        self._load, self._names, self._augment, self._counted = load, tuple(names), augment, counted
        self._loaded: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in (*self._names, CALIBRATION):
            raise KeyError(name)
        return self._all()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names or (name == CALIBRATION and name in self._all())

    def _all(self) -> dict[str, Source]:
        if not self._loaded:
            self._loaded = self._read()
        return self._loaded

    def _read(self) -> dict[str, Source]:
        try:
            splits = self._load()
        except KeyError as error:  # in a mapping, KeyError would mean an unknown name
            raise ProblemError("the data cannot be loaded", got=repr(error)) from error
        if any(name not in splits for name in self._names):
            raise ProblemError("the data lack a split", got=", ".join(splits), expected=", ".join(self._names))
        return as_sources(splits, self._augment, self._counted)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def as_sources(
    splits: Mapping[str, Any], augment: Augmentation | None = None, counted: bool = False
) -> dict[str, Source]:
    """Make a source for each split; the training split is augmented."""
    sources = {name: as_source(data, counted) for name, data in splits.items()}
    _refuse_shared_rows(sources)
    if augment is not None:
        train = sources["train"]
        if not isinstance(train, TensorSource):
            raise ProblemError(
                "only data held as tensors can be augmented", got=type(train).__name__, fix="augment in the loader"
            )
        sources["train"] = TensorSource(train.data, augment)
    return sources


def _refuse_shared_rows(sources: Mapping[str, Source]) -> None:
    """Raise an error if another split has calibration rows: they must not have chosen anything."""
    if CALIBRATION not in sources:
        return
    own = sources[CALIBRATION]
    for name, other in sources.items():
        if name != CALIBRATION and (other is own or len(np.intersect1d(_places(other), _places(own)))):
            raise ProblemError(
                f"the calibration split has rows of the {name} split",
                expected="rows that no other split has",
                fix="split the rows once, for example 60 % train, 15 % val, 15 % calibration and 10 % test",
            )


def _places(source: Source) -> np.ndarray:
    """Return the addresses of a source's rows in memory; a loader has one address."""
    if not isinstance(source, TensorSource):
        return np.array([id(getattr(source, "loader", source))])
    held = [tensor for tensor in tensors(source.data) if tensor.ndim and tensor.numel()]
    steps = ((t.data_ptr(), t.stride(0) * t.element_size(), len(t)) for t in held)
    return np.concatenate([start + step * np.arange(count) for start, step, count in steps])


def as_source(data: Any, counted: bool = False) -> Source:
    """Make the source for data that a user passes as a split; with ``counted`` the problem counts rows itself."""
    if isinstance(data, TensorSource | LoaderSource | NoData):
        return data
    _refuse_misread(data)
    is_nest = isinstance(data, Tensor | tuple | Mapping) or dataclasses.is_dataclass(data)
    if isinstance(data, torch.utils.data.TensorDataset) or (is_nest and tensors(data)):
        if counted:
            raise ProblemError(
                "the rows of tensors in memory are their first dimension",
                got="rows= for a split that is held as tensors",
                fix="pass a list of batches or a DataLoader, or leave rows= out",
            )
        return TensorSource(data.tensors if isinstance(data, torch.utils.data.TensorDataset) else data)
    if isinstance(data, Iterable) and hasattr(data, "__len__") and not isinstance(data, str | Mapping):
        return LoaderSource(data, counted)
    raise ProblemError(
        "a split must be tensors or a sized iterable of batches",
        got=type(data).__name__,
        expected="(x, y, ...) tensors, a dict of tensors, a TensorDataset, a DataLoader or a list of batches",
        fix="put a map-style Dataset into torch.utils.data.DataLoader(dataset, batch_size=..., shuffle=True)",
    )


def _refuse_misread(data: Any) -> None:
    """Raise an error for DataFrames, arrays, and lists of tensors."""
    held = data.values() if isinstance(data, Mapping) else data if isinstance(data, tuple | list) else [data]
    if frames := [part for part in held if hasattr(part, "to_numpy")]:  # of pandas and polars
        raise ProblemError(
            "a split holds columns of a table, not tensors",
            got=type(frames[0]).__module__.split(".")[0] + " " + type(frames[0]).__name__,
            fix="hyperfront.tabular.problem(frame, target) takes a DataFrame; "
            "or tensors: torch.tensor(frame.to_numpy(), dtype=torch.float32)",
        )
    if any(isinstance(part, np.ndarray) for part in held):
        raise ProblemError("a split holds arrays", got="numpy arrays", fix="(torch.as_tensor(x), torch.as_tensor(y))")
    if isinstance(data, list) and data and all(isinstance(part, Tensor) for part in data):
        raise ProblemError(
            "a split is a list of tensors, which could mean columns or batches",
            fix="columns: a tuple (x, y, ...); batches: a list of tuples [(x, y, ...), ...]",
        )
