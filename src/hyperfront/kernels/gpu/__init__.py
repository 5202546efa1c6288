"""Programs for a GPU, in Triton and in CUDA C (``*.cu``, by :mod:`hyperfront.kernels.gpu.cuda_source`).

Nothing here is imported before :func:`hyperfront.kernels.on_gpu` has said that it can be. Without a GPU the former run
in Triton's interpreter (``TRITON_INTERPRET=1``) and the latter in an emulator, which is how the tests compare them with
their plain twins on any machine.
"""
