"""Exact tests of limits: their error probabilities, by enumeration and simulation, never exceed the level."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hyperfront.front import betting, exact
from hyperfront.front.evidence import BoundedGap, BoundedMean


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0.001, 0.999))
@settings(max_examples=100)
def test_the_binomial_test_is_that_of_scipy(ones, rows, limit):
    ones = min(ones, rows)
    expected = stats.binomtest(ones, rows, limit, alternative="less").pvalue
    assert exact.binomial(ones, rows, limit) == pytest.approx(expected, rel=1e-9)
    assert exact.hoeffding_bentkus(ones / rows, rows, limit) >= expected * (1 - 1e-9)


@pytest.mark.parametrize("mean", [0.03, 0.1, 0.4, 0.9])
@pytest.mark.parametrize("rows", [5, 30])
def test_hoeffding_bentkus_rejects_a_true_null_hypothesis_at_most_as_often_as_its_level(mean, rows):
    p_values = np.array([exact.hoeffding_bentkus(ones / rows, rows, mean) for ones in range(rows + 1)])
    chances = stats.binom.pmf(np.arange(rows + 1), rows, mean)
    for level in (0.01, 0.05, 0.2, 0.5):
        assert chances[p_values <= level].sum() <= level


@pytest.mark.parametrize(("n", "k"), [(7, 6), (3, 12), (15, 10)])
@pytest.mark.parametrize("limit", [-0.25, 0.05, 0.3])
def test_the_test_of_a_difference_keeps_its_level_for_every_pair_of_means(n, k, limit):
    """By enumeration of all samples, at all means on a fine grid of the null hypothesis."""
    level = 0.1
    rejects = np.array([[exact.difference((x, n), (y, k), limit, level) for y in range(k + 1)] for x in range(n + 1)])
    assert not (rejects[1:] & ~rejects[:-1]).any()  # fewer ones in the first group are stronger evidence
    assert not (rejects[:, :-1] & ~rejects[:, 1:]).any()
    for q in np.linspace(max(0, -limit), min(1, 1 - limit), 200):
        for above in (0, 0.02):
            first = stats.binom.pmf(np.arange(n + 1), n, min(1, q + limit + above))
            second = stats.binom.pmf(np.arange(k + 1), k, q)
            assert first @ rejects @ second <= level + 1e-12


def test_the_test_of_a_difference_is_nearly_as_sharp_as_the_normal_approximation():
    n, k, q, limit, level = 300, 500, 0.2, 0.1, 0.05
    sizes = []
    for p in (q + limit, q):
        xs, ys = (np.arange(*stats.binom.interval(0.99, size, mean)).astype(int) for size, mean in ((n, p), (k, q)))
        xs, ys = xs[::4], ys[::4]
        chances = np.outer(stats.binom.pmf(xs, n, p), stats.binom.pmf(ys, k, q))
        rejects = np.array([[exact.difference((x, n), (y, k), limit, level) for y in ys] for x in xs])
        sizes.append((chances * rejects).sum() / chances.sum())
    error = np.sqrt(q * (1 - q) * (1 / n + 1 / k))
    assert 0.03 < sizes[0] < 0.06 and sizes[1] > stats.norm.cdf(limit / error - 1.645) - 0.04


def test_the_constrained_maximum_of_the_likelihood_is_found():
    random = np.random.default_rng(0)
    for _ in range(50):
        n, k = random.integers(1, 60, 2)
        x, y, limit = random.integers(0, n + 1), random.integers(0, k + 1), random.choice([-0.4, 0.03, 0.6])
        grid = np.linspace(max(0, -limit), min(1, 1 - limit), 2001)
        with np.errstate(divide="ignore"):
            values = exact._likelihood(x, n, (grid + limit).clip(0, 1)) + exact._likelihood(y, k, grid)
            q = exact._constrained(np.array([x]), n, np.array([y]), k, limit)
            own = exact._likelihood(x, n, (q + limit).clip(0, 1)) + exact._likelihood(y, k, q)
        assert own[0] >= values.max() - 1e-6


@given(st.integers(1, 200), st.floats(0.01, 0.9), st.sampled_from([0.025, 0.1]))
@settings(max_examples=40)
def test_new_rows_keep_the_limit_if_the_population_keeps_the_tighter_one(rows, limit, level):
    tight = exact.future(limit, rows, level, ones=True)
    assert stats.binom.sf(np.floor(rows * limit + 1e-9), rows, tight) <= level + 1e-9
    assert stats.binom.sf(np.floor(rows * limit + 1e-9), rows, tight + 1e-3) > level
    assert exact.future(limit, rows, level, ones=False) <= tight + 1e-9


# ---- betting ---------------------------------------------------------------------------------------------------------

SHAPES = {"even": (1, 1), "narrow": (30, 70), "skewed": (0.3, 3)}


@pytest.mark.parametrize("shape", SHAPES)
def test_betting_keeps_its_level_and_is_sharper_than_hoeffding_where_rows_vary_little(shape):
    random, (a, b) = np.random.default_rng(1), SHAPES[shape]
    samples, mean = random.beta(a, b, (1500, 300)), a / (a + b)
    wrong = np.mean([betting.mean(sample, mean, 0.1) for sample in samples])
    assert wrong <= 0.1 + 3 * (0.09 / 1500) ** 0.5
    error = samples.std() / 300**0.5
    assert np.mean([betting.mean(sample, mean + 4.5 * error, 0.1) for sample in samples[:200]]) > 0.7
    if shape == "narrow":
        assert not any(
            exact.hoeffding_bentkus(sample.mean(), 300, mean + 4.5 * error) <= 0.1 for sample in samples[:50]
        )


def test_betting_on_a_difference_keeps_its_level_with_groups_of_different_sizes():
    random = np.random.default_rng(2)
    pairs = [(random.beta(2, 6, 400), random.beta(2, 10, 90)) for _ in range(1000)]
    difference = 2 / 8 - 2 / 12
    assert np.mean([betting.difference(*pair, difference, 0.1) for pair in pairs]) <= 0.1 + 3 * (0.09 / 1000) ** 0.5
    assert np.mean([betting.difference(*pair, difference + 0.06, 0.1) for pair in pairs]) > 0.8
    assert not betting.difference(pairs[0][0][:0], pairs[0][1], 0.5, 0.1)


# ---- means and gaps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("test", ["binomial", "hoeffding-bentkus", "betting"])
def test_bounds_of_a_mean_are_the_tightest_limits_that_pass_on_both_sides(test):
    values = np.random.default_rng(3).random(500) * (1 if test != "binomial" else 0) + 4.0
    values[: 120 if test == "binomial" else 0] = 6.0
    found = BoundedMean(values, (4.0, 6.0), test)
    low, high = found.bound(">=", 0.05), found.bound("<=", 0.05)
    assert low < found.value < high
    assert found.passes("<=", high + 1e-6, 0.05) and not found.passes("<=", high - 1e-6, 0.05)
    assert found.passes(">=", low - 1e-6, 0.05) and not found.passes(">=", low + 1e-6, 0.05)
    mirrored = BoundedMean(10 - values, (4.0, 6.0), test)
    assert mirrored.bound("<=", 0.05) == pytest.approx(10 - low, abs=1e-6)
    if test == "binomial":
        interval = stats.binomtest(120, 500).proportion_ci(0.9)
        assert ((low - 4) / 2, (high - 4) / 2) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_a_limit_on_a_gap_passes_only_if_every_difference_does():
    random = np.random.default_rng(4)
    members = np.eye(3, dtype=bool)[:, np.arange(900) % 3]
    values = (random.random(900) < np.array([0.2, 0.25, 0.5])[np.arange(900) % 3]).astype(float)
    gap = BoundedGap(values, (0.0, 1.0), "binomial", members)
    pairs = [
        BoundedGap(values, (0.0, 1.0), "binomial", members[list(pair)]) for pair in itertools.permutations(range(3), 2)
    ]
    for limit in (0.1, 0.3, 0.4, 0.5):
        assert gap.passes("<=", limit, 0.05) == all(pair.passes("<=", limit, 0.05) for pair in pairs)
    assert gap.bound("<=", 0.05) == max(pair.bound("<=", 0.05) for pair in pairs)
    assert 0 < gap.bound(">=", 0.05) < gap.value < gap.bound("<=", 0.05)
    assert gap.passes(">=", 0.1, 0.05) and not gap.passes(">=", gap.value, 0.05)
    empty = BoundedGap(values, (0.0, 1.0), "binomial", np.vstack([members, np.zeros((1, 900), bool)]))
    assert not empty.passes("<=", 0.9, 0.05) and empty.bound("<=", 0.05) == 1.0


def test_quantities_between_the_bounds_count_as_the_worse_bound_in_a_binomial_test():
    values = np.full(100, 0.5)
    assert BoundedMean(values, (0.0, 1.0), "binomial").bound("<=", 0.05) == pytest.approx(1.0)
    assert BoundedMean(values, (0.0, 1.0), "binomial").chosen().test == "betting"
    assert BoundedMean(np.round(values), (0.0, 1.0), "betting").chosen().test == "binomial"
