"""NYUv2: the packs, the splits, ENet, losses and scores against plain numpy, views, and the problem as a whole."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

import hyperfront as hf
from hyperfront.errors import DataError, HyperfrontError
from hyperfront.problem.registry import build, problems
from hyperfront.zoo import nyuv2
from hyperfront.zoo.data.nyuv2 import CLASSES, METERS_PER_LEVEL, Pack, pack_name, prepare
from hyperfront.zoo.enet import ENet, unpool
from hyperfront.zoo.views import SCALES, RandomViews
from tests.helpers.data import DATA

IDENTITY = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])


@pytest.fixture(scope="module", params=["288x384", "144x192"])
def pack(request) -> Pack:
    return Pack(DATA / pack_name(request.param))


def batch_of(rows: int = 3, height: int = 16, width: int = 24, seed: int = 0) -> nyuv2.Batch:
    g = torch.Generator().manual_seed(seed)
    rgb = torch.randint(256, (rows, 3, height, width), generator=g, dtype=torch.uint8)
    depth = torch.randint(256, (rows, height, width), generator=g, dtype=torch.uint8)
    return rgb, depth, torch.randint(-1, 13, (rows, height, width), generator=g, dtype=torch.int8)


FIRST = {"train": [1376, 1056, 183, 51, 1417], "val": [140, 1118, 689, 592, 769], "test": [929, 1369, 509, 928, 119]}
"""The first images of each part of the paper's split."""


# ---- the packs -------------------------------------------------------------------------------------------------------


@pytest.mark.data
def test_images_are_those_of_the_recipe_that_comes_with_the_data(pack):
    from PIL import Image

    rows, arrays = [0, 700, 1448], pack.arrays
    rgb, depth, classes = pack.images(torch.tensor(rows))
    for place, i in enumerate(rows):
        jpeg = arrays["rgb_jpeg"][arrays["rgb_offset"][i] : arrays["rgb_offset"][i + 1]].tobytes()
        png = arrays["depth_png"][arrays["depth_offset"][i] : arrays["depth_offset"][i + 1]].tobytes()
        seg13 = arrays["map40to13"][arrays["label40"][i]].astype(np.int64) - 1
        assert np.array_equal(rgb[place].permute(1, 2, 0), np.asarray(Image.open(io.BytesIO(jpeg))))
        assert np.array_equal(depth[place], np.asarray(Image.open(io.BytesIO(png))))
        assert np.array_equal(classes[place], seg13)
    meters = (depth.numpy() + np.float32(0.5)) * float(arrays["depth_metres_per_level"])
    np.testing.assert_allclose(nyuv2.meters(depth), meters, rtol=1e-6)


@pytest.mark.data
def test_depth_and_labels_have_the_published_statistics():
    small = Pack(DATA / pack_name("144x192"))
    _, depth, classes = small.images(small.is_train.nonzero()[:, 0])
    meters = nyuv2.meters(depth).double()
    assert meters.mean() == pytest.approx(2.842, abs=0.01)
    assert meters.std() == pytest.approx(1.417, abs=0.01)
    assert classes.unique().tolist() == list(range(-1, 13))
    assert list(CLASSES) == small.arrays["names13"].tolist()


@pytest.mark.data
def test_splits_are_of_the_stated_sizes_and_share_no_image(pack):
    sizes = {"paper": [1014, 145, 290], "official": [720, 75, 654]}
    for split, expected in sizes.items():
        parts = nyuv2.divide(pack.is_train, split)
        assert [len(parts[name]) for name in ("train", "val", "test")] == expected
        assert torch.cat(list(parts.values())).sort().values.equal(torch.arange(1449))
    assert not pack.is_train[parts["test"]].any()
    first = {part: rows[:5].tolist() for part, rows in nyuv2.divide(pack.is_train, "paper").items()}
    assert first == FIRST  # results were measured on these images


