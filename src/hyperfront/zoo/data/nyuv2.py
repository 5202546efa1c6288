"""NYU Depth V2, the densely labelled images (Silberman, Hoiem, Kohli and Fergus 2012): packs, read and made here.

A pack is one ``.npz`` with all images at one size. Image ``i`` is image ``i + 1`` of the official numbering.

============================ ===================== ==============================================================
``rgb_jpeg, rgb_offset``     uint8, int64 [N + 1]  JPEG files one after another, and where they begin
``depth_png, depth_offset``  uint8, int64 [N + 1]  8-bit PNG files, with ``metres = (level + 0.5) metres_per_level``
``depth_metres_per_level``   float
``label40``                  uint8 [N, H, W]       classes 1 to 40 (Gupta et al. 2013), 0 = unlabelled
``map40to13``                uint8 [41]            classes 1 to 13 (Couprie et al. 2013), 0 = unlabelled
``names40``, ``names13``     str [40], [13]
``is_train``                 bool [N]              whether the official split trains on it
``official_index``           int16 [N]
============================ ===================== ==============================================================
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hyperfront.errors import DataError
from hyperfront.storage import files

METERS_PER_LEVEL = 9.99547 / 255
"""An upper bound in meters: no depth of the labelled images is above 9.99547 m."""
CLASSES40 = (
    "wall, floor, cabinet, bed, chair, sofa, table, door, window, bookshelf, picture, counter, blinds, desk, shelves, "
    "curtain, dresser, pillow, mirror, floor mat, clothes, ceiling, books, refridgerator, television, paper, towel, "
    "shower curtain, box, whiteboard, person, night stand, toilet, sink, lamp, bathtub, bag, otherstructure, "
    "otherfurniture, otherprop"
)
CLASSES = {
    "bed": "bed",
    "books": "books",
    "ceiling": "ceiling",
    "chair": "chair",
    "floor": "floor, floor mat",
    "furniture": "cabinet, bookshelf, counter, shelves, dresser, refridgerator, night stand, otherfurniture",
    "objects": "pillow, mirror, clothes, paper, towel, shower curtain, box, whiteboard, person, toilet, sink, lamp, "
    "bathtub, bag, otherstructure, otherprop",
    "picture": "picture",
    "sofa": "sofa",
    "table": "table, desk",
    "tv": "television",
    "wall": "wall, door",
    "window": "window, blinds, curtain",
}
"""The 13 classes, each with its members among the 40."""
PACKS = {"288x384": (288, 384, 86), "144x192": (144, 192, 92)}
"""Height, width and JPEG quality of each pack."""


def pack_name(size: str) -> str:
    """The place of the pack of that size in the data folder."""
    return f"nyuv2/nyuv2_{size}.npz"


class Pack:
    """A pack; its images are decoded on access."""

    def __init__(self, path: Path):
        try:
            with path.open("rb") as opened, np.load(opened) as file:
                self.arrays: dict[str, np.ndarray] = {name: file[name] for name in file}
            unit = float(self.arrays["depth_metres_per_level"])
            self.is_train = torch.from_numpy(self.arrays["is_train"])
        except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise DataError("the file is no pack of NYUv2 images", got=f"{path}: {error}", fix=_FIX) from None
        if abs(unit / METERS_PER_LEVEL - 1) > 1e-6:
            raise DataError(
                "the depth of the pack is in another unit",
                got=f"{path}: {unit} m for each level",
                expected=METERS_PER_LEVEL,
                fix=_FIX,
            )

    def __len__(self) -> int:
        return len(self.is_train)

    def images(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Decode RGB uint8 ``[B, 3, H, W]``, depth uint8 ``[B, H, W]`` in levels, and classes int8 ``[B, H, W]``: 0 to
        12, or -1 without a label."""
        height, width = self.arrays["label40"].shape[1:]
        to_class = self.arrays["map40to13"].astype(np.int8) - 1
        rgb = np.empty((len(rows), 3, height, width), np.uint8)
        depth, classes = np.empty((len(rows), height, width), np.uint8), np.empty((len(rows), height, width), np.int8)
        for place, i in enumerate(rows.tolist()):
            rgb[place] = self._decoded("rgb_jpeg", "rgb_offset", i).transpose(2, 0, 1)
            depth[place] = self._decoded("depth_png", "depth_offset", i)
            classes[place] = to_class[self.arrays["label40"][i]]
        return torch.from_numpy(rgb), torch.from_numpy(depth), torch.from_numpy(classes)

    def _decoded(self, files: str, offsets: str, i: int) -> np.ndarray:
        from PIL import Image

        start, stop = self.arrays[offsets][i : i + 2]
        return np.asarray(Image.open(io.BytesIO(self.arrays[files][start:stop].tobytes())))


_FIX = "make the packs from the official files: hyperfront data prepare nyuv2 nyu_depth_v2_labeled.mat"


# ---- from the official files -----------------------------------------------------------------------------------------


