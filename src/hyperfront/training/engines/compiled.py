"""A traced step whose trace Inductor compiles to C++: faster than replaying it, with other numbers in the last digits.

The first run takes from ten seconds to a minute for that. Later ones find the code in Inductor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.fx import GraphModule

from hyperfront.training.engines.tracing import Function, NotCompilable


def compiled(graph: GraphModule, inputs: Sequence[Tensor]) -> Function:
    """Compile a trace for inputs of these shapes."""
    function = torch.compile(graph, dynamic=False)
    try:
        with torch.no_grad():
            function(*inputs)
    except Exception as error:  # Inductor and its compilers raise errors of many types
        raise NotCompilable(
            "torch.compile cannot compile the step",
            got=f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            fix='install a C++ compiler such as g++, or engine="eager"',
        ) from None
    return function
