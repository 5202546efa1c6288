"""The gradient oracle: what hyperfront computes for a module, against plain autograd on a plain copy of that module.

``zoo`` lists the modules, ``features`` the ways in which each is driven, ``oracle`` compares, and ``table`` writes down
what came out: right with the largest relative error, refused with the message, or not applicable. As a command::

    python -m tests.oracle --compiled --markdown docs/modules-table.md

Cases of timm, torchvision and segmentation_models_pytorch are no part of the extra ``modules``, since torchvision asks
for a torch of its own. Put beside it, they run all the same::

    pip install --no-deps --target elsewhere torchvision timm segmentation-models-pytorch
    PYTHONPATH=elsewhere python -m tests.oracle --only timm segmentation torchvision \\
        --markdown docs/modules-table-images.md
"""
