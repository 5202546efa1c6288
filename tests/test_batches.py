"""Nested batches, measures over whole splits, and the sources that batches come from."""

from __future__ import annotations

import itertools
from collections import namedtuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset

import hyperfront as hf
from hyperfront.errors import ProblemError
from hyperfront.problem.losses import Gathered, Mean, SetLoss, as_measure
from hyperfront.problem.sources import LoaderSource, NoData, TensorSource, looking
from hyperfront.problem.splits import as_source, as_sources
from hyperfront.storage.batches import arguments, row_range, rows, split, take
from hyperfront.storage.nests import map_tensors, tensors

random_inputs = settings(max_examples=60)
CPU = torch.device("cpu")
Pair = namedtuple("Pair", "x y")


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tensor(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 2, generator=seeded(seed), dtype=torch.float64)


def nests(count: int):
    """Nests of tuples, lists, dicts and named tuples of tensors with ``count`` rows, and of things that are not."""
    leaf = st.one_of(st.integers(0, 99).map(lambda seed: tensor(count, seed)), st.just("label"), st.none())
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(st.text(max_size=2), inner, max_size=3),
            st.tuples(inner, inner).map(lambda pair: Pair(*pair)),
        ),
        max_leaves=6,
    )


def cuts(total: int, seed: int) -> list[slice]:
    """A random partition of ``range(total)`` into consecutive pieces."""
    edges = sorted({0, total, *torch.randint(1, total, (3,), generator=seeded(seed)).tolist()})
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


# ---- nests ---------------------------------------------------------------------------------------------------------


@given(nests(6))
@random_inputs
def test_maps_keep_the_nest_and_everything_that_is_no_tensor(batch):
    doubled = map_tensors(lambda t: 2 * t, batch)
    assert str(map_tensors(lambda t: "leaf", doubled)) == str(map_tensors(lambda t: "leaf", batch))
    assert type(doubled) is type(batch)
    for old, new in zip(tensors(batch), tensors(doubled), strict=True):
        assert torch.equal(new, 2 * old)
    zero = map_tensors(torch.sub, doubled, map_tensors(torch.mul, batch, map_tensors(lambda t: t * 0 + 2, batch)))
    assert all((t == 0).all() for t in tensors(zero))


@given(nests(6).filter(tensors), st.sampled_from([1, 2, 3, 6]))
@random_inputs
def test_parts_of_a_split_are_consecutive_rows(batch, parts):
    assert rows(batch) == 6
    pieces, size = split(batch, parts), 6 // parts
    for p in range(parts):
        expected = tensors(row_range(batch, p * size, (p + 1) * size))
        for found, rows_ in zip(tensors(pieces), expected, strict=True):
            assert torch.equal(found[p], rows_)


@given(nests(6), st.lists(st.integers(0, 5), max_size=8))
@random_inputs
def test_taking_rows_is_indexing_every_tensor(batch, index):
    taken = take(batch, torch.tensor(index, dtype=torch.long))
    for old, new in zip(tensors(batch), tensors(taken), strict=True):
        assert torch.equal(new, old[index])


def test_numbers_without_rows_are_shared_by_all_parts():
    batch = (torch.arange(4), torch.tensor(7.0))
    assert rows(batch) == 4
    assert [t.tolist() for t in split(batch, 2)] == [[[0, 1], [2, 3]], [7.0, 7.0]]
    assert [t.tolist() for t in split(batch, 1)] == [[[0, 1, 2, 3]], [7.0]]
    assert take(batch, torch.tensor([2]))[1] == row_range(batch, 0, 1)[1] == 7


@pytest.mark.parametrize("batch", [(torch.zeros(2), torch.zeros(3)), (), {"name": "x"}, torch.tensor(1.0)])
def test_a_batch_without_one_number_of_rows_is_refused(batch):
    with pytest.raises(ProblemError, match="one number of rows"):
        rows(batch)


def test_the_error_about_rows_names_the_tensors():
    with pytest.raises(ProblemError, match="4 in batch_x, 3 in batch_kind"):
        rows({"x": torch.zeros(4, 2), "kind": torch.zeros(3)})


@pytest.mark.parametrize("parts", [4, 5, 7])
def test_an_uneven_split_names_both_numbers(parts):
    with pytest.raises(ProblemError, match=f"6 rows for {parts} rays"):
        split(torch.zeros(6), parts)