def prepare(file: Path, folder: Path) -> list[Path]:
    """Make both packs from the official files, as ``nyuv2/nyuv2_288x384.npz`` and ``nyuv2/nyuv2_144x192.npz`` in the
    data folder, and return their paths.

    ``file`` is ``nyu_depth_v2_labeled.mat`` (2.8 GB). Two small files beside it complete it:

    - ``splits.mat``: numbers of the training and test images (``trainNdxs``, ``testNdxs``);
    - ``classMapping40.mat``: the class among 40 for each of its 894 classes (``mapClass``).

    Images are read one at a time. Depth is the filled-in depth (``depths``), not the raw depth of the sensor.
    """
    try:
        import h5py
    except ImportError:
        raise DataError("reading a MATLAB 7.3 file needs h5py", fix="pip install 'hyperfront[data]'") from None
    train, test = (_variable(file.with_name("splits.mat"), name) for name in ("trainNdxs", "testNdxs"))
    mapping = np.concatenate([[0], _variable(file.with_name("classMapping40.mat"), "mapClass")]).astype(np.uint8)
    makers = {size: _Maker(*shape) for size, shape in PACKS.items()}
    try:
        with h5py.File(file, "r") as official:
            images, depths, labels = (official[name] for name in ("images", "depths", "labels"))
            if sorted([*train, *test]) != list(range(1, len(images) + 1)):
                raise DataError(
                    "the split does not fit these images",
                    got=f"{len(train)} + {len(test)} numbers in {file.with_name('splits.mat')}",
                    expected=f"each number from 1 to {len(images)} once",
                )
            for rgb, depth, label in zip(images, depths, labels):
                for maker in makers.values():  # MATLAB's axes come out reversed: [3, W, H], [W, H]
                    maker.add(rgb.T, depth.T, mapping[label.T])
    except (OSError, KeyError, IndexError) as error:
        raise DataError(
            "the file is not the official one",
            got=f"{file}: {error}",
            expected="nyu_depth_v2_labeled.mat with images, depths, and labels of the classes in classMapping40.mat",
        ) from None
    is_train = np.isin(np.arange(1, len(train) + len(test) + 1), train)
    return [maker.write(folder / pack_name(size), is_train) for size, maker in makers.items()]


class _Maker:
    """Collects the images of a pack."""

    def __init__(self, height: int, width: int, quality: int):
        self.shape, self.quality = (width, height), quality
        self.rgb: list[bytes] = []
        self.depth: list[bytes] = []
        self.labels: list[np.ndarray] = []

    def add(self, rgb: np.ndarray, depth: np.ndarray, label40: np.ndarray) -> None:
        """Add an image: ``[H, W, 3]`` uint8, ``[H, W]`` meters, ``[H, W]`` classes."""
        from PIL import Image
        from PIL.Image import Resampling

        levels = np.clip(depth / METERS_PER_LEVEL, 0, 255).astype(np.uint8)
        small = Image.fromarray(np.ascontiguousarray(rgb)).resize(self.shape, Resampling.LANCZOS)
        near = [Image.fromarray(a).resize(self.shape, Resampling.NEAREST) for a in (levels, label40)]
        self.rgb.append(_encoded(small, "JPEG", quality=self.quality))
        self.depth.append(_encoded(near[0], "PNG", optimize=True))
        self.labels.append(np.asarray(near[1]))

    def write(self, path: Path, is_train: np.ndarray) -> Path:
        names = CLASSES40.split(", ")
        group = {name: number for number, those in enumerate(CLASSES.values(), 1) for name in those.split(", ")}
        file = io.BytesIO()
        np.savez_compressed(
            file,
            rgb_jpeg=np.frombuffer(b"".join(self.rgb), np.uint8),
            rgb_offset=np.cumsum([0, *map(len, self.rgb)]),
            depth_png=np.frombuffer(b"".join(self.depth), np.uint8),
            depth_offset=np.cumsum([0, *map(len, self.depth)]),
            depth_metres_per_level=np.float64(METERS_PER_LEVEL),
            label40=np.stack(self.labels),
            map40to13=np.array([0, *(group[name] for name in names)], np.uint8),
            names13=np.array(list(CLASSES)),
            names40=np.array(names),
            is_train=is_train,
            official_index=np.arange(1, len(is_train) + 1, dtype=np.int16),
        )
        files.write_bytes(path, file.getvalue())
        return path


def _encoded(image: Any, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _variable(file: Path, name: str) -> np.ndarray:
    """Read a vector of integers from a small MATLAB file."""
    try:
        from scipy.io import loadmat
    except ImportError:
        raise DataError("reading a MATLAB file needs scipy", fix="pip install 'hyperfront[data]'") from None
    if not file.exists():
        raise DataError("an official file is missing", got=file, fix=f"put {file.name} beside the labelled images")
    try:
        return loadmat(file)[name].ravel().astype(int)
    except (OSError, KeyError, ValueError, NotImplementedError) as error:
        raise DataError("the file is not the official one", got=f"{file}: {error}", expected=f"{name} in it") from None
