"""A model of time and memory of a step on many GPUs, from published figures. Nothing here was measured on several GPUs.

    computing   2 P T (1 + b) / (u F)       b backward passes: 1 for LS, m for EPO; the target's own weights are frozen
    sending     2 (N - 1) / N * 4 c R n / B + messages * latency      c = 1 for LS, m for EPO

with P weights of the target, T tokens for each GPU, F the peak of the GPU, u the share of it that is reached, N GPUs, n
generated weights at R rays, and B the bus bandwidth of an all-reduce.
"""

from __future__ import annotations

from dataclasses import dataclass

PEAK, REACHED = 989e12, 0.4
"""FLOP/s of an H100 (SXM) in bfloat16 without sparsity, by its data sheet, and an assumed share of it."""
WITHIN, BETWEEN = 476e9, 8 * 46e9
"""Bytes/s of an all-reduce on H100s: in a node with NVLink SHARP, and over eight 400 Gb/s adapters of each node, as a
developer of NCCL names them in https://github.com/NVIDIA/nccl-tests/issues/290."""
LATENCY = 40e-6
"""Seconds for each message: an assumption."""
HIDDEN = 32
"""Width of the hypernetwork's last hidden layer."""


@dataclass(frozen=True)
class Decoder:
    """A decoder with low-rank additions to all its matrices."""

    name: str
    weights: float
    layers: int
    width: int
    inner: int
    kept: int
    """Width of keys and values."""
    rank: int = 16

    @property
    def n(self) -> int:
        sides = 2 * (2 * self.width) + 2 * (self.width + self.kept) + 3 * (self.width + self.inner)
        return self.layers * self.rank * sides


DECODERS = [Decoder("1B", 1.24e9, 16, 2048, 8192, 512), Decoder("7B", 6.74e9, 32, 4096, 11008, 4096)]


def predicted(
    decoder: Decoder, gpus: int, *, m: int, gram: bool, tokens: int = 4096, rays: int = 1
) -> dict[str, float]:
    """Seconds of computing and sending, and GB of memory on each GPU, of one step."""
    count = m if gram else 1
    computing = 2 * decoder.weights * tokens * rays * (1 + count) / (REACHED * PEAK)
    bandwidth = WITHIN if gpus <= 8 else BETWEEN
    sent = 4 * count * rays * decoder.n
    sending = 2 * (gpus - 1) / gpus * sent / bandwidth + (count + 1) * LATENCY
    parameters = decoder.n * (HIDDEN + 1)
    memory = 2 * decoder.weights + 16 * parameters + 4 * (count + 2) * rays * decoder.n
    memory += 2 * tokens * decoder.width * decoder.layers  # activations at the borders of layers
    ddp = 2 * (gpus - 1) / gpus * 4 * parameters / bandwidth
    return {"computing": computing, "sending": sending, "memory": memory / 1e9, "hypernetwork instead": ddp}


def table() -> list[str]:
    """The lines of a table."""
    lines = [
        "| target | GPUs | solver | computing, ms | sending, ms | the hypernetwork's gradient, ms | GB |",
        "|---|---|---|---|---|---|---|",
    ]
    for decoder in DECODERS:
        for gpus in (8, 64):
            for solver, gram in (("LS", False), ("EPO", True)):
                found = predicted(decoder, gpus, m=2, gram=gram)
                times = [found[name] for name in ("computing", "sending", "hypernetwork instead")]
                cells = [decoder.name, str(gpus), solver, *(f"{1e3 * value:.1f}" for value in times)]
                lines.append(f"| {' | '.join([*cells, format(found['memory'], '.0f')])} |")
    return lines