def test_modules_are_called_with_what_the_batch_says():
    x = torch.ones(1)
    for batch, expected in (((x, 2), ((x, 2), {})), ({"x": x}, ((), {"x": x})), (x, ((x,), {})), ([x], (([x],), {}))):
        assert arguments(batch) == expected
    with pytest.raises(ProblemError, match="a name that is no text"):
        arguments({1: x})


# ---- measures ------------------------------------------------------------------------------------------------------


def over(measure, output, batch, pieces):
    """The measure of a whole set, from the statistics of its pieces."""
    found = [measure.statistics(output[piece], row_range(batch, piece.start, piece.stop)) for piece in pieces]
    total = found[0]
    for more in found[1:]:
        total = measure.merge(total, more)
    return measure.value(total)


@given(st.integers(2, 40), st.integers(0, 1000))
@random_inputs
def test_measures_of_a_set_do_not_depend_on_how_it_is_cut(count, seed):
    output, label = tensor(count, seed), torch.randint(3, (count,), generator=seeded(seed))
    label[0] = 0
    pieces = cuts(count, seed)
    mean = as_measure(lambda out, y: out.square().mean())
    gap = SetLoss(
        lambda out, y: {"sum": out[y == 0].sum(), "rest": (out[y != 0].sum(), (y != 0).sum()), "count": (y == 0).sum()},
        lambda s: (s["sum"] / s["count"] - s["rest"][0] / s["rest"][1].clamp_min(1)).abs(),
    )
    middle = Gathered(lambda out, y: out[:, 0].median() + (out[:, 1] * y).max())
    mine, others = output[label == 0].sum() / (label == 0).sum(), output[label != 0]
    expected = {
        mean: output.square().mean(),
        gap: (mine - others.sum() / max(1, len(others))).abs(),
        middle: output[:, 0].median() + (output[:, 1] * label).max(),
    }
    for measure, value in expected.items():
        torch.testing.assert_close(over(measure, output, label, pieces), value)
        torch.testing.assert_close(measure(output, label), value)


def test_a_function_is_a_mean_and_a_measure_is_itself():
    measure = Gathered(lambda out, y: out.max())
    assert as_measure(measure) is measure
    assert isinstance(as_measure(lambda out, y: out.mean()), Mean)


def test_gathered_outputs_may_be_nests_with_things_that_are_not_tensors():
    first = {"logits": tensor(3, 1)}, (tensor(3, 2), ["a", "b", "c"], torch.tensor(5.0))
    second = {"logits": tensor(2, 3)}, (tensor(2, 4), ["d", "e"], torch.tensor(5.0))
    measure = Gathered(lambda out, batch: out["logits"].sum() + batch[0].sum() + batch[2])
    merged = measure.merge(measure.statistics(*first), measure.statistics(*second))
    parts = tensor(3, 1), tensor(3, 2), tensor(2, 3), tensor(2, 4)
    torch.testing.assert_close(measure.value(merged), torch.cat(parts).sum() + 5)
    assert merged[1][1] == ["a", "b", "c", "d", "e"]


def test_gathered_batches_may_be_named_tuples():
    first, second = Pair(tensor(3, 1), tensor(3, 2)), Pair(tensor(2, 3), tensor(2, 4))
    merged = Gathered(lambda out, batch: out.sum()).merge((tensor(3), first), (tensor(2), second))[1]
    assert isinstance(merged, Pair) and torch.equal(merged.y, torch.cat([first.y, second.y]))


# ---- sources -------------------------------------------------------------------------------------------------------


@given(st.integers(1, 50), st.integers(1, 12), st.integers(0, 1000))
@random_inputs
def test_an_epoch_over_tensors_has_no_row_twice_and_drops_the_partial_batch(count, size, seed):
    source = as_source((torch.arange(count), {"double": 2 * torch.arange(count)}))
    if size > count:
        with pytest.raises(ProblemError, match="larger than the data"):
            source.steps(size)
        return
    batches = list(source.epoch(size, seeded(seed), CPU, 0))
    assert len(batches) == source.steps(size) == count // size
    assert all(len(x) == size and torch.equal(more["double"], 2 * x) for x, more in batches)
    seen = torch.cat([x for x, _ in batches]).tolist()
    assert len(set(seen)) == len(seen) == count - count % size


