"""One-time authenticators: sums that nobody can change unnoticed who lacks the parties' common secret.

docs/security/verified.md, "Authenticators", specifies and proves them, in the names that are used here. Modulo a prime
t a party's sketch also holds tags, one an entry, and blinders μ^(1) … μ^(d) for each sum of degree d ≥ 2. The
aggregator computes H_s at z = 0 … d, which are sums like any other. Parties interpolate, and accept only if H_s(α) is
what they know it to be before there is a result: a wrong number passes with probability at most d/(t − 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.common_shares import CommonShares
from fhe_auc.sums.terms import Factor, Part, Release, Sketch, Sum, Term

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
    """Return the residues of a release's own sums, shape (…, sums), from those of the authenticated one: at z = 0."""
    starts = np.cumsum([0, *(total.degree + 1 for total in release.sums[:-1])])
    return np.asarray(totals[..., starts])


class Share(NamedTuple):
    """A party's secrets, or the sum of several parties'."""

    entries: Residues  # ρ, shape (sketch.size,)
    offsets: Residues  # u of each sum of degree two or more, shape (such sums,)


class Authenticator:
    """One session's authenticator for one prime, given by index and value; the aggregator must not know it.

    `release` is without authenticators. The parties of the session have the `common_secret`, 32 bytes (`InputError` for
    another length), in common; `session` is the manifest's digest. The laboratory has points of shape (…), of very many
    sessions at once; here there is one, and (…) is ().
    """

    def __init__(self, release: Release, common_secret: bytes, session: bytes, prime: int, modulus: int) -> None:
        self._release = release
        self._degrees = [total.degree for total in release.sums]
        self._modulus = modulus
        key = common_secret, session, _LABEL, prime
        self._point = modular.nonzero(KeyStream(derived_key(*key, "point")), modulus)
        size = release.sketch.size + sum(degree > 1 for degree in self._degrees)
        self._shares = CommonShares(*key, "share", modulus=modulus, size=size)

    def __repr__(self) -> str:
        return "Authenticator(...)"

    def sketch(self, party: int, values: Residues, private: KeyStream) -> Residues:
        """Return the authenticated sketch of the party with this index; `private` is its own, and used once."""
        t, share = self._modulus, self._share([party])
        inverse = modular.inverse(self._point, t)
        tags = modular.multiply(modular.subtract(share.entries, values, t), inverse[..., None], t)
        blinders, offsets = [], iter(np.moveaxis(share.offsets, -1, 0))
        for degree in self._degrees:
            if degree > 1:
                drawn, left = modular.uniform(private, t, *self._point.shape, degree - 1), next(offsets)
                for own in np.moveaxis(drawn, -1, 0):
                    left = modular.subtract(modular.multiply(left, inverse, t), own, t)
                blinders += [drawn, modular.multiply(left, inverse, t)[..., None]]
        return np.concatenate([values, tags, *blinders], axis=-1)

    def accepts(self, totals: Residues, counted: Sequence[int]) -> NDArray[np.bool_]:
        """Whether these are the sums of the pooled sketches of the parties with these indices, ascending; shape (…).

        `totals`, shape (…, sums), are those of the authenticated release, in its order, and may be any numbers: only a
        helper's are not reduced. Everything is computed whatever fails: the time that it takes tells the aggregator
        nothing. `InputError` as `CommonShares.total`.
        """
        t, share, start = self._modulus, self._share(counted), 0
        values, offsets = totals % np.uint64(t), iter(np.moveaxis(share.offsets, -1, 0))
        right = np.ones(self._point.shape, np.bool_)
        own = np.moveaxis(self._release.totals(share.entries, t), -1, 0)
        for degree, expected in zip(self._degrees, own, strict=True):
            if degree > 1:
                expected = modular.add(expected, next(offsets), t)
            right &= self._at_point(values[..., start : start + degree + 1]) == expected
            start += degree + 1
        return right

    def _at_point(self, values: Residues) -> Residues:
        """Return at the point the polynomial with these values at z = 0, 1, 2 …, shape (…, degree + 1): Lagrange's."""
        t, number = self._modulus, values.shape[-1]
        found = np.zeros_like(values[..., 0])
        for z in range(number):
            part = values[..., z]
            for y in range(number):
                if y != z:
                    part = modular.multiply(part, modular.subtract(self._point, np.full((), y, np.uint64), t), t)
                    part = modular.multiply(part, np.uint64(pow(z - y, -1, t)), t)
            found = modular.add(found, part, t)
        return found

    def _share(self, counted: Sequence[int]) -> Share:
        size = self._release.sketch.size
        both = self._shares.total(counted)
        return Share(both[:size], both[size:])
