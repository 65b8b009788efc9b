"""Strategies played on the integers, pads in the clear, for very many sessions at once, at primes of any size.

One prime at a time: a session with several is harder to deceive, as every one of them must agree.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from fhe_auc.base.keystream import KeyStream
from fhe_auc.question.analysis import PLAIN
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.proof import Authenticator, CommonShares, authenticated, released
from fhe_auc.sums.terms import Release
from fhe_auc_benchmarks.attacks.exact_auc.strategies import ALL, STRATEGIES, ExactView
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, AttackOutcome
from fhe_auc_protocols.exact_auc.plan import AnalysisSums

_CHUNK = 5_000
_BINS, _ROWS = 4, 12


class Sessions(Authenticator):
    """So many independent sessions of the same parties with the same sketches, shape (parties, size), for one prime.

    Of `sketches`, which parties submit under pads, and `pads` the shape is (parties, number, authenticated size).
    """

    def __init__(
        self, release: Release, prime: int, values: Residues, number: int, generator: np.random.Generator
    ) -> None:
        super().__init__(release, bytes(32), bytes(32), 0, prime)
        private, (parties, size) = KeyStream(generator.bytes(32)), values.shape
        self._point = modular.nonzero(private, prime, number)
        drawn = modular.uniform(private, prime, parties, number, size + sum(each.degree > 1 for each in release.sums))
        self._shares = _Drawn(drawn, prime)
        bare = np.stack(
            [self.sketch(party, np.broadcast_to(own, (number, size)), private) for party, own in enumerate(values)]
        )
        self.pads = modular.uniform(private, prime, *bare.shape)
        self.sketches = modular.add(bare, self.pads, prime)

    def pad(self, parties: Sequence[int]) -> Residues:
        """Return the sum of parties' pads."""
        return modular.total(self.pads[list(parties)], self._modulus, axis=0)


class _Drawn(CommonShares):
    """Shares of all parties in all sessions, drawn at once, shape (parties, number, size)."""

    def __init__(self, drawn: Residues, modulus: int) -> None:
        self._of_all, self._modulus = drawn, modulus

    def total(self, counted: Sequence[int]) -> Residues:
        """Return the sums of the shares of these parties, shape (number, size)."""
        return modular.total(self._of_all[list(counted)], self._modulus, axis=0)


def run(name: str, prime: int, trials: int, seed: int, *, interval: bool = False) -> AttackOutcome:
    """Play one of `STRATEGIES` in so many sessions, and count what passes; all follows from the seed.

    With `interval` the cubic sums of a standard error are released too. "passed" are accepted results with a wrong
    integer modulo the prime, which may be of any size above the rows.
    """
    strategy, release = STRATEGIES[name], AnalysisSums(PLAIN, _BINS, interval).release
    computed = authenticated(release)
    generator = np.random.default_rng([seed, prime])
    found, changed = Counter[str](), 0
    for start in range(0, trials, _CHUNK):
        number = min(_CHUNK, trials - start)
        values, older = generator.integers(1, _ROWS, (2, len(ALL), release.sketch.size), np.uint64)
        now = Sessions(release, prime, values, number, generator)
        before = Sessions(release, prime, older, number, generator) if strategy.staged else now
        guess = int(values[:, _BINS].sum())  # positives come behind the negatives of all bins
        view = ExactView(
            computed, prime, list(now.sketches), list(before.sketches), strategy.unpadded, guess, generator
        )
        pads = {"own": now.pad(strategy.unpadded), "earlier": before.pad(ALL)}
        claim = strategy.play(view)
        told = np.broadcast_to(claim.added, (number, len(claim.added)))
        for each in claim.computed:
            bare = modular.subtract(each.pooled, pads[each.pad_key], prime)
            told = modular.add(told, each.release.totals(bare, prime), prime)
        honest = release.totals(modular.total(values[list(strategy.claimed)], prime, axis=0), prime)
        wrong = (released(release, told) != honest).any(axis=-1)
        accepted = now.accepts(told, strategy.claimed)
        for verdict, those in ((PASSED, accepted & wrong), (HARMLESS, accepted & ~wrong), ("authenticator", ~accepted)):
            found[verdict] += int(those.sum())
        changed += int(wrong.sum())
    return AttackOutcome.counted(found, changed=changed)
