"""Triton programs. Nothing here is imported before :func:`hyperfront.kernels.on_gpu` has said that it can be.

Without a GPU they run in Triton's interpreter (``TRITON_INTERPRET=1``), which is how the tests compare them with their
plain twins on any machine.
"""
