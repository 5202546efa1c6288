"""Solve one tiny linear program in plain numbers: for one ray and three objectives, a hundred operations on tensors of
nine numbers take ten times as long as their arithmetic.

The pivots are those of :mod:`hyperfront.solvers.linalg.linprog`, which also solves the difficult programs.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyperfront.solvers.linalg.linprog import ACCEPTED, BLAND, PIVOT, SLACK, VIOLATED

SAFE = 1e-3  # larger pivots, of rows scaled to 1, magnify rounding errors by at most a thousand

Row = Sequence[float]


def maximize_one(c: Row, A: Sequence[Row], b: Row) -> list[float] | None:
    """Find the ``alpha [m]`` in the simplex that maximizes ``c . alpha`` subject to ``A alpha >= b``, or None.

    None does not mean that there is no such point. It means that the program needs more care: a pivot is small, or
    there are many pivots.

    >>> maximize_one([1.0, 0.0, 0.0], [[-1.0, 1.0, 0.0]], [0.0])
    [0.5, 0.5, 0.0]
    """
    m = len(c)
    lines = [[float(i == j) for i in range(m)] for j in range(m)]  # line times alpha >= 0 for all lines but the last
    for row, bound in zip(A, b):
        if scale := max(map(abs, row)):
            lines.append([(entry - bound) / scale for entry in row])
        elif bound > 0:
            return None
    scale = max(map(abs, c)) or 1.0
    lines.append([-entry / scale for entry in c])

    start = c.index(max(c))
    table = [[line[j] - line[start] for line in lines] for j in range(m)] + [[line[start] for line in lines]]
    for _ in range(BLAND * m):
        constants = table[m][:-1]
        worst = min(constants)
        if worst >= -VIOLATED:
            break
        leaving = constants.index(worst)
        ratios = [((row[-1] + SLACK) / row[leaving], j) for j, row in enumerate(table) if row[leaving] > PIVOT]
        entering = min(ratios)[1] if ratios else start
        move = table[entering]
        pivot = move[leaving]
        if pivot < SAFE:  # also for the idle move from the start to itself, whose pivot is zero
            return None
        for j, row in enumerate(table):
            factor = row[leaving] / pivot
            table[j] = [entry - factor * step for entry, step in zip(row, move)]
        table[entering] = [step / pivot for step in move]
    else:
        return None
    if min(row[-1] for row in table[:m]) < -ACCEPTED:
        return None
    alpha = [max(entry, 0.0) for entry in table[m][:m]]
    total = sum(alpha)
    return [entry / total for entry in alpha] if abs(total - 1) < ACCEPTED else None  # false for NaN
