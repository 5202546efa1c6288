"""Train with Lightning: :class:`ParetoModule` is a ``LightningModule`` around a :class:`~hyperfront.ParetoModel`.

``pip install 'hyperfront[lightning]'`` brings what it needs.
"""

from hyperfront.errors import HyperfrontError

try:
    import lightning.pytorch  # noqa: F401
except ModuleNotFoundError as error:
    raise HyperfrontError("Lightning is not installed", got=error, fix="pip install 'hyperfront[lightning]'") from None

from hyperfront.lightning.pareto_module import ParetoModule

__all__ = ["ParetoModule"]
