"""The paper's tables and figures: declarations, what they need to be trained, and one page that shows them all.

Navon, Shamsian, Fetaya & Chechik, "Learning the Pareto Front with Hypernetworks", ICLR 2021.
"""

from reproduction.items import ITEMS, Item
from reproduction.reproduce import reproduce
from reproduction.store import Workshop

__all__ = ["ITEMS", "Item", "Workshop", "reproduce"]
