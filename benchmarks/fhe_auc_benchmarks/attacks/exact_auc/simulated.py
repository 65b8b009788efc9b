"""Strategies played on the integers, pads in the clear, for very many sessions at once, at primes of any size.

One prime at a time: a session with several is harder to deceive, as every one of them must agree. The arithmetic is
that of `fhe_auc.sums`, over leading dimensions; tests compare the two.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, islice

import numpy as np
from numpy.typing import NDArray

from fhe_auc.question.analysis import PLAIN
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.proof import Share, authenticated, released
from fhe_auc.sums.terms import Factor, Release, Term
from fhe_auc_benchmarks.attacks.exact_auc.strategies import ALL, FIRST_TWO, STRATEGIES, ExactView
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, AttackOutcome
from fhe_auc_protocols.exact_auc.analysis_sums import AnalysisSums

_CHUNK = 5_000
_BINS, _ROWS = 4, 12


def totals(release: Release, sketches: Residues, prime: int) -> Residues:
    """Return each sum at sketches of shape (…, size), shape (…, sums); for at most 2^14 bins."""
    names, lengths = zip(*release.sketch.vectors, strict=True)
    vectors = dict(zip(names, np.split(sketches, np.cumsum(lengths)[:-1], axis=-1), strict=True))

    def product(term: Term) -> Residues:
        factors = (_evaluated(factor, vectors, prime) for factor in term.factors)
        return modular.total(reduce(lambda x, y: modular.multiply(x, y, prime), factors), prime)

    return np.stack([modular.total(np.stack([*map(product, each.terms)]), prime, 0) for each in release.sums], axis=-1)


def _evaluated(factor: Factor, vectors: Mapping[str, Residues], prime: int) -> Residues:
    if factor.constants:
        return modular.residues(factor.constants, prime)
    found = []
    for part in factor.parts:
        values = vectors[part.vector]
        before = np.cumsum(values, axis=-1, dtype=np.uint64) - values
        if part.over != "each":
            total = values.sum(axis=-1, keepdims=True, dtype=np.uint64)
            values = {"below": before, "above": total - before - values, "total": total}[part.over] % np.uint64(prime)
        found.append(modular.multiply(values, np.uint64(part.weight % prime), prime))
    return np.asarray(sum(found[1:], found[0]) % np.uint64(prime))


class Authenticators:
    """Those of as many sessions as there are secret points, shape (…).

    As `fhe_auc.sums.proof.Authenticator`, which is of one session, and says what everything means.
    """

    def __init__(self, release: Release, prime: int, points: Residues) -> None:
        self._release, self._prime, self._points = release, prime, points
        self._degrees = [each.degree for each in release.sums]
        inverse = modular.inverse(points, prime)
        self._powers, self._inverses = (
            list(accumulate([each] * max(self._degrees), lambda x, y: modular.multiply(x, y, prime)))
            for each in (points, inverse)
        )

    def sketches(self, share: Share, values: Residues, drawn: Residues) -> Residues:
        """Return a party's authenticated sketches, shape (…, authenticated size).

        From its share, shapes (…, size) and (…, blinded), its own sketches, and what it draws, shape (…, `drawn`).
        """
        t = self._prime
        tags = modular.multiply(modular.subtract(share.entries, values, t), self._inverses[0][..., None], t)
        offsets, left, blinders = _entries(share.offsets), _entries(drawn), list[Residues]()
        for degree in (each for each in self._degrees if each > 1):
            own, rest = list(islice(left, degree - 1)), next(offsets)
            for each, power in zip(own, self._powers, strict=False):
                rest = modular.subtract(rest, modular.multiply(each, power, t), t)
            blinders += [*own, modular.multiply(rest, self._inverses[degree - 1], t)]
        return np.concatenate([values, tags, np.stack(blinders, axis=-1)], axis=-1)

    @property
    def drawn(self) -> int:
        """How many numbers a party draws."""
        return sum(degree - 1 for degree in self._degrees if degree > 1)

    def accept(self, share: Share, found: Residues) -> NDArray[np.bool_]:
        """Tell which totals of the authenticated release fit the sum of the shares of those who count, shape (…)."""
        t, right, start = self._prime, np.ones(self._points.shape, bool), 0
        offsets = _entries(share.offsets)
        for degree, at in zip(self._degrees, _entries(totals(self._release, share.entries, t)), strict=True):
            expected = modular.add(at, next(offsets), t) if degree > 1 else at
            right &= self._at_point(found[..., start : start + degree + 1]) == expected
            start += degree + 1
        return right

    def _at_point(self, values: Residues) -> Residues:
        """Return at the secret points the polynomials with these values at z = 0, 1, …, shape (…, degree + 1)."""
        t, number = self._prime, values.shape[-1]
        found = np.zeros_like(values[..., 0])
        for z in range(number):
            part = values[..., z]
            for y in set(range(number)) - {z}:
                part = modular.multiply(part, modular.subtract(self._points, np.full_like(self._points, y), t), t)
                part = modular.multiply(part, np.uint64(pow(z - y, -1, t)), t)
            found = modular.add(found, part, t)
        return found


def _entries(of: Residues) -> Iterator[Residues]:
    return iter(np.moveaxis(of, -1, 0))


class Sessions:
    """So many independent sessions of the same parties with the same sketches, shape (parties, size), for one prime.

    Of `sketches`, which parties submit under pads, and `pads` the shape is (parties, number, authenticated size).
    """

    def __init__(
        self, release: Release, prime: int, values: Residues, number: int, generator: np.random.Generator
    ) -> None:
        def uniform(*shape: int) -> Residues:
            return generator.integers(0, prime, (number, *shape), np.uint64)

        self.prime = prime
        self.authenticators = Authenticators(release, prime, generator.integers(1, prime, number, np.uint64))
        blinded, (parties, size) = sum(each.degree > 1 for each in release.sums), values.shape
        self.shares = [Share(uniform(size), uniform(blinded)) for _ in range(parties)]
        bare = [
            self.authenticators.sketches(
                share, np.broadcast_to(own, (number, size)), uniform(self.authenticators.drawn)
            )
            for share, own in zip(self.shares, values, strict=True)
        ]
        self.pads = np.stack([uniform(each.shape[-1]) for each in bare])
        self.sketches = modular.add(np.stack(bare), self.pads, prime)

    def pad(self, parties: Sequence[int]) -> Residues:
        """Return the sum of parties' pads."""
        return modular.total(self.pads[list(parties)], self.prime, axis=0)

    def accept(self, parties: Sequence[int], found: Residues) -> NDArray[np.bool_]:
        """Tell which totals parties accept, in the belief that these are counted."""
        shares = zip(*(self.shares[each] for each in parties), strict=True)
        together = Share(*(modular.total(np.stack(each), self.prime, axis=0) for each in shares))
        return self.authenticators.accept(together, found)


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
        view = ExactView(computed, prime, list(now.sketches), list(before.sketches), strategy.opened, guess, generator)
        pads = {"own": now.pad(strategy.opened), "earlier": before.pad(ALL), "of two": now.pad(FIRST_TWO)}
        claim = strategy.play(view)
        told = np.broadcast_to(claim.added, (number, len(claim.added)))
        for each in claim.computed:
            bare = modular.subtract(each.pooled, pads[each.opening], prime)
            told = modular.add(told, totals(each.release, bare, prime), prime)
        honest = totals(release, modular.total(values[list(strategy.claimed)], prime, axis=0), prime)
        wrong = (np.moveaxis(released(release, np.moveaxis(told, -1, 0)), 0, -1) != honest).any(axis=-1)
        accepted = now.accept(strategy.claimed, told)
        for verdict, those in ((PASSED, accepted & wrong), (HARMLESS, accepted & ~wrong), ("authenticator", ~accepted)):
            found[verdict] += int(those.sum())
        changed += int(wrong.sum())
    return AttackOutcome.counted(found, changed=changed)
