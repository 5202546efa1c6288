"""Built-in problems: toys with known fronts, the paper's eight on real data, and tables.

Importing it fills the registry.
"""

from dataclasses import replace

from hyperfront.problem.registry import register
from hyperfront.zoo import fairness, multi_mnist, nyuv2, sarcos, table, toys
from hyperfront.zoo.notes import NOTES

for _module in (toys, multi_mnist, fairness, sarcos, nyuv2, table):
    register({name: replace(entry, notes=NOTES.get(name)) for name, entry in _module.ENTRIES.items()})
