"""Triton programs and CUDA C. They are imported only after :func:`hyperfront.kernels.on_gpu` has returned True.

Without a GPU, the tests run the Triton programs in Triton's interpreter (``TRITON_INTERPRET=1``) and the CUDA C in a
small emulator, and compare both with their plain twins.
"""
