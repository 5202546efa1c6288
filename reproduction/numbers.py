"""The numbers of the paper's tables: hypervolume and uniformity by problem and method, and its run times.

Hypernetworks at 25 rays (Multi-MNIST, NYUv2), 150 (fairness) and 100 (SARCOS), the others at 5, 10 and 20. Times are
those of all rays together, in minutes on a Tesla V100. The paper does not say the base of the logarithm in its
uniformity; .192 for two objectives (PMTL on Multi-Fashion) is less than the natural one allows, which is .307.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Number(NamedTuple):
    """What the paper reports for one method on one problem."""

    hypervolume: float
    uniformity: float | None = None


Numbers = Mapping[str, Mapping[str, Number]]
"""By problem and method."""

TABLE_1: Numbers = {
    "multi-fashion-mnist": {
        "ls": Number(2.70, 0.849),
        "cpmtl": Number(2.76),
        "pmtl": Number(2.67, 0.776),
        "epo": Number(2.67, 0.892),
        "phn-ls": Number(2.75, 0.894),
        "phn-epo": Number(2.78, 0.952),
    },
    "multi-fashion": {
        "ls": Number(2.14, 0.835),
        "cpmtl": Number(2.16),
        "pmtl": Number(2.13, 0.192),
        "epo": Number(2.15, 0.906),
        "phn-ls": Number(2.19, 0.900),
        "phn-epo": Number(2.19, 0.921),
    },
    "multi-mnist": {
        "ls": Number(2.85, 0.846),
        "cpmtl": Number(2.88),
        "pmtl": Number(2.86, 0.793),
        "epo": Number(2.85, 0.918),
        "phn-ls": Number(2.90, 0.901),
        "phn-epo": Number(2.78, 0.920),
    },
}
TABLE_2: Numbers = {
    "adult": {
        "ls": Number(0.628, 0.109),
        "pmtl": Number(0.614, 0.458),
        "epo": Number(0.608, 0.734),
        "phn-ls": Number(0.658, 0.289),
        "phn-epo": Number(0.648, 0.701),
    },
    "default": {
        "ls": Number(0.522, 0.069),
        "pmtl": Number(0.548, 0.471),
        "epo": Number(0.537, 0.533),
        "phn-ls": Number(0.551, 0.108),
        "phn-epo": Number(0.548, 0.359),
    },
    "bank": {
        "ls": Number(0.704, 0.215),
        "pmtl": Number(0.638, 0.497),
        "epo": Number(0.713, 0.881),
        "phn-ls": Number(0.730, 0.615),
        "phn-epo": Number(0.748, 0.821),
    },
}
TABLE_3: Numbers = {
    "nyuv2": {
        "ls": Number(3.550, 0.666),
        "pmtl": Number(3.554, 0.679),
        "cpmtl": Number(3.570),
        "epo": Number(3.266, 0.728),
        "phn-ls": Number(3.546, 0.798),
        "phn-epo": Number(3.589, 0.820),
    }
}
TABLE_4: Numbers = {
    "sarcos": {
        "ls": Number(0.688, -0.008),
        "epo": Number(0.637, 0.548),
        "phn-ls": Number(0.693, 0.020),
        "phn-epo": Number(0.728, 0.258),
    }
}
TABLE_5 = {
    "adult": {"train": 32559, "val": 3618, "test": 9045},
    "default": {"train": 21600, "val": 2400, "test": 6000},
    "bank": {"train": 29655, "val": 3295, "test": 8238},
}
TABLE_6: Numbers = {
    "multi-fashion-mnist": {"phn-ls": Number(2.740, 0.852), "phn-epo": Number(2.760, 0.908)},
    "multi-fashion": {"phn-ls": Number(2.190, 0.838), "phn-epo": Number(2.180, 0.860)},
    "multi-mnist": {"phn-ls": Number(2.900, 0.840), "phn-epo": Number(2.760, 0.857)},
    "adult": {"phn-ls": Number(0.624, 0.282), "phn-epo": Number(0.631, 0.742)},
    "default": {"phn-ls": Number(0.538, 0.106), "phn-epo": Number(0.531, 0.395)},
    "bank": {"phn-ls": Number(0.695, 0.603), "phn-epo": Number(0.717, 0.833)},
    "nyuv2": {"phn-ls": Number(3.494, 0.683), "phn-epo": Number(3.565, 0.701)},
    "sarcos": {"phn-ls": Number(0.693, -0.051), "phn-epo": Number(0.728, 0.190)},
}
_IMAGES = {"ls": 45, "cpmtl": 51, "pmtl": 85, "epo": 118, "phn-ls": 12, "phn-epo": 27}
MINUTES: Mapping[str, Mapping[str, float]] = {
    **dict.fromkeys(TABLE_1, _IMAGES),
    "adult": {"ls": 9.0, "pmtl": 26.6, "epo": 15.5, "phn-ls": 1.1, "phn-epo": 1.8},
    "nyuv2": {"ls": 175.2, "pmtl": 287.4, "cpmtl": 213.0, "epo": 306.6, "phn-ls": 40.2, "phn-epo": 62.4},
    "sarcos": {"ls": 198, "epo": 600, "phn-ls": 12, "phn-epo": 48},
}
"""The paper gives one column for the three sets of Multi-MNIST, and that of Adult for fairness; hours times 60."""

UNSEEN = {"seen": Number(0.7337, 0.163), "unseen": Number(0.7336, 0.158)}
"""Appendix B.2: rays of the grid that was trained on, and of the shifted one."""
