"""Rows of several models, groups and classes, seeded; and what is to be found of them, by definitions over rows."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fhe_auc.question.analysis import Analysis, Cell, Variable
from fhe_auc.rlwe import modular
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums
from fhe_auc_protocols.exact_auc.release_part import Reading, Said
from tests.support.plain_sums import PRIMES

SEX = Variable("sex", ("F", "M"))
AGE = Variable("age", ("0-39", "40-64", "65+"))
TWO_MODELS = Analysis(models=("old", "new"))
CLASSES = Analysis(models=("p_a", "p_b", "p_c"), classes=("a", "b", "c"))

MODULI = PRIMES[-2:]
MODULUS = MODULI[0] * MODULI[1]


def made(analysis: Analysis, parties: int, seed: int, *, most: int = 60, places: int = 3) -> list[PartyData]:
    """Sites with rows at random: every model knows something of the labels, and groups differ."""
    generator = np.random.default_rng(seed)
    found = []
    for party in range(parties):
        number = int(generator.integers(12, most))
        labels = generator.integers(0, analysis.classes_of_rows, number)
        groups = {each.name: generator.integers(0, len(each.levels), number) for each in analysis.by}
        known = [labels == (model if analysis.classes else 1) for model in range(len(analysis.models))]
        common = generator.random(number)
        scores = [
            np.clip(0.3 * each + 0.4 * common + 0.3 * generator.random(number), 0, 1).round(places) for each in known
        ]
        found.append(
            PartyData.from_columns(
                f"site {party}",
                np.array(analysis.classes)[labels] if analysis.classes else labels,
                dict(zip(analysis.models, scores, strict=True)),
                {each.name: np.array(each.levels)[groups[each.name]] for each in analysis.by},
                analysis,
            )
        )
    return found


def pool(parties: Sequence[PartyData]) -> PartyData:
    """All rows as those of one party."""
    columns = ([each.labels for each in parties], *zip(*(each.scores for each in parties), strict=True))
    labels, *scores = (np.concatenate(each) for each in columns)
    groups = [np.concatenate(each) for each in zip(*(each.groups for each in parties), strict=True)]
    for each in (labels, *scores, *groups):
        each.flags.writeable = False
    return PartyData("all", labels, tuple(scores), tuple(groups))


def binned(scores: NDArray[np.float64], grid: Any) -> NDArray[np.int64]:
    """A score's bin is the last threshold that it reaches, in single precision; those below all are in the first."""
    points = np.float32(grid)
    return np.array([max(int((points <= score).sum()) - 1, 0) for score in np.float32(scores)])


def chosen(rows: PartyData, analysis: Analysis, cell: Cell) -> NDArray[np.bool_]:
    """Which rows are of a group and of some classes."""
    group = analysis.groups[cell.group]
    own = np.isin(rows.labels, cell.classes)
    return own if group.variable is None else own & (rows.groups[group.variable] == group.level)


def auc_of(ones: NDArray[Any], zeros: NDArray[Any]) -> tuple[Fraction, Fraction] | None:
    """The AUC by going through all pairs, and half the share of ties; None without pairs."""
    pairs = len(ones) * len(zeros)
    if not pairs:
        return None
    right, tied = (ones[:, None] > zeros).sum(), (ones[:, None] == zeros).sum()
    return Fraction(2 * int(right) + int(tied), 2 * pairs), Fraction(int(tied), 2 * pairs)


def released(sums: AnalysisSums, parties: Sequence[PartyData], grid: Any, max_rows: int) -> Sequence[int]:
    """The integers that come out of a session, without encryption."""
    sketch = sum(sums.sketch(each, np.asarray(grid, float), max_rows, MODULUS) for each in parties)
    totals = [sums.release.totals(modular.residues(sketch, prime), prime) for prime in MODULI]
    return modular.centred(totals, MODULI)


def read(sums: AnalysisSums, integers: Sequence[int], parties: int = 1, max_rows: int = 10**5, **how: Any) -> Reading:
    """What is read of the integers, of so many parties."""
    reading = Reading(
        analysis=sums.analysis,
        max_rows=max_rows,
        counted=[f"site {party}" for party in range(parties)],
        **{"modulus": MODULUS, "level": 0.95, **how},
    )
    sums.read_sums(integers, reading)
    return reading


def read_in_the_clear(sums: AnalysisSums, parties: Sequence[PartyData], grid: Any, **how: Any) -> Reading:
    """What a session reads, without encryption."""
    return read(sums, released(sums, parties, grid, how.get("max_rows", 10**5)), len(parties), **how)


def told(reading: Reading) -> Said:
    """What all parts say."""
    said = [say(reading) for say in reading.sayings]
    rows: dict[str, Any] = {
        name: tuple(row for own in said for row in getattr(own, name))
        for name in ("estimates", "comparisons", "sites", "warnings")
    }
    return Said(headline=next((own.headline for own in said if own.headline), None), **rows)
