"""Intervals hold what is true: the code of docs/evidence/studies/interval_coverage.py.

Seeds are fixed; with others, bands of four standard errors would fail once in 16,000 numbers.
"""

import math

import interval_coverage as study

TARGETS = {False: (93.5, 96.5), True: (93.0, 97.5)}  # by whether rows of the rarer label are 2 to 19


def held(cell: study.Cell, studies: int) -> None:
    low, high = TARGETS[cell.few]
    for text in list(study.of_cell(cell, studies))[: len(study.NAMES)]:
        share, width = (float(part) for part in text.rstrip(")").split(" ("))
        by = 100 * math.sqrt(0.05 * 0.95 / studies)
        assert low - 4 * by <= share <= high + 4 * by
        assert cell.few or width <= 1.15 * (1 + 4 / math.sqrt(2 * studies))


def test_intervals_hold_what_is_true_in_a_cell_of_points() -> None:
    held(next(each for each in study.CELLS if each.points), 60)
