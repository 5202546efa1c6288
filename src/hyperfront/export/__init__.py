"""Export: a learned front, or the network at one of its rays, as files that need no hyperfront.

- :func:`weights`: the network at a ray as safetensors, with a loader of a few lines;
- :func:`pt2` and :func:`onnx`: the graph of that network, or of hypernetwork and target with the ray as an input;
- :func:`adapters`: low-rank additions as LoRA folders of peft, one for each objective or ray;
- :func:`int8`: a model whose hypernetwork takes a quarter of the bytes;
- :func:`card`: a description of a model in words and tables (Markdown).

>>> from torch import nn
>>> import hyperfront as hf, tempfile
>>> model = hf.wrap(nn.Linear(3, 1), objectives=["cost", "risk"], hidden=8)
>>> with tempfile.TemporaryDirectory() as folder:
...     [file.name for file in weights(model, [0.3, 0.7], f"{folder}/net.safetensors")]
['net.safetensors', 'net.py']
"""

from hyperfront.export.adapters import adapters
from hyperfront.export.card import card
from hyperfront.export.formats import onnx, pt2
from hyperfront.export.graph import graph
from hyperfront.export.int8 import int8
from hyperfront.export.weights import weights

__all__ = ["adapters", "card", "graph", "int8", "onnx", "pt2", "weights"]
