"""The luckiest lies, on the numbers that ciphertexts hold: so many sessions that chances show.

**`malicious`.** Secrets are the protocol's own (`masked_shares.Run`), and what a lie leaves goes through its own check
(`result_check.accept`). It is kinder to the liar than ciphertexts: both runs' classes are numbers in its hand, without
noise; it knows r·den and all counts; and where it guesses a position, in either run, the guess is right. Parameters
are those with which each lie passed most often at a tolerance of 5e-4, of up to 252 for each (commit 87aa8b88).

**`verified`.** One sum of degree 2, modulo a small prime, where the proved chance shows: 2/(t − 1).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import VerificationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rlwe.modular import residues, total
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.sums.proof import Authenticator, authenticated, released
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term
from fhe_auc_benchmarks.attacks.exact_auc.strategies import guessed_polynomial
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, refused_by
from fhe_auc_protocols.blinded_auc import masked_shares
from fhe_auc_protocols.blinded_auc.blinded_plan import EXTRA, MAX_TOLERANCE, AucPlan, Workload, smallest_plan
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS
from fhe_auc_protocols.blinded_auc.masked_shares import Complex
from fhe_auc_protocols.blinded_auc.result_check import accept

HARM = 0.001  # an accepted AUC this far from the honest one counts as an attack that passed
LOOSE = MAX_TOLERANCE  # so loose a tolerance that lies pass
SMALL_PRIME = 257
PROVED = 2 / (SMALL_PRIME - 1)
_PARTIES, _ROWS, _GRID = 10, 2_000, "uniform:100"


class Numbers(NamedTuple):
    """What an aggregator has in hand: Y/N, shape (runs, positions), and X/2P, (runs, classes, positions).

    Positions are in the order of `masked_shares`: bins, corrections, the last one. `full` is the fullest bin.
    """

    y: Complex
    x: Complex
    full: int

    @property
    def honest(self) -> Complex:
        """Σ Y·X, relative to den, shape (runs, classes)."""
        return np.asarray((self.x * self.y[:, None]).sum(axis=-1))

    def at(self, position: int) -> Complex:
        """Return the product at a position."""
        return np.asarray(self.x[..., position] * self.y[:, None, position])


_CORRECTION, _LAST = -EXTRA, -1
LUCKIEST: Mapping[str, tuple[str, Callable[[Numbers], Complex]]] = {
    "add-constant": ("add constants", lambda of: of.honest + 0.001j),
    "mix-classes": ("add a multiple of either class to the other", lambda of: of.honest + 0.0005 * of.honest[:, ::-1]),
    "scale-last": ("scale the last position, guessed", lambda of: of.honest - 0.001 * of.at(_LAST)),
    "scale-bin": ("scale the fullest bin, guessed", lambda of: of.honest + 0.008 * of.at(of.full)),
    "scale-corrections": (
        "scale the corrections, guessed",
        lambda of: of.honest + 0.008j * (of.at(_CORRECTION) + of.at(_CORRECTION + 1)),
    ),
    "add-at-position": (
        "add to Y of the fullest bin, guessed", lambda of: of.honest + 0.001j * of.x[..., of.full],
    ),
}  # fmt: skip
"""By name: what the aggregator does, and what it returns relative to den."""


@lru_cache
def _setting(tolerance: float | None) -> tuple[AucPlan, Counts]:
    """Return what is planned for ten parties, and 2,000 made-up rows, 30 % of them positive."""
    grid, rng = thresholds.resolve(_GRID), np.random.default_rng(2025)
    labels = rng.random(_ROWS) < 0.3
    scores = rng.beta(np.where(labels, 3.0, 2.0), np.where(labels, 2.0, 3.5))
    workload = Workload(thresholds=len(grid), parties=_PARTIES, split=True)
    plan = smallest_plan(workload, "tenseal", tolerance=tolerance)
    return plan, count(PartyData.from_arrays("all", labels, scores), grid)


def play_numbers(
    tell: Callable[[Numbers], Complex], tolerance: float | None, protocol: str, generator: np.random.Generator
) -> str:
    """Play a session of ``malicious`` with this tolerance, by default the planned one; return what comes of it."""
    chosen, counts = _setting(tolerance)
    secrets = masked_shares.runs(generator.bytes(32), generator.bytes(32), chosen)
    vectors = [run.vectors(counts) for run in secrets]
    y: Complex = np.array([each for each, _ in vectors])
    x: Complex = np.array([each for _, each in vectors])
    for at, run in enumerate(secrets):
        back = np.argsort(run.order)
        y[at], x[at] = y[at][back], x[at][:, back]
    fullest = np.abs(counts.trapezoid_heights + 1j * counts.bin_positives) * counts.bin_negatives
    numbers = Numbers(y / counts.negatives, x / (2 * counts.positives), int(fullest.argmax()))
    exact = trapezoid(counts)
    try:
        found = accept(2 * 2.0 ** (BLINDING_BITS - 1) * exact.den * tell(numbers), chosen, secrets)
    except VerificationError as error:
        return refused_by(error)
    return PASSED if abs(found.auc - exact.auc) >= HARM else HARMLESS


_X, _Y = (Factor((Part(name),)) for name in "xy")
_SUM = Release(Sketch((("x", 1), ("y", 1))), (Sum("product", (Term((_X, _Y)),)),))


def play_small_field(protocol: str, generator: np.random.Generator) -> str:
    """Play a session of one product modulo `SMALL_PRIME` in which two guesses at the point are made."""
    own = Authenticator(_SUM, generator.bytes(32), generator.bytes(32), 0, SMALL_PRIME)
    values = generator.integers(0, SMALL_PRIME, (3, 2), np.uint64)
    sent = [own.sketch(party, each, KeyStream(generator.bytes(32))) for party, each in enumerate(values)]
    right = authenticated(_SUM).totals(total(np.array(sent), SMALL_PRIME, axis=0), SMALL_PRIME)
    added = residues(guessed_polynomial(2, SMALL_PRIME, generator), SMALL_PRIME)
    told = (right + added) % np.uint64(SMALL_PRIME)
    wrong = bool((released(_SUM, told) != released(_SUM, right)).any())
    if not own.accepts(told, range(3)):
        return "authenticator"
    return PASSED if wrong else HARMLESS
