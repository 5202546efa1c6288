"""``problem``: from a table to objectives, splits and a network."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import CheckpointError, DataError, ProblemError, shown, unknown_name
from hyperfront.errors.signatures import checked, checked_except
from hyperfront.problem import Problem, supervised
from hyperfront.tabular import objectives as named
from hyperfront.tabular.columns import Columns, Table, columns_of
from hyperfront.tabular.discovery import SMALLEST, Wishes, check_names, discover, with_target
from hyperfront.tabular.kinds import Kind
from hyperfront.tabular.network import Kind as NetworkKind
from hyperfront.tabular.network import TableNet
from hyperfront.tabular.objectives import Objectives
from hyperfront.tabular.reading import digest, load_bytes, parse
from hyperfront.tabular.recipe import MODEL, SOLVER, recipe_for
from hyperfront.tabular.schema import Schema, Task
from hyperfront.tabular.showing import presentation
from hyperfront.tabular.splits import SHARES, Plan, caveat, check_classes, check_groups, split_column, split_rows

Splits = dict[str, tuple[Tensor, ...]]


@checked_except("kinds", "network", "split")
def problem(
    data: Table | str | Path,
    target: str,
    *,
    sensitive: str | Sequence[str] = (),
    objectives: Objectives | None = None,
    scores: Sequence[str] = (),
    kinds: Mapping[str, Kind] | None = None,
    cuts: Mapping[str, Sequence[float]] | None = None,
    labels: Mapping[str, str] | None = None,
    task: Task | None = None,
    positive: object = None,
    split: Plan = "rows",
    shares: Mapping[str, float] = SHARES,
    smallest_group: int = SMALLEST,
    network: NetworkKind = "mlp",
    encoding: str | None = None,
    seed: int = 0,
) -> Problem:
    """Make a problem of a table: a DataFrame of pandas or polars, or the path of a CSV or Parquet file.

    Args:
        data: The table. A run remembers a path and the file's SHA-256, and reads the file again when they agree.
        target: The column to predict: two classes, several classes, or numbers.
        sensitive: The columns whose values divide the rows into groups; several columns make a group for each
            combination. They are also inputs, unless ``kinds={"column": "ignore"}``. Rows with a missing value are in
            no group.
        objectives: Names of :mod:`hyperfront.tabular.objectives`, in order; or a mapping from the name of a loss to
            such a name or to a function ``f(output, (numbers, categories, target, group))``.
        scores: Names of further scores, beside the usual ones.
        kinds: The kind of a column, where it should not be found from its values: ``"number"``, ``"category"``,
            ``"date"`` or ``"ignore"``.
        cuts: Where the numbers of a sensitive column are cut into groups, ``{"age": (25, 60)}``.
        labels: Words for the columns, for readers.
        task: ``"binary"``, ``"classes"`` or ``"regression"``, where it should not be found from the target.
        positive: The positive class; by default the last one, by number or alphabet.
        split: ``"rows"``, ``{"group": column}`` or ``{"time": column}`` (:mod:`hyperfront.tabular.splits`).
        shares: The shares of the splits ``train``, ``val``, ``calibration`` and ``test``.
        smallest_group: The fewest rows of a group; below a third of it in one split there is a warning.
        network: ``"mlp"``, ``"resnet"`` or ``"linear"`` (:mod:`hyperfront.tabular.network`).
        encoding: The encoding of a text file, if not UTF-8.
        seed: Fixes the splits.

    >>> people = {"age": [*range(20, 70)] * 8, "group": ["a", "b"] * 200, "y": [0, 0, 1, 1] * 100}
    >>> made = problem(people, "y", sensitive="group")
    >>> made.objectives
    ('log_loss', 'smooth_fpr_gap', 'smooth_fnr_gap')
    """
    source, columns = _opened(data, encoding)
    wishes = Wishes(
        target=target,
        sensitive=(sensitive,) if isinstance(sensitive, str) else tuple(sensitive),
        kinds=kinds,
        cuts=cuts,
        labels=labels,
        task=task,
        positive=positive,
        smallest_group=smallest_group,
    )
    check_names(columns, wishes)
    columns, dropped = with_target(columns, target)
    rows = split_rows(columns, split, shares, seed)
    divided_by = split_column(split, columns)
    schema, notes = discover(columns, wishes, rows["train"], [divided_by] if divided_by else [])
    encoded = encode(schema, columns)
    members = encoded[3].numpy()
    notes += check_groups(schema.groups, members, rows, smallest_group)
    notes += check_classes(schema.classes, encoded[2].numpy(), schema.groups, members, rows)
    if dropped:
        notes.insert(0, f"{dropped:,} rows have no target and are left out")
    if notes:
        warnings.warn("; ".join(notes), stacklevel=3)  # over the frame of checked()
    wanted = named.by_name(schema, objectives)
    arguments = {
        "schema": schema.document(),
        "data": {**source, "content": fingerprint(encoded)},
        "objectives": [[key, name if isinstance(name, str) else None] for key, name in wanted.items()],
        "scores": list(scores),
        "split": split if isinstance(split, str) else dict(split),
        "shares": dict(shares),
        "network": network,
        "seed": seed,
    }
    return assemble(schema, wanted, arguments, take(encoded, rows))


@checked
def recorded(
    schema: Any = None,
    data: Any = None,
    objectives: Any = None,
    scores: Any = (),
    split: Any = "rows",
    shares: Any = SHARES,
    network: Any = "mlp",
    seed: int = 0,
    data_dir: str | Path | None = None,
) -> Problem:
    """Make the problem of a run again, from the record of its checkpoint; the data are read when they are needed.

    ``data_dir`` names the file of the table, or its folder, if it has moved. The recorded path is read only if size
    and SHA-256 of the file are those recorded, and a named file only if the same rows are in it.
    """
    if schema is None:
        raise ProblemError(
            "a table is no built-in data set, so it needs a file",
            fix="hyperfront train data.csv --target COLUMN, or tabular.problem(...) in Python",
        )
    known = Schema.read(schema)
    if not isinstance(data, Mapping):
        raise CheckpointError("the data of the checkpoint's table are damaged", got=repr(data)[:80])
    try:
        wanted = {str(key): named.unknown_function(key) if name is None else str(name) for key, name in objectives}
    except (TypeError, ValueError):
        raise CheckpointError("the objectives of the checkpoint's table are damaged", got=shown(objectives)) from None
    arguments = {
        "schema": schema, "data": data, "objectives": objectives, "scores": scores,
        "split": split, "shares": shares, "network": network, "seed": seed,
    }  # fmt: skip

    def load() -> Splits:
        columns, _ = with_target(_found(known, data, data_dir), known.target)
        encoded = encode(known, columns)
        if fingerprint(encoded) != data.get("content"):
            raise DataError(
                "the table differs from the table that the run was trained on",
                got=data_dir or data.get("path"),
                fix="name the same table: other rows would be among those that the model was trained on",
            )
        return take(encoded, split_rows(columns, split, shares, seed))

    return replace(assemble(known, wanted, arguments, load), data_dir=data_dir)


@checked
def problem_of(
    schema: Schema, objectives: Mapping[str, Any], splits: Splits, *, network: str = "mlp", scores: Sequence[str] = ()
) -> Problem:
    """Make a problem of encoded rows, without an identity: a run of it does not know where its rows are from."""
    arguments = {"data": {}, "scores": scores, "network": network}
    return replace(assemble(schema, objectives, arguments, splits), identity=None)


def assemble(schema: Schema, objectives: Mapping[str, Any], arguments: Mapping[str, Any], splits: Any) -> Problem:
    """Put a problem together; ``splits`` are encoded rows by split, or a function that loads them."""
    network = arguments["network"]
    if network not in get_args(NetworkKind):
        raise unknown_name("network", str(network), get_args(NetworkKind))
    losses = named.losses_of(schema, objectives)
    asked = [*(name for name in objectives.values() if isinstance(name, str)), *arguments["scores"]]
    wanted_scores = [*named.default_scores(schema), *asked]
    k, c = len(schema.numbers), len(schema.categories)
    parts: dict[str, Any] = {"train": splits} if callable(splits) else dict(splits)
    made = supervised(
        **parts,
        losses=losses,
        reference=named.worst(schema, objectives),
        scores=named.scores_of(schema, wanted_scores, taken=[*losses]),
        inputs=_inputs,
        identity={"problem": "table", "arguments": arguments},
        make_target=lambda: TableNet(schema, network),
        presentation=presentation(schema, arguments["data"]),
        example=lambda: (torch.zeros(1, k), torch.zeros(1, c, dtype=torch.long)),
    )

    def training() -> dict[str, Any]:
        """The arguments of :func:`hyperfront.fit` for this many rows."""
        source: Any = made.train.source
        recipe = recipe_for(source.rows)
        return recipe.hypernetwork(SOLVER) | {"validation_rays": recipe.evaluation_rays}

    return replace(made, wrapping=MODEL, training=training, caveat=caveat(arguments.get("split", "rows")))


def _inputs(batch: Any) -> Any:
    """The inputs of the network in a batch, as :func:`encode` makes it."""
    if not isinstance(batch, tuple | list) or len(batch) < 4 or not all(isinstance(part, Tensor) for part in batch):
        raise DataError(
            "a batch of a table has other parts", got=shown(batch), expected="numbers, codes, target, groups"
        )
    return batch[:2]


def encode(schema: Schema, columns: Columns) -> tuple[Tensor, ...]:
    """Return ``(numbers, categories, target, group)`` of all rows."""
    return (*schema.encode(columns), schema.labels(columns)[0], schema.members(columns))


def take(encoded: tuple[Tensor, ...], rows: Mapping[str, np.ndarray]) -> Splits:
    """Return the rows of each split."""
    return {name: tuple(part[torch.from_numpy(chosen)] for part in encoded) for name, chosen in rows.items()}


def fingerprint(encoded: tuple[Tensor, ...]) -> str:
    """Compute the SHA-256 of encoded rows, which does not depend on the format of the table."""
    found = hashlib.sha256()
    for part in encoded:
        found.update(
            part.nan_to_num(nan=-1.5e30).contiguous().numpy().tobytes()
            if part.is_floating_point()
            else part.contiguous().numpy().tobytes()
        )
    return found.hexdigest()


def _opened(data: Table | str | Path, encoding: str | None) -> tuple[dict[str, Any], Columns]:
    """Return the origin of the table, and its columns."""
    if not isinstance(data, str | Path):
        return {"path": None}, columns_of(data)
    content = load_bytes(data)
    known = {"path": str(Path(data).absolute()), "bytes": len(content), "sha256": digest(content), "encoding": encoding}
    return known, parse(content, Path(data), encoding=encoding)


def _found(schema: Schema, data: Mapping[str, Any], named_place: str | Path | None) -> Columns:
    """The columns of the recorded file, if it is unchanged, or of the file that the user names."""
    path = Path(str(data["path"])) if data.get("path") else None
    encoding = data.get("encoding") if isinstance(data.get("encoding"), str) else None
    fix = "name the file of the table: data_dir= in Python, --data-dir FILE on the command line"
    if named_place is not None:
        place = Path(named_place)
        if place.is_dir() and path is not None:
            place = place / path.name
        return parse(load_bytes(place), place, encoding=encoding)
    if path is None:
        raise DataError("the run was trained on a table in memory, which it does not hold", fix=fix)
    if not path.is_file() or path.stat().st_size != data.get("bytes"):
        raise DataError("the table of the run is not where it was, or has changed", got=path, fix=fix)
    content = path.read_bytes()
    if digest(content) != data.get("sha256"):
        raise DataError("the table of the run has changed", got=path, fix=fix)
    return parse(content, path, encoding=encoding)
