"""The paper's tables and figures: declarations, what they need to be trained, and one page that shows them all.

Navon, Shamsian, Fetaya & Chechik, "Learning the Pareto Front with Hypernetworks", ICLR 2021.
"""

from hyperfront.paper.items import ITEMS, Item
from hyperfront.paper.reproduce import reproduce
from hyperfront.paper.workshop import Workshop

__all__ = ["ITEMS", "Item", "Workshop", "reproduce"]
