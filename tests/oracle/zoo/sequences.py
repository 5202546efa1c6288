"""Recurrent layers and embeddings."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.oracle.case import NO_VMAP, Case
from tests.oracle.zoo.layers import randn


class Last(nn.Module):
    """A recurrent layer, and a head on what it says of the last step."""

    def __init__(self, layer: nn.Module, width: int):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class Packed(nn.Module):
    """An LSTM over sequences of several lengths."""

    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        lengths = torch.arange(len(x), 0, -1).clamp_max(x.shape[1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return self.head(self.layer(packed)[1][0][-1])


class Cells(nn.Module):
    """Cells in a loop of one's own."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(3, 4), nn.GRUCell(4, 4), nn.RNNCell(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        zero = x.new_zeros(len(x), 4)
        (h, c), g, r = (zero, zero), zero, zero
        for step in x.unbind(1):
            h, c = self.lstm(step, (h, c))
            g = self.gru(h, g)
            r = self.rnn(g, r)
        return torch.cat([h, g, r], -1)


class Tokens(nn.Module):
    """An embedding and a head."""

    def __init__(self, embedding: nn.Module, width: int = 4):
        super().__init__()
        self.embedding, self.head = embedding, nn.Linear(width, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embedding(tokens))).flatten(1)


class Tied(nn.Module):
    """The output layer is the embedding."""

    def __init__(self):
        super().__init__()
        self.embedding, self.mix = nn.Embedding(9, 6), nn.Linear(6, 6)
        self.decoder = nn.Linear(6, 9, bias=False)
        self.decoder.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.decoder(torch.tanh(self.mix(self.embedding(tokens))))


class Adaptive(nn.Module):
    """A softmax in clusters, which returns a named tuple with its loss."""

    def __init__(self):
        super().__init__()
        self.body, self.softmax = nn.Linear(4, 6), nn.AdaptiveLogSoftmaxWithLoss(6, 9, [3, 6])

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.softmax(torch.tanh(self.body(x)), y)


def tokens(*shape: int) -> Callable[[], Tensor]:
    """Indices of nine words."""
    return lambda: torch.randint(9, shape)


CASES = [
    Case("RNN", lambda: Last(nn.RNN(3, 4, batch_first=True), 4), randn(6, 5, 3), refused=NO_VMAP),
    Case("GRU", lambda: Last(nn.GRU(3, 4, batch_first=True), 4), randn(6, 5, 3), refused=NO_VMAP),
    Case("LSTM", lambda: Last(nn.LSTM(3, 4, batch_first=True), 4), randn(6, 5, 3), refused=NO_VMAP),
    Case(
        "LSTM, two layers, both directions",
        lambda: Last(nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2), 4),
        randn(6, 5, 3),
        refused=NO_VMAP,
    ),
    Case("LSTM, packed sequences", Packed, randn(6, 5, 3), refused=NO_VMAP),
    Case(
        "GRU with dropout",
        lambda: Last(nn.GRU(3, 4, 2, batch_first=True, dropout=0.3), 4),
        randn(6, 5, 3),
        random=True,
        refused=NO_VMAP,
    ),
    Case("cells", Cells, randn(6, 3, 3), refused=NO_VMAP),
    Case("Embedding", lambda: Tokens(nn.Embedding(9, 4, padding_idx=0)), tokens(6, 3)),
    Case(
        "Embedding, max_norm", lambda: Tokens(nn.Embedding(9, 4, max_norm=1.0)), tokens(6, 3), refused={"*": "max_norm"}
    ),
    Case("EmbeddingBag", lambda: Tokens(nn.EmbeddingBag(9, 4)), tokens(6, 3)),
    Case("EmbeddingBag, sparse", lambda: Tokens(nn.EmbeddingBag(9, 4, sparse=True)), tokens(6, 3)),
    Case("tied embedding", Tied, tokens(6, 3)),
    Case("AdaptiveLogSoftmaxWithLoss", Adaptive, lambda: (torch.randn(6, 4), torch.arange(6))),
]