@given(st.integers(2, 50), st.integers(1, 5), st.integers(0, 1000), st.integers(0, 10))
@random_inputs
def test_skipping_batches_continues_in_the_same_order(count, size, seed, skip):
    source = TensorSource(torch.arange(count))
    size = min(size, count)
    whole = [batch.tolist() for batch in source.epoch(size, seeded(seed), CPU, 0)]
    assert [batch.tolist() for batch in source.epoch(size, seeded(seed), CPU, skip)] == whole[skip:]


def test_data_that_do_not_fit_on_a_gpu_stay_where_they_are(monkeypatch):
    source, gpu = TensorSource((torch.arange(20.0), torch.arange(40).view(20, 2))), torch.device("cuda:0")
    whole = [list(source.batches(8, CPU)), list(source.epoch(6, seeded(), CPU, 1))]
    needed = 20 * 4 + 40 * 8
    for free, fits in ((2 * needed, True), (2 * needed - 2, False)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 10**12))
        assert source.fits(gpu) == fits
    assert source.fits(CPU)
    monkeypatch.setattr(source, "fits", lambda device: False)
    parts = [list(source.batches(8, CPU)), list(source.epoch(6, seeded(), CPU, 1))]
    assert all(map(torch.equal, tensors(parts), tensors(whole)))


def test_the_order_of_an_epoch_comes_from_its_generator():
    source = TensorSource(torch.arange(1000))
    first, again, other = (next(source.epoch(1000, seeded(s), CPU, 0)) for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)


@given(st.integers(1, 50), st.integers(1, 60))
@random_inputs
def test_evaluation_sees_every_row_once_in_order(count, size):
    dataset = TensorDataset(torch.arange(count))
    for source in (as_source(dataset), as_source(DataLoader(dataset, batch_size=size))):
        batches = [x for (x,) in source.batches(size, CPU)]
        assert torch.cat(batches).tolist() == list(range(count))
        assert all(len(x) == size for x in batches[:-1])


@given(st.integers(1, 50), st.integers(1, 12), st.booleans(), st.booleans())
@random_inputs
def test_a_loader_drops_its_partial_batch_and_knows_its_steps(count, size, shuffle, drop_last):
    loader = DataLoader(
        TensorDataset(torch.arange(count)), batch_size=size, shuffle=shuffle, drop_last=drop_last, generator=seeded()
    )
    source = as_source(loader)
    assert isinstance(source, LoaderSource) and not source.exact
    batches = [x for (x,) in source.epoch(999, seeded(), CPU, 0)]
    assert len(batches) == source.steps(999) == count // size
    assert all(len(x) == size for x in batches)
    seen = torch.cat(batches).tolist() if batches else []
    assert len(set(seen)) == count - count % size


def test_a_loader_that_samples_some_rows_counts_only_their_steps():
    sampler = SubsetRandomSampler(range(10), generator=seeded())
    source = as_source(DataLoader(TensorDataset(torch.arange(20)), batch_size=4, sampler=sampler))
    assert source.steps(1) == len(list(source.epoch(1, seeded(), CPU, 0))) == 2


def test_a_list_of_batches_is_taken_as_it_is():
    batches = [(torch.zeros(3),), (torch.ones(2),)]
    source = as_source(batches)
    assert source.steps(7) == 2
    for found in (source.epoch(7, seeded(), CPU, 0), source.batches(7, CPU)):
        assert [x.tolist() for (x,) in found] == [[0, 0, 0], [1, 1]]


def test_a_problem_without_data_has_empty_batches():
    source = as_source(NoData(steps_per_epoch=5))
    assert source.steps(64) == 5 and list(source.epoch(64, seeded(), CPU, 2)) == [(), (), ()]
    assert list(source.batches(64, CPU)) == [()]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


class SizedStream(Stream):
    def __len__(self):
        return 10


class OwnLoader:
    """What a user may write: it knows its batch size and its length, and has no sampler."""

    batch_size = 4

    def __len__(self):
        return 3

    def __iter__(self):
        return iter(torch.arange(12).split(4))


@pytest.mark.parametrize(("loader", "steps"), [(DataLoader(SizedStream(), batch_size=4), 2), (OwnLoader(), 3)])
def test_a_loader_needs_a_length_but_no_sampler(loader, steps):
    source = as_source(loader)
    assert source.steps(1) == len(list(source.epoch(1, seeded(), CPU, 0))) == steps


