"""Multi-MNIST: composites that are the same everywhere, splits that keep their promise, targets of the paper's size."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.errors import DataError, HyperfrontError
from hyperfront.problem.registry import build, problems, recipe
from hyperfront.zoo.data import composites as made
from hyperfront.zoo.data.composites import SHA256, SOURCES, compose, composites, digest
from hyperfront.zoo.data.idx import labeled_images
from hyperfront.zoo.lenet import LeNet
from hyperfront.zoo.shift import Shift
from tests.helpers.command import hyperfront
from tests.helpers.data import DATA

RESNETS = {"1m": 1_103_564, "2m": 2_066_892, "5m": 5_044_684, "11m": 11_036_684}
SIZES = {"train": 108_000, "val": 12_000, "test": 20_000}


# ---- composites ------------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize(("name", "split"), SHA256)
def test_the_published_hashes(name, split):
    parts = composites(name, split, data_dir=DATA)
    assert digest(parts) == SHA256[name, split]
    assert {part: len(images) for part, (images, _, _) in parts.items()} == SIZES
    for part, few in composites(name, split, rows=540, data_dir=DATA).items():  # a share of each, from its beginning
        assert len(few[0]) == SIZES[part] // 200
        assert all(np.array_equal(a, b[: len(a)]) for a, b in zip(few, parts[part], strict=True))


@pytest.mark.data
def test_composites_follow_the_recipe_that_is_published_with_them():
    """Pixel by pixel, in whole numbers of Python."""
    parts = composites("multi-fashion-mnist", "paper", rows=900, data_dir=DATA)
    sides = [labeled_images(source, "train", DATA) for source in ("fashion_mnist", "mnist")]
    outputs = np.random.PCG64([2021, 0]).random_raw(6 * 120_000).tolist()
    for part, first in (("train", 0), ("val", 108_000)):
        for row in (0, 7, 99):
            u = [output >> 32 for output in outputs[6 * (first + row) : 6 * (first + row) + 6]]
            image = [[0] * 36 for _ in range(36)]
            for side, (images, labels) in enumerate(sides):
                source = 60_000 * u[side] >> 32
                top, left = (4 * side + (5 * number >> 32) for number in u[2 + 2 * side : 4 + 2 * side])
                for y in range(28):
                    for x in range(28):
                        image[top + y][left + x] = max(image[top + y][left + x], int(images[source, y, x]))
                assert parts[part][1 + side][row] == labels[source]
            assert parts[part][0][row].tolist() == image


@pytest.fixture
def numbered(monkeypatch):
    """Sources whose labels are their own numbers; their pixels, all alike, are 1."""

    def images(name: str, part: str, data_dir: object) -> tuple[np.ndarray, np.ndarray]:
        count = {"train": 60_000, "t10k": 10_000}[part]
        return np.ones((count, 1, 1), np.uint8), np.arange(count)

    monkeypatch.setattr(made, "labeled_images", images)


def used(split: str) -> dict[str, np.ndarray]:
    """The numbers of the source images of each part."""
    parts = composites("multi-mnist", split, rows=54_000)
    return {part: np.unique(np.concatenate(labels)) for part, (_, *labels) in parts.items()}


def test_the_clean_split_validates_on_images_that_training_never_sees(numbered):
    clean, paper = used("clean"), used("paper")
    assert len(np.intersect1d(clean["train"], clean["val"])) == 0
    assert len(np.union1d(clean["train"], clean["val"])) > 0.85 * 60_000  # each is drawn twice on average
    assert len(np.intersect1d(paper["train"], paper["val"])) > 0.8 * len(paper["val"])


def test_the_test_set_is_that_of_both_splits(numbered):
    clean, paper = (composites("multi-fashion", split, rows=5400)["test"] for split in ("clean", "paper"))
    assert all(np.array_equal(a, b) for a, b in zip(clean, paper))


def test_shifts_are_uniform_and_independent(numbered):
    images, *_ = composites("multi-mnist", "clean")["test"]
    rows, columns = (images.any(axis) for axis in (2, 1))  # where the union of both squares is
    shifts = [rows.argmax(1), columns.argmax(1), 4 - rows[:, ::-1].argmax(1), 4 - columns[:, ::-1].argmax(1)]
    counts = np.bincount(np.ravel_multi_index(shifts, (5, 5, 5, 5)), minlength=625)
    chi = ((counts - len(images) / 625) ** 2 / (len(images) / 625)).sum()
    assert abs(chi - 624) < 5 * math.sqrt(2 * 624)


def test_a_pixel_is_the_brighter_of_the_two():
    left, right = (np.full((1, 28, 28), value, np.uint8) for value in (100, 200))
    middle = np.full((1, 6), 2**31, np.uint64)  # shifts of 2
    labels = np.zeros(1, np.uint8)
    for pair, inner in (((left, right), 200), ((right, left), 200)):
        (image,), *_ = compose(middle, [(pixels, labels) for pixels in pair], np.arange(1))
        assert (image[6:30, 6:30] == inner).all()
        assert (image[2, 2], image[33, 33], image[1, 1], image[34, 34]) == (pair[0].max(), pair[1].max(), 0, 0)


# ---- the problem -----------------------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.parametrize("name", SOURCES)
def test_splits_are_tensors_that_the_target_takes(name):
    problem = build(name, rows=1080, data_dir=DATA)
    for part, size in SIZES.items():
        images, left, right = problem.split(part).source.data
        assert images.dtype == torch.uint8 and images.shape == (size // 100, 1, 36, 36)
        assert left.dtype == right.dtype == torch.int64 and set(torch.cat([left, right]).tolist()) == set(range(10))
    batch = (images[:8], left[:8], right[:8])
    assert problem.inputs(batch).amax() == images[:8].amax() / 255
    losses = problem.losses(problem.make_target(), batch)
    assert (losses - math.log(10)).abs().max() < 0.2  # a network that knows nothing


def test_losses_and_scores_of_a_network_that_is_always_right_on_the_left_and_guesses_on_the_right():
    problem = build("multi-mnist")
    labels = torch.arange(10)
    output, batch = (100 * F.one_hot(labels).float(), torch.zeros(10, 10)), (torch.zeros(10, 1, 36, 36), labels, labels)
    assert {name: measure(output, batch).item() for name, measure in problem.measures.items()} == {
        "left": pytest.approx(0, abs=1e-6),
        "right": pytest.approx(math.log(10)),
    }
    assert {name: measure(output, batch).item() for name, measure in problem.scores.items()} == {
        "left accuracy": 1.0,
        "right accuracy": pytest.approx(0.1),
    }


def test_the_problem_and_its_model_need_no_data(tmp_path):
    problem = build("multi-mnist", data_dir=tmp_path)
    assert problem.model().target.n == 31_910
    with pytest.raises(DataError, match=str(tmp_path / "mnist" / "train-images-idx3-ubyte.gz")):
        problem.val


@pytest.mark.parametrize(
    "arguments",
    [{"split": "dirty"}, {"target": "vgg"}, {"relu": "no"}, {"shift": -1}, {"shift": 1.5}, {"rows": 0}, {"colour": 1}],
)
def test_arguments_that_make_no_problem_are_refused(arguments):
    with pytest.raises(HyperfrontError, match=next(iter(arguments))):
        build("multi-mnist", **arguments)


@pytest.mark.parametrize("relu", [True, False])
def test_without_the_relu_the_last_two_layers_are_one_affine_map(relu):
    torch.manual_seed(0)
    net, x, features = LeNet(relu=relu), torch.rand(20, 1, 36, 36), []
    net.fc.register_forward_pre_hook(lambda layer, inputs: features.append(inputs[0]))
    left, _ = net(x)
    affine = features[0] @ (net.left.weight @ net.fc.weight).T + net.left(net.fc.bias)
    assert torch.allclose(left, affine, atol=1e-5) == (not relu)


# ---- presets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_every_problem_has_the_four_presets_and_the_four_sizes(name):
    assert list(problems()[name].presets) == [
        "quick",
        "smoke",
        "paper",
        "best",
        *(f"resnet18-{size}" for size in RESNETS),
    ]
    settings = recipe(name, "paper")
    problem = build(name, **settings.arguments)
    assert sum(p.numel() for p in problem.model(**settings.model).parameters()) == 3_243_410  # as in the paper
    assert not problem.make_target().relu


@pytest.mark.parametrize("size", RESNETS)
def test_the_paper_s_hypernetworks_for_resnet18(size):
    settings = recipe("multi-mnist", f"resnet18-{size}")
    problem = build("multi-mnist", **settings.arguments)
    model = problem.model(**settings.model)
    assert sum(p.numel() for p in model.parameters()) == RESNETS[size]
    assert model.target.n == 11_443_156
    if size == "1m":
        batch = (torch.randint(256, (4, 1, 36, 36), dtype=torch.uint8), torch.arange(4), torch.arange(4))
        hf.Step(model, problem, hf.EPO())(torch.tensor([[0.3, 0.7]]), batch)
        grads = [p.grad for p in model.parameters()]
        assert all(grad is not None and grad.isfinite().all() and grad.any() for grad in grads)


@pytest.mark.data
def test_smoke_trains_a_front_that_can_be_loaded_and_measured_again(tmp_path):
    words = ["train", "multi-fashion-mnist", "--preset", "smoke", "--data-dir", str(DATA), "--out", "run"]
    text = hyperfront(*words, "--arguments", "split=paper", "relu=false", folder=tmp_path)
    assert "left accuracy" in text
    front = hf.Front.load(tmp_path / "run" / "front.json")
    assert len(front) == 5 and set(front.scores) == {"left accuracy", "right accuracy"}
    assert front.provenance["arguments"]["split"] == "paper"
    assert front.losses[:, 0].amin() < 0.8 * math.log(10)  # it has learned something
    assert not hf.load(tmp_path / "run").at([0.5, 0.5]).relu
    again = ["evaluate", "run", "--split", "test", "--rays", "3", "--data-dir", str(DATA), "--save", "test.json"]
    hyperfront(*again, folder=tmp_path)
    assert hf.Front.load(tmp_path / "test.json").provenance["split"] == "test"


# ---- augmentation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pixels", "channels"), [(1, 1), (2, 1), (3, 3), (7, 2)])
def test_images_are_moved_each_by_its_own_shift_and_what_comes_in_is_zero(pixels, channels):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (40, channels, 6, 9), dtype=torch.uint8, generator=generator)
    labels, shift = torch.arange(40), Shift(pixels)
    numbers = shift.draw(40, generator)
    moved, same = shift((images, labels), numbers)
    assert moved.dtype == torch.uint8 and moved.shape == images.shape
    assert same is labels
    for image, found, (down, right) in zip(images, moved, numbers.tolist()):
        expected = torch.zeros_like(image)
        for y in range(6):
            for x in range(9):
                if 0 <= y - down < 6 and 0 <= x - right < 9:
                    expected[:, y, x] = image[:, y - down, x - right]
        assert torch.equal(found, expected)


def test_shifts_are_drawn_uniformly_as_small_numbers_that_depend_on_the_generator_alone():
    draws = [Shift(2).draw(50_000, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    assert draws[0].dtype == torch.int8
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    counts = torch.bincount((draws[0].long() + 2) @ torch.tensor([5, 1]), minlength=25)
    assert (counts - 2000).abs().max() < 5 * math.sqrt(2000)


@pytest.mark.data
def test_training_is_augmented_and_validation_is_not():
    plain, moved = (build("multi-mnist", rows=540, shift=shift, data_dir=DATA) for shift in (0, 2))
    for part in ("train", "val"):
        first, second = (
            next(problem.split(part).source.epoch(60, torch.Generator().manual_seed(0), torch.device("cpu"), 0))
            for problem in (plain, moved)
        )
        assert torch.equal(first[1], second[1])
        assert torch.equal(first[0], second[0]) == (part == "val")


def test_the_folder_of_the_data_is_no_part_of_the_problem_s_identity():
    assert "data_dir" not in str(build("multi-mnist", data_dir=Path("somewhere")).identity)
