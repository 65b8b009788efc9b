"""One-time authenticators: sums that nobody can change unnoticed who lacks the parties' common secret.

docs/security/verified.md, "Authenticators", specifies and proves them, in the names that are used here. Modulo a prime
t a party's sketch also holds tags, one an entry, and blinders μ^(1) … μ^(d) for each sum of degree d ≥ 2. The
aggregator computes H_s at z = 0 … d, which are sums like any other. Parties interpolate, and accept only if H_s(α) is
what they know it to be before there is a result: a wrong number passes with probability at most d/(t − 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.common_shares import CommonShares
from fhe_auc.sums.sketch import Sketch
from fhe_auc.sums.terms import Factor, Part, Release, Sum, Term

_LABEL = b"fhe-auc authenticator 1\0"
_TAG = "'"
_BLINDERS = "blinders of "


def authenticated(release: Release) -> Release:
    """Return the release of the same sums with authenticators: each sum, of degree d, at z = 0 … d."""
    tags = tuple((name + _TAG, length) for name, length in release.sketch.vectors)
    blinders = tuple((_BLINDERS + total.name, total.degree) for total in release.sums if total.degree > 1)
    sums = tuple(_at(total, z) for total in release.sums for z in range(total.degree + 1))
    return Release(Sketch(release.sketch.vectors + tags + blinders), sums)


def _at(total: Sum, z: int) -> Sum:
    terms = tuple(Term(tuple(_factor_at(factor, z) for factor in term.factors)) for term in total.terms)
    if z and total.degree > 1:
        powers = Factor(constants=tuple(z**power for power in range(1, total.degree + 1)))
        terms += (Term((Factor((Part(_BLINDERS + total.name),)), powers)),)
    return Sum(f"{total.name} at {z}", terms)


def _factor_at(factor: Factor, z: int) -> Factor:
    if not z:
        return factor
    tags = tuple(Part(part.vector + _TAG, part.over, part.weight * z) for part in factor.parts)
    return msgspec.structs.replace(factor, parts=factor.parts + tags)


def released(release: Release, totals: Residues) -> Residues:
    """Return the residues of a release's own sums, shape (sums,), from those of the authenticated one: at z = 0."""
    starts = np.cumsum([0, *(total.degree + 1 for total in release.sums[:-1])])
    return np.asarray(totals[starts])


class Share(NamedTuple):
    """A party's secrets, or the sum of several parties'."""

    entries: Residues  # ρ, shape (sketch.size,)
    offsets: Residues  # u of each sum of degree two or more, shape (such sums,)


class Authenticator:
    """One session's authenticator for one prime, given by index and value; the aggregator must not know it.

    `release` is without authenticators. The parties of the session have the `common_secret`, 32 bytes (`InputError` for
    another length), in common; `session` is the manifest's digest.
    """

    def __init__(self, release: Release, common_secret: bytes, session: bytes, prime: int, modulus: int) -> None:
        self._release = release
        self._degrees = [total.degree for total in release.sums]
        self._modulus = modulus
        key = common_secret, session, _LABEL, prime
        self._point = int(modular.nonzero(KeyStream(derived_key(*key, "point")), modulus, 1)[0])
        size = release.sketch.size + sum(degree > 1 for degree in self._degrees)
        self._shares = CommonShares(*key, "share", modulus=modulus, size=size)

    def __repr__(self) -> str:
        return "Authenticator(...)"

    def sketch(self, party: int, values: Residues, private: KeyStream) -> Residues:
        """Return the authenticated sketch of the party with this index; `private` is its own, and used once."""
        t, share = self._modulus, self._share([party])
        inverse = pow(self._point, -1, t)
        tags = modular.multiply(modular.subtract(share.entries, values, t), np.uint64(inverse), t)
        blinders = []
        offsets = iter(share.offsets.tolist())
        for degree in self._degrees:
            if degree > 1:
                drawn = modular.uniform(private, t, degree - 1).tolist()
                last = next(offsets) - sum(pow(self._point, power, t) * value for power, value in enumerate(drawn, 1))
                blinders += [*drawn, last * pow(inverse, degree, t) % t]
        return np.concatenate([values, tags, np.array(blinders, np.uint64)])

    def accepts(self, totals: Residues, counted: Sequence[int]) -> bool:
        """Whether these are the sums of the pooled sketches of the parties with these indices, ascending.

        `totals` are the residues of the authenticated release's sums, in its order. Everything is computed whatever
        fails: the time that it takes tells the aggregator nothing. `InputError` as `CommonShares.total`.
        """
        t, values = self._modulus, iter(totals.tolist())
        share = self._share(counted)
        offsets = iter(share.offsets.tolist())
        right = True
        for degree, value in zip(self._degrees, self._release.totals(share.entries, t).tolist(), strict=True):
            expected = value + (next(offsets) if degree > 1 else 0)
            right &= (_interpolated(list(islice(values, degree + 1)), self._point, t) - expected) % t == 0
        return right

    def _share(self, counted: Sequence[int]) -> Share:
        size = self._release.sketch.size
        both = self._shares.total(counted)
        return Share(both[:size], both[size:])


def _interpolated(values: Sequence[int], point: int, modulus: int) -> int:
    """Return at `point` the polynomial of least degree that takes these values at 0, 1, 2 … (Lagrange)."""
    total = 0
    for z, value in enumerate(values):
        for y in range(len(values)):
            if y != z:
                value = value * (point - y) * pow(z - y, -1, modulus) % modulus
        total += value
    return total % modulus