@pytest.mark.parametrize(
    "bad",
    [
        None,
        7,
        "data",
        {},
        {"name": "x"},
        iter([torch.zeros(2)]),
        torch.utils.data.Subset(TensorDataset(torch.zeros(3)), [0]),
        (torch.zeros(2), torch.zeros(3)),
        torch.tensor(1.0),
    ],
)
def test_what_is_no_split_is_refused(bad):
    with pytest.raises(ProblemError):
        as_source(bad)


def test_a_stream_without_a_length_is_refused_with_a_reason():
    with pytest.raises(ProblemError):
        as_source(DataLoader(Stream(), batch_size=2)).steps(2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([torch.zeros(3), torch.zeros(3)], "columns or batches"),
        ((np.zeros(3), np.zeros(3)), "numpy"),
        ((torch.zeros(0, 2),), "no rows"),
        ((torch.zeros(3), ["a", "b", "c"]), "cannot be shuffled"),
    ],
)
def test_splits_that_could_be_misread_are_refused(data, message):
    with pytest.raises(ProblemError, match=message):
        as_source(data)


def test_an_error_in_a_function_that_loads_splits_is_not_mistaken_for_a_split_that_is_missing():
    measures = {"one": lambda output, batch: output.mean(), "two": lambda output, batch: output.std()}

    def loads(**splits):
        return hf.supervised(lambda: splits["train"] and splits, losses=measures)

    x = (torch.zeros(4, 1),)
    assert "val" in loads(train=x).sources  # nothing is loaded to say so
    with pytest.raises(ProblemError, match="lack a split"):
        _ = loads(train=x, val=x).test
    with pytest.raises(ProblemError, match=r"(?s)cannot be loaded.*KeyError\('train'\)"):
        _ = loads(val=x).val


def test_texts_are_not_silently_kept_whole_when_a_batch_is_split_among_rays():
    batch = (torch.zeros(4), ["a", "b", "c", "d"])
    with pytest.raises(ProblemError, match="list of str"):
        split(batch, 2)
    assert split(batch, 1)[1] == ["a", "b", "c", "d"]


def test_nests_of_different_lengths_are_not_cut_to_the_shorter():
    with pytest.raises(ValueError, match="arity"):
        map_tensors(torch.add, (torch.zeros(1), torch.zeros(1)), (torch.zeros(1),))


@pytest.mark.parametrize("as_split", [tuple, lambda pair: dict(zip("xy", pair)), list])
def test_one_array_among_tensors_is_refused(as_split):
    x = torch.zeros(4, 1)
    for pair in ((x, x.numpy()), (x.numpy(), x)):
        with pytest.raises(ProblemError, match="holds arrays"):
            as_source(as_split(pair))


def test_who_looks_at_batches_leaves_the_order_of_the_loader_as_it_was():
    generator, cpu = torch.Generator().manual_seed(0), torch.device("cpu")
    data = torch.utils.data.TensorDataset(torch.arange(8.0)[:, None])
    source = as_source(torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=generator))
    before = generator.get_state(), torch.get_rng_state()
    with looking(source, cpu):
        next(source.batches(2, cpu))
        torch.rand(3)
    assert torch.equal(generator.get_state(), before[0]) and torch.equal(torch.get_rng_state(), before[1])


class Hundreds:
    """Adds a hundred times its place in the epoch to every row."""

    def draw(self, rows, generator):
        return torch.arange(rows) * 100.0

    def __call__(self, batch, numbers):
        return tuple(part + numbers[:, None] for part in batch)


def test_training_rows_alone_are_augmented_each_by_its_own_numbers():
    x, cpu = torch.arange(6.0)[:, None], torch.device("cpu")
    sources = as_sources({"train": (x,), "val": (x,)}, Hundreds())
    drawn = torch.cat([batch[0] for batch in sources["train"].epoch(3, torch.Generator().manual_seed(0), cpu, 0)])[:, 0]
    assert (drawn // 100).tolist() == sorted((drawn % 100).tolist()) == [0, 1, 2, 3, 4, 5]
    for source in sources.values():  # looked at, nothing is augmented
        assert [batch[0].tolist() for batch in source.batches(6, cpu)] == [x.tolist()]