@pytest.mark.data
def test_a_part_of_the_images_is_split_in_the_same_proportions():
    problem = build("nyuv2", size="72x96", rows=100, data_dir=DATA)
    assert [problem.split(name).source.rows for name in ("train", "val", "test")] == [70, 10, 20]
    rgb, depth, classes = problem.val.source.data
    assert rgb.shape == (10, 3, 72, 96)
    assert depth.shape == classes.shape == (10, 72, 96)
    assert (rgb.dtype, depth.dtype, classes.dtype) == (torch.uint8, torch.uint8, torch.int8)


def test_files_that_are_no_packs_are_refused(tmp_path):
    path = tmp_path / "pack.npz"
    for content in (b"", b"PK\x03\x04 and then nothing"):
        path.write_bytes(content)
        with pytest.raises(DataError, match="no pack of NYUv2 images"):
            Pack(path)
    np.savez(path, is_train=np.zeros(3, bool))
    with pytest.raises(DataError, match="no pack of NYUv2 images"):
        Pack(path)
    np.savez(path, is_train=np.zeros(3, bool), depth_metres_per_level=0.1)
    with pytest.raises(DataError, match="another unit"):
        Pack(path)


# ---- packs from the official files -----------------------------------------------------------------------------------


class Official:
    """Files in the layout of the official ones, with a few small images."""

    def __init__(self, folder: Path, count: int = 5, height: int = 48, width: int = 64):
        import h5py
        from scipy.io import savemat

        rng = np.random.default_rng(0)
        coarse = rng.integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
        self.rgb = coarse.repeat(height // 4, 1).repeat(width // 4, 2)  # [N, H, W, 3]: JPEG keeps large patches
        self.depth = rng.uniform(0.7, 9.99, (count, height, width)).astype(np.float32)
        self.labels = rng.integers(0, 895, (count, height, width), dtype=np.uint16)
        self.mapping = rng.integers(1, 41, 894)
        self.file = folder / "nyu_depth_v2_labeled.mat"
        with h5py.File(self.file, "w") as file:  # a MATLAB array [H, W, 3, N] is one [N, 3, W, H] to others
            file["images"] = self.rgb.transpose(0, 3, 2, 1)
            file["depths"] = self.depth.transpose(0, 2, 1)
            file["labels"] = self.labels.transpose(0, 2, 1)
        savemat(folder / "splits.mat", {"trainNdxs": [[2], [3], [5]], "testNdxs": [[1], [4]]})
        savemat(folder / "classMapping40.mat", {"mapClass": self.mapping[None]})


@pytest.fixture
def official(tmp_path) -> Official:
    return Official(tmp_path)


def test_prepared_packs_hold_the_official_images(official, tmp_path):
    paths = prepare(official.file, tmp_path / "data")
    assert [path.relative_to(tmp_path / "data").as_posix() for path in paths] == [
        "nyuv2/nyuv2_288x384.npz",
        "nyuv2/nyuv2_144x192.npz",
    ]
    to40 = np.concatenate([[0], official.mapping])
    for path, (height, width) in zip(paths, [(288, 384), (144, 192)]):
        pack = Pack(path)
        assert pack.is_train.tolist() == [False, True, True, False, True]
        rgb, depth, classes = pack.images(torch.tensor([4, 1]))
        assert rgb.shape == (2, 3, height, width)
        assert set(pack.arrays["label40"].shape) == {5, height, width}
        y, x = np.arange(height) * 48 // height, np.arange(width) * 64 // width  # the nearest pixel: these are larger
        for place, i in enumerate([4, 1]):
            at = np.ix_(y, x)
            true = to40[official.labels[i]][at]
            assert np.array_equal(pack.arrays["label40"][i], true)
            assert np.array_equal(classes[place], pack.arrays["map40to13"].astype(int)[true] - 1)
            error = nyuv2.meters(depth[place]).numpy() - official.depth[i][at]
            assert np.abs(error).max() <= METERS_PER_LEVEL / 2 + 1e-5
            middle = np.s_[height // 8 :: height // 4], np.s_[width // 8 :: width // 4]  # of each patch of colour
            seen, meant = rgb[place].permute(1, 2, 0).numpy()[middle], official.rgb[i][6::12, 8::16]
            assert np.abs(seen.astype(int) - meant).mean() < 8


@pytest.mark.data
def test_prepared_packs_have_the_arrays_and_classes_of_the_published_ones(official, tmp_path):
    made, published = Pack(prepare(official.file, tmp_path)[1]).arrays, Pack(DATA / pack_name("144x192")).arrays
    assert made.keys() == published.keys()
    assert all(made[name].dtype == published[name].dtype for name in made)
    for name in ("map40to13", "names13", "names40"):
        assert np.array_equal(made[name], published[name]), name
    assert made["depth_metres_per_level"] == pytest.approx(float(published["depth_metres_per_level"]), rel=1e-9)


def test_official_files_that_are_missing_or_do_not_fit_are_named(official, tmp_path):
    import h5py
    from scipy.io import savemat

    savemat(tmp_path / "splits.mat", {"trainNdxs": [[1], [2]], "testNdxs": [[4]]})
    with pytest.raises(DataError, match="1 to 5"):
        prepare(official.file, tmp_path)
    savemat(tmp_path / "splits.mat", {"trainNdxs": [[1], [2], [3]], "testNdxs": [[4], [5]]})
    savemat(tmp_path / "classMapping40.mat", {"mapClass": np.ones((1, 13))})
    with pytest.raises(DataError, match=r"labels of the classes in classMapping40\.mat"):
        prepare(official.file, tmp_path)
    (tmp_path / "classMapping40.mat").unlink()
    with pytest.raises(DataError, match=r"put classMapping40\.mat beside"):
        prepare(official.file, tmp_path)
    Official(tmp_path)
    with h5py.File(official.file, "r+") as file:
        del file["depths"]
    with pytest.raises(DataError, match="not the official one"):
        prepare(official.file, tmp_path)
    official.file.write_bytes(b"MATLAB 7.3 MAT-file, cut short")
    with pytest.raises(DataError, match="not the official one"):
        prepare(official.file, tmp_path)


# ---- losses and scores -----------------------------------------------------------------------------------------------


def output_of(batch: nyuv2.Batch, seed: int = 1) -> Tensor:
    rows, height, width = batch[2].shape
    return 3 * torch.randn(rows, 14, height, width, generator=torch.Generator().manual_seed(seed))


def oracle(output: Tensor, batch: nyuv2.Batch) -> dict[str, float]:
    """All losses and scores, pixel by pixel."""
    logits, z = output[:, :13].double().numpy(), output[:, 13].double().numpy()
    true, levels = batch[2].numpy(), batch[1].double().numpy()
    entropies, pairs = [], []
    for (b, y, x), label in np.ndenumerate(true):
        if label >= 0:
            p = np.exp(logits[b, :, y, x]) / np.exp(logits[b, :, y, x]).sum()
            entropies.append(-np.log(p[label]))
            pairs.append((label, p.argmax()))
    met, pairs = (levels + 0.5) * 9.99547 / 255, np.array(pairs)
    off = np.abs(2.84 + 1.42 * z - met)
    ious = []
    for c in range(13):
        inside, predicted = pairs[:, 0] == c, pairs[:, 1] == c
        if (inside | predicted).any():
            ious.append((inside & predicted).sum() / (inside | predicted).sum())
    return {
        "segmentation": np.mean(entropies),
        "depth": off.mean(),
        "mIoU": np.mean(ious),
        "pixel accuracy": (pairs[:, 0] == pairs[:, 1]).mean(),
        "relative depth error": (off / met).mean(),
    }


@pytest.mark.parametrize("rare", [False, True], ids=["all classes", "few classes"])
def test_losses_and_scores_over_batches_are_those_of_the_whole_split(rare):
    problem, batch = build("nyuv2"), batch_of(5)
    if rare:  # classes that are neither there nor predicted do not count
        batch = (*batch[:2], batch[2].clamp(max=2))
    output = output_of(batch)
    if rare:
        output[:, 6:13] = -50
    batch[2][0] = -1  # an image without labels
    expected = oracle(output, batch)
    for name, measure in {**problem.measures, **problem.scores}.items():
        parts = [measure.statistics(output[i:j], tuple(t[i:j] for t in batch)) for i, j in ((0, 1), (1, 3), (3, 5))]
        merged = measure.merge(measure.merge(parts[0], parts[1]), parts[2])
        assert float(measure.value(merged)) == pytest.approx(expected[name], rel=1e-5), name
        assert float(measure(output, batch)) == pytest.approx(expected[name], rel=1e-5), name


def test_the_cross_entropy_and_its_gradient_are_those_of_torch():
    batch, problem = batch_of(), build("nyuv2")
    output = output_of(batch).requires_grad_()
    own = problem.measures["segmentation"](output, batch)
    torchs = F.cross_entropy(output[:, :13], batch[2].long(), ignore_index=-1)
    torch.testing.assert_close(own, torchs)
    torch.testing.assert_close(*(torch.autograd.grad(loss, output)[0] for loss in (own, torchs)))


def test_a_batch_without_labels_has_no_loss_and_no_gradient():
    rgb, depth, classes = batch_of()
    output = output_of((rgb, depth, classes)).requires_grad_()
    loss = build("nyuv2").measures["segmentation"](output, (rgb, depth, classes.fill_(-1)))
    loss.backward()
    assert loss == 0
    assert not output.grad.any()


def test_losses_and_scores_can_be_batched_over_rays():
    batch, problem = batch_of(), build("nyuv2")
    outputs = torch.stack([output_of(batch, seed) for seed in (1, 2)])
    for measure in (*problem.measures.values(), *problem.scores.values()):
        together = torch.vmap(lambda output, measure=measure: measure(output, batch))(outputs)
        torch.testing.assert_close(together, torch.stack([measure(output, batch) for output in outputs]))


# ---- random views ----------------------------------------------------------------------------------------------------


def same(first: nyuv2.Batch, second: nyuv2.Batch) -> None:
    torch.testing.assert_close(first[0].float(), second[0].float(), atol=0.05, rtol=0)  # grey levels of 255
    torch.testing.assert_close(first[1].float(), second[1].float(), atol=1e-4, rtol=0)
    assert first[2].equal(second[2])


@pytest.mark.parametrize("size", [(16, 24), (72, 96), (288, 384)])
def test_views_with_the_identitys_numbers_change_nothing(size):
    batch = batch_of(2, *size)
    same(RandomViews()(batch, IDENTITY.expand(2, 6)), batch)


def test_a_mirrored_view_is_the_image_reversed_and_twice_mirrored_the_image():
    batch, mirror = batch_of(), IDENTITY.repeat(3, 1)
    mirror[:, 0] = -1
    once = RandomViews()(batch, mirror)
    same(once, tuple(tensor.flip(-1) for tensor in batch))
    same(RandomViews()(once, mirror), batch)


@pytest.mark.parametrize(("x", "y"), [(-1, -1), (1, -1), (0, 0), (0.5, 1)])
def test_a_view_at_scale_two_is_a_quarter_of_the_image_with_half_its_depth(x, y):
    batch = batch_of()
    numbers = torch.tensor([1.0, 2.0, x, y, 1.0, 0.0]).expand(3, 6)
    left, top = round((x + 1) * 6), round((y + 1) * 4)  # of a part of 8 x 12 in 16 x 24
    _, depth, classes = RandomViews()(batch, numbers)
    part = [t[:, top : top + 8, left : left + 12].repeat_interleave(2, 1).repeat_interleave(2, 2) for t in batch[1:]]
    torch.testing.assert_close(nyuv2.meters(depth), nyuv2.meters(part[0]) / 2)
    assert classes.equal(part[1])


@settings(max_examples=25)
@given(st.integers(0, 2**31))
def test_drawn_views_keep_ranges_and_invent_no_class_and_no_depth(seed):
    batch = batch_of(4)
    numbers = RandomViews().draw(4, torch.Generator().manual_seed(seed))
    rgb, depth, classes = RandomViews()(batch, numbers)
    assert [t.shape for t in (rgb, depth, classes)] == [t.shape for t in batch]
    assert 0 <= rgb.min() <= rgb.max() <= 255
    assert classes.dtype == batch[2].dtype
    for row in range(4):
        assert set(classes[row].unique().tolist()) <= set(batch[2][row].unique().tolist())
        scale = numbers[row, 1]
        assert any(scale == s for s in SCALES)
        before = ((depth[row] + 0.5) * scale - 0.5).unique()
        torch.testing.assert_close(before, before.round(), atol=1e-3, rtol=0)
        assert set(before.round().int().tolist()) <= set(batch[1][row].int().unique().tolist())


def test_contrast_and_brightness_change_colors_alone():
    batch, numbers = batch_of(), IDENTITY.repeat(3, 1)
    numbers[:, 4:] = torch.tensor([1.1, -0.05])
    rgb, depth, classes = RandomViews()(batch, numbers)
    expected = (127.5 + (batch[0].double() - 127.5) * 1.1 - 0.05 * 255).clamp(0, 255)
    same((rgb, depth, classes), (expected, *batch[1:]))


def test_every_scale_and_both_sides_are_drawn():
    numbers = RandomViews().draw(200, torch.Generator().manual_seed(0))
    assert numbers[:, 0].unique().tolist() == [-1, 1]
    assert numbers[:, 1].unique().tolist() == pytest.approx(SCALES)
    assert numbers[:, 2:4].abs().max() <= 1


# ---- ENet ------------------------------------------------------------------------------------------------------------


def test_enet_has_as_many_weights_as_stated():
    # without biases before BatchNorm; the paper rounds to 0.37 million, for 12 classes or more
    def bottleneck(inputs: int, project: int, inner_weights: int, outputs: int) -> int:
        inner = outputs // 4
        return inputs * project * inner + inner_weights + inner * outputs + 2 * 3 * inner + 3 * outputs

    def regular(c: int) -> int:
        return bottleneck(c, 1, 9 * (c // 4) ** 2, c)

    asymmetric = bottleneck(128, 1, 10 * 32**2, 128)
    initial = 13 * 3 * 9 + 3 * 16
    encoder = bottleneck(16, 4, 9 * 16**2, 64) + 4 * regular(64) + bottleneck(64, 4, 9 * 32**2, 128)
    middle = 2 * (6 * regular(128) + 2 * asymmetric)
    decoder = bottleneck(128, 1, 9 * 16**2, 64) + 64 * 128 + 2 * 64 + 2 * regular(64)
    decoder += bottleneck(64, 1, 9 * 4**2, 16) + 16 * 64 + 2 * 16 + regular(16)
    total = initial + encoder + middle + decoder + 14 * (16 * 9 + 1)
    assert sum(p.numel() for p in ENet(14).parameters()) == total == 364_749


@pytest.mark.parametrize("size", [(288, 384), (144, 192), (72, 96)])
def test_enet_keeps_the_size_of_the_image(size):
    with torch.no_grad():
        assert ENet(14).eval()(torch.zeros(1, 3, *size)).shape == (1, 14, *size)


def test_enet_sees_far():
    """Dilation lets a pixel depend on others most of the image away."""
    net, image = ENet(2).double().eval(), torch.randn(1, 3, 144, 192, dtype=torch.float64, requires_grad=True)
    net(image)[0, 0, 72, 96].backward()
    reach = image.grad.abs().sum(1)[0].nonzero()
    assert (reach.amax(0) - reach.amin(0)).tolist() == [143, 191]


def test_unpooling_puts_values_back_where_the_maxima_were():
    x = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))
    pooled, places = F.max_pool2d(x, 2, return_indices=True)
    assert unpool(pooled, places).equal(F.max_unpool2d(pooled, places, 2))
    back = unpool(pooled, places)
    assert back[back != 0].equal(x[back != 0])


# ---- the problem as a whole ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> hf.Problem:
    return build("nyuv2", size="72x96", rows=20, augment=False, data_dir=DATA)


@pytest.mark.data
def test_a_plain_module_gives_what_the_model_gives(small):
    torch.manual_seed(0)
    model = small.model(hidden=4)
    x = small.inputs(small.val.source.data)
    model.calibrate([x])
    model.eval()
    for ray in ([0.2, 0.8], [0.7, 0.3]):
        with torch.no_grad():
            torch.testing.assert_close(model.at(ray)(x), model(x, rays=[ray])[0], atol=1e-4, rtol=1e-4)


@pytest.mark.data
def test_several_rays_at_once_train_as_one_by_one(small):
    torch.manual_seed(0)
    model = small.model(hidden=4).eval()  # no dropout
    model.target.batchnorm = "batch"
    batch = tuple(tensor[:4] for tensor in small.train.source.data)
    rays = torch.tensor([[0.2, 0.8], [0.7, 0.3]])
    losses = {}
    for batching in ("loop", "vmap"):
        model.target.stacking.mode = batching
        model.target.train(False)
        losses[batching] = model.target.map(small.losses, model.hypernet(rays), rays, batch, split=False)
    torch.testing.assert_close(losses["loop"], losses["vmap"], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "offical"}, "paper, official"),
        ({"size": "480x640"}, "288x384, 144x192, 72x96"),
        ({"augment": "no"}, "0, 1"),
        ({"rows": 3}, "from 10 to 1,449"),
        ({"rows": "many"}, "from 10 to 1,449"),
        ({"colour": 1}, "has no argument"),
    ],
)
def test_unknown_arguments_are_refused_with_what_there_is(arguments, message):
    with pytest.raises(HyperfrontError, match=message):
        build("nyuv2", **arguments)


