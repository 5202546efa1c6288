"""Tests run on one thread: their tensors are small, and threads that compete for cores slow each other down tenfold."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for this process, before torch is imported, and for those it starts

import torch

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # so that the GPU's programs are tested too
