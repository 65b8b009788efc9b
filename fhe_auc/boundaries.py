"""`Boundaries`: thresholds that a session of its own has found, so that bins hold about equally many pooled rows.

A session finds them from counts of the rows, labels left out, in the 2^h cells of [0, 1] of equal width
(`fhe_auc_protocols.histograms.hierarchical_counts`), encrypted or with privacy noise. Every party computes them from what the session tells it. They
become public in the manifest of the evaluation that follows, which somebody else may have made: each party compares the
two (`Boundaries.require`) before it counts a row for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fhe_auc.errors import InputError, VerificationError
from fhe_auc.evaluation import Evaluation, Outcome
from fhe_auc.thresholds import MIN_SIZE, explicit
from fhe_auc_protocols.histograms.hierarchical_counts import HierarchicalCounts, cell_starts, equi_depth_edges

__all__ = [
    "EXACT_HEIGHT",
    "FIRST_SESSION",
    "Boundaries",
    "checked_bins",
    "equi_depth_grid",
    "height_of",
    "preceded",
]

EXACT_HEIGHT = 14
"""h where counts are exact: 2^14 of them fill one ciphertext of the largest ring."""

FIRST_SESSION = "boundaries: "
"""Before the name of a phase of the session that found the thresholds."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Boundaries(Outcome):
    """What a session that finds thresholds yields to each party.

    Attributes
    ----------
    grid : ndarray of float64, shape (at most the number of bins asked for,)
        Thresholds: 0, and where the other bins begin; multiples of 2^-h, strictly ascending. Read-only.
    """

    grid: NDArray[np.float64]

    def require(self, grid: ArrayLike, *, party: str) -> None:
        """Check the thresholds of the evaluation's manifest, which its key holder has made.

        Parameters
        ----------
        grid : array-like
            The manifest's.
        party : str
            Whose boundaries these are.

        Raises
        ------
        VerificationError
            They are not those that this party has found: the aggregator has told parties different things, or the
            manifest is not for the thresholds of this session.
        """
        if not np.array_equal(self.grid, np.asarray(grid)):
            raise VerificationError(
                f"the thresholds of the session are not those that party {party!r} has found in the session before: "
                "the aggregator has not told all parties the same, or the manifest is for other thresholds",
                check="thresholds",
            )


def equi_depth_grid(counts: HierarchicalCounts, bins: int) -> NDArray[np.float64]:
    """Return thresholds so that bins hold about equally many rows.

    Fewer than `bins` where one cell holds more rows than a bin should, two at least.

    Raises
    ------
    InputError, EvaluationError
        As `fhe_auc_protocols.histograms.hierarchical_counts.equi_depth_edges`.
    """
    grid = equi_depth_edges(counts, bins)[:-1]
    if len(grid) < MIN_SIZE:  # all rows in the first cell, and two bins wanted
        grid = np.array([0.0, 2.0**-counts.height])
    return explicit(grid)


def height_of(grid: NDArray[np.float64]) -> int:
    """Return the height h of which a manifest's thresholds are the 2^h cells; raise `InputError` where they are not."""
    height = len(grid).bit_length() - 1
    if len(grid) != 2**height or not np.array_equal(grid, cell_starts(height)):
        raise InputError(
            "the session's manifest is not one for finding thresholds: its own are not the cells of [0, 1]"
        )
    return height


def checked_bins(options: Mapping[str, object], height: int) -> int:
    """Return how many bins a request or manifest asks for; raise `InputError` unless they are 2 to 2^height."""
    bins = options.get("bins")
    if isinstance(bins, bool) or not isinstance(bins, int) or not MIN_SIZE <= bins <= 2**height:
        raise InputError(f"quantile thresholds number from {MIN_SIZE} to 2^{height} = {2**height:,} here, not {bins!r}")
    return bins


def preceded(evaluation: Evaluation, found: Boundaries) -> Evaluation:
    """Return an evaluation with what the session cost that found its thresholds, and with its warnings."""
    before = {FIRST_SESSION + phase: seconds for phase, seconds in found.seconds.items()}
    return replace(
        evaluation,
        rounds=found.rounds + evaluation.rounds,
        upload_bytes_per_party=found.upload_bytes_per_party + evaluation.upload_bytes_per_party,
        download_bytes_per_party=found.download_bytes_per_party + evaluation.download_bytes_per_party,
        key_bytes_per_party=found.key_bytes_per_party + evaluation.key_bytes_per_party,
        seconds=before | dict(evaluation.seconds),
        warnings=tuple(dict.fromkeys((*evaluation.warnings, *found.warnings))),
    )
