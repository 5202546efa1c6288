"""Triton programs and CUDA C. Nothing here is imported before :func:`hyperfront.kernels.on_gpu` says that it can be.

Without a GPU the former run in Triton's interpreter (``TRITON_INTERPRET=1``) and the latter in a small emulator, which
is how the tests compare them with their plain twins on any machine.
"""
