"""Attention: the layers of ``torch.nn`` and hand-written ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.oracle.case import Case
from tests.oracle.zoo.layers import randn


class Attending(nn.Module):
    """Self-attention that also returns its map."""

    def __init__(self, **options: object):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True, **options), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, weights = self.attention(x, x, x)
        return self.head(y), weights


class Crossing(nn.Module):
    """Attention from one sequence to another, of other widths, under a mask."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, batch_first=True, add_bias_kv=True)

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = torch.zeros(k.shape[:2], dtype=torch.bool, device=k.device)
        mask[:, -1] = True
        return self.attention(q, k, v, key_padding_mask=mask, need_weights=False)[0]


class Causal(nn.Module):
    """A decoder block by hand, on PyTorch's fused attention."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(4, 12), nn.Linear(4, 4), nn.LayerNorm(4)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (2, 2)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, -1))
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """The encoder of ``torch.nn``, mean over the sequence."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=dropout, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


class Whole(nn.Module):
    """Encoder and decoder."""

    def __init__(self):
        super().__init__()
        self.whole = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device, dtype=target.dtype)
        return self.whole(source, target, tgt_mask=mask)


CASES = [
    Case("MultiheadAttention", Attending, randn(4, 3, 4)),
    Case(
        "MultiheadAttention across",
        Crossing,
        lambda: (torch.randn(4, 2, 4), torch.randn(4, 3, 3), torch.randn(4, 3, 5)),
    ),
    Case("MultiheadAttention, dropout", lambda: Attending(dropout=0.3), randn(4, 3, 4), random=True),
    Case("fused attention by hand", Causal, randn(4, 3, 4), compiled=True),
    Case("TransformerEncoder", Encoder, randn(4, 3, 4), compiled=True),
    Case("TransformerEncoder, dropout", lambda: Encoder(0.2), randn(4, 3, 4), random=True),
    Case("Transformer", Whole, lambda: (torch.randn(4, 3, 4), torch.randn(4, 2, 4))),
]