def test_the_problem_and_its_target_need_no_data():
    problem = build("nyuv2", data_dir="nowhere")
    assert problem.objectives == ("segmentation", "depth")
    assert problem.reference == (3, 3)
    assert problem.model(hidden=2).target.n == 364_749
    with pytest.raises(DataError):
        problem.train


def test_presets_make_hypernetworks_of_the_stated_size():
    for name, recipe in problems()["nyuv2"].presets.items():
        model = build("nyuv2", **recipe.arguments).model(**recipe.model)
        weights = sum(p.numel() for p in model.parameters())
        assert weights == 364_749 * 101 + 20_500 if name == "paper" else weights <= 4_000_000, name


@pytest.mark.data
def test_the_smoke_preset_runs_from_the_command_line(tmp_path):
    command = [
        sys.executable,
        "-c",
        "from hyperfront.apps.cli import main; main()",
        "train",
        "nyuv2",
        "--preset",
        "smoke",
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HYPERFRONT_DATA": str(DATA)}
    done = subprocess.run([*command, "--out", "run"], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    front = hf.Front.load(tmp_path / "run" / "front.json")
    assert set(front.scores) == {"mIoU", "pixel accuracy", "relative depth error"}
    assert front.losses.isfinite().all()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["record"]["problem"] == "nyuv2"
    assert hf.load(tmp_path / "run").at([0.5, 0.5])(torch.zeros(1, 3, 72, 96)).shape == (1, 14, 72, 96)
