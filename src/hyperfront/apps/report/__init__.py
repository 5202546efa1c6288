"""The report of a run: one page about its front, the chosen point and how sure it is, its data and its settings."""

from hyperfront.apps.report.page import report

__all__ = ["report"]
