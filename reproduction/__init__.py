"""The paper's tables and figures: declarations, the studies that they train, and one page that shows them all.

Navon, Shamsian, Fetaya & Chechik, "Learning the Pareto Front with Hypernetworks", ICLR 2021.
"""

from reproduction.items import ITEMS, Item, reproduce
from reproduction.store import Store

__all__ = ["ITEMS", "Item", "Store", "reproduce"]
