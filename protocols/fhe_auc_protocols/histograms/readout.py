"""What a session counts, and what its parties read off the pooled counts: the interface of both readouts.

Every row of a party lies in one of a number of cells. A readout may have several levels: the lowest one holds the
cells themselves, and each level above it merges neighbours. `fhe_auc_protocols.histograms` has the overview.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.results.evaluation import QuantileThresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.protocol import Protocol, Request, Spending
from fhe_auc_protocols.options import SPENT, UNIT

INTERVAL = "interval"  # in a manifest: the level of the AUC's confidence interval

_Number = TypeVar("_Number", np.int64, np.float64)


@dataclass(frozen=True, kw_only=True, eq=False)
class PooledCounts:
    """The rows of all parties in each cell, as a way of counting finds them."""

    levels: Sequence[NDArray[Any]]
    """Counts of each level, one-dimensional, in the readout's order: int64, or float64 where they are estimates."""
    parties: int  # whose rows are counted
    backend: str = "none"
    security_bits: int = 0  # of the encryption; 0 where there is none
    soundness: float | None = None
    """Bound on the chance that these are not the sums of what parties sent; None: nobody has checked that."""
    settings: Mapping[str, float] = field(default_factory=dict)
    """What the way of counting says about its noise, as `fhe_auc.metrics.private_curves.CountNoise` reads it, where
    levels do not differ in it."""

    def said(self, kind: Callable[..., R], manifest: Manifest, **fields: Any) -> R:
        """Return an outcome of this kind that says these fields, and how its counts came about."""
        return kind(
            protocol=manifest.protocol,
            backend=self.backend,
            parties=self.parties,
            security_bits=self.security_bits,
            verified=self.soundness is not None,
            soundness=self.soundness,
            **fields,
        )


class Readout(ABC, Generic[R]):
    """What to count of a party's rows, and what the pooled counts say."""

    purpose: ClassVar[str]  # what sessions are for, in messages

    def of(self, analysis: Analysis, options: Mapping[str, Any], square: int = 1) -> Readout[R]:
        """Return the readout for an analysis; Σw² in steps of so many units². `InputError`: what it does not count."""
        return self

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest of a `completed` request carries; `InputError` for a wrong one."""
        return {}

    def check_manifest(self, manifest: Manifest, protocol: str) -> None:
        """Raise `InputError` where a manifest is not one of that protocol, which has this readout."""

    def times(self, analysis: Analysis) -> int:
        """Return how often each row counts."""
        return 1

    def levels(self, thresholds: int) -> tuple[int, ...]:
        """Return how many counts each level has, highest first; what is counted besides may follow."""
        return (self.cells(thresholds),)

    def counted_levels(self, data: PartyData, grid: NDArray[np.float64]) -> list[NDArray[np.int64]]:
        """Return a party's counts of each level; errors as `count`."""
        return [self.count(data, grid)]

    @abstractmethod
    def cells(self, thresholds: int) -> int:
        """Return the number of cells."""

    @abstractmethod
    def count(self, data: PartyData, grid: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count a party's rows in each cell, shape (cells,); raise `InputError` for a score that lies in none."""

    def rows(self, cells: NDArray[np.int64]) -> int:
        """Return how many rows these pooled counts are of."""
        return int(cells.sum())

    @abstractmethod
    def outcome(self, manifest: Manifest, pooled: PooledCounts) -> R:
        """Return what the pooled counts say; raise `EvaluationError` where that is nothing."""


class PrivateReadout(Readout[R]):
    """A readout of counts with noise, that an option `epsilon` pays for."""

    sensitivity: int = 2
    """By how much all counts together change at most where a row is replaced: one count less, and another one more."""

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the budget of this session and another one, what the first spends of two, and a fleet's unit."""
        self.budget(request.options)
        unit = {} if request.fleet is None else {UNIT: unit_of(request)}
        return self.budgets({**request.options, **unit})

    @staticmethod
    def budgets(options: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
        """Return these of checked options."""
        unit = {} if options.get(UNIT) is None else {UNIT: options[UNIT]}
        return {name: float(options[name]) for name in ("epsilon", SPENT) if options.get(name) is not None} | unit

    @abstractmethod
    def budget(self, options: Mapping[str, Any]) -> float:
        """Return ε of all counts together; raise `InputError` unless it is there and from 0.000001 to 32."""


class ReadoutProtocol(Protocol[R]):
    """What plug-ins have from their readout, whatever the way of counting."""

    readout: Readout[R]  # what is counted, and read off the pooled counts

    def completed(self, request: Request) -> Request:
        """Return the request with the readout's thresholds."""
        return self.readout.completed(request)

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the readout's options."""
        return self.readout.agreed(request)

    def spends(self, manifest: Manifest) -> Spending | None:
        """Return the budget of a session with noise; the one that has found its thresholds has spent the rest."""
        if not isinstance(self.readout, PrivateReadout):
            return None
        spent = self.readout.budget(manifest.options)
        whole = float(manifest.options["epsilon"]) if issubclass(self.yields, QuantileThresholds) else spent
        return Spending(spent, unit_of(manifest), after=whole - spent)


def unit_of(asked: Request | Manifest) -> str:
    """Return what a budget protects, a row, or of a fleet a device or a row; raise `InputError` for anything else."""
    known = ("row",) if asked.fleet is None else ("device", "row")
    if (unit := known[0] if asked.options.get(UNIT) is None else asked.options[UNIT]) not in known:
        raise InputError(f"{UNIT} must be device or row in a fleet, and a row's elsewhere, got {unit!a}")
    return str(unit)


def all_levels(counts: NDArray[_Number], levels: int, branching: int = 2) -> list[NDArray[_Number]]:
    """Return the counts of so many levels from those of branching^levels cells; highest level first."""
    return [counts.reshape(branching**k, -1).sum(axis=1) for k in range(1, levels + 1)]
