"""One-time authenticators: sums that nobody can change unnoticed who lacks the parties' common secret.

Everything is modulo a prime t. A party's sketch w_i is accompanied by tags, one an entry, and by blinders, d for each
sum s of degree d ≥ 2:

    w'_i = (ρ_i − w_i)/α                  α ≠ 0 and ρ_i from the common secret
    μ^(1) … μ^(d−1)                       uniform, the party's own: nobody else ever knows them
    μ^(d) = (u_{s,i} − Σ_{j<d} α^j·μ^(j))/α^d        u_{s,i} from the common secret

With F' the linear part of a factor F, on the tags, and over the pooled sketch, tags and blinders,

    f_s(z) = Σ Π (F + F'·z)        f_s(0) is what is wanted, f_s(α) what F makes of R = Σ ρ_i
    H_s(z) = f_s(z) + Σ_j μ^(j)·z^j

so that H_s(α) = f_s(α) + Σ u_{s,i}, which the parties know before there is a result. The aggregator computes H_s at
z = 0 … d, which are sums like any other; parties interpolate, and accept only if each takes that value at α. Without
the common secret α is uniform given all that was submitted, and another polynomial of degree d agrees with H_s in at
most d places: a wrong number passes with probability at most d/(t − 1).

ρ_i and u_i come from `common_shares`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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
    """Return the release of the same sums with authenticators: each of them, of degree d, at z = 0 … d.

    Errors as `Release`; a name may be too long with what is added to it.
    """
    degrees = [(each, each.degree) for each in release.sums]
    tags = tuple((name + _TAG, length) for name, length in release.sketch.vectors)
    blinders = tuple((_BLINDERS + each.name, degree) for each, degree in degrees if degree > 1)
    sums = tuple(_at(each, z) for each, degree in degrees for z in range(degree + 1))
    return Release(Sketch(release.sketch.vectors + tags + blinders), sums)


def _at(wanted: Sum, z: int) -> Sum:
    """Return a sum at z."""
    terms = tuple(Term(tuple(_factor_at(factor, z) for factor in term.factors)) for term in wanted.terms)
    if z and wanted.degree > 1:
        powers = Factor(constants=tuple(z**power for power in range(1, wanted.degree + 1)))
        terms += (Term((Factor((Part(_BLINDERS + wanted.name),)), powers)),)
    return Sum(f"{wanted.name} at {z}", terms)


def _factor_at(factor: Factor, z: int) -> Factor:
    if not z:
        return factor
    return Factor(
        factor.parts + tuple(Part(part.vector + _TAG, part.over, part.weight * z) for part in factor.parts),
        factor.constants,
        factor.each,
        factor.times,
    )


def released(release: Release, totals: Residues) -> Residues:
    """Return the residues of a release's own sums, shape (sums,), from those of the authenticated one: at z = 0."""
    starts = np.cumsum([0, *(each.degree + 1 for each in release.sums[:-1])])
    return np.asarray(totals[starts])


class Share(NamedTuple):
    """A party's, or the sum of several parties'."""

    entries: Residues
    """ρ, shape (sketch.size,)."""
    offsets: Residues
    """u of each sum of degree two or more, shape (such sums,)."""


class Authenticator:
    """One session's, for one prime; it holds what the aggregator must not know.

    Parameters
    ----------
    release : Release
        Without authenticators.
    common_secret : bytes
        32 bytes that the session's parties have in common; `InputError` for another length.
    session : bytes
        The manifest's digest: another session has other secrets.
    prime : int
        Its index.
    modulus : int
        The prime itself.
    """

    def __init__(self, release: Release, common_secret: bytes, session: bytes, prime: int, modulus: int) -> None:
        self._release = release
        self._degrees = [each.degree for each in release.sums]
        self._modulus = modulus
        key = common_secret, session, _LABEL, prime
        self._point = int(modular.nonzero(KeyStream(derived_key(*key, "point")), modulus, 1)[0])
        size = release.sketch.size + sum(degree > 1 for degree in self._degrees)
        self._shares = CommonShares(*key, "share", modulus=modulus, size=size)

    def __repr__(self) -> str:
        return "Authenticator(...)"

    def sketch(self, party: int, values: Residues, private: KeyStream) -> Residues:
        """Return the authenticated sketch of the party with this index, shape (authenticated size,).

        `values` are the residues of its sketch, shape (size,); `private` is secret from all others, and used once.
        """
        t, share = self._modulus, self._share([party])
        inverse = pow(self._point, -1, t)
        tags = modular.multiply(modular.subtract(share.entries, values, t), np.uint64(inverse), t)
        blinders = []
        offsets = iter(share.offsets.tolist())
        for degree in self._degrees:
            if degree > 1:
                drawn = modular.uniform(private, t, degree - 1).tolist()
                last = next(offsets) - sum(pow(self._point, power, t) * each for power, each in enumerate(drawn, 1))
                blinders += [*drawn, last * pow(inverse, degree, t) % t]
        return np.concatenate([values, tags, np.array(blinders, np.uint64)])

    def accepts(self, totals: Residues, counted: Sequence[int]) -> bool:
        """Whether these are the sums of the pooled sketches of the parties with these indices, ascending.

        `totals` are the residues of the authenticated release's sums, in its order. Everything is computed whatever
        fails: the time that it takes tells the aggregator nothing. `InputError` as `CommonShares.total`.
        """
        t, found = self._modulus, totals.tolist()
        share = self._share(counted)
        at = self._release.totals(share.entries, t).tolist()
        offsets = iter(share.offsets.tolist())
        right = True
        for degree, value in zip(self._degrees, at, strict=True):
            expected = value + (next(offsets) if degree > 1 else 0)
            values, found = found[: degree + 1], found[degree + 1 :]
            right &= (_interpolated(values, self._point, t) - expected) % t == 0
        return right

    def _share(self, counted: Sequence[int]) -> Share:
        """Return the sum of these parties' shares."""
        size = self._release.sketch.size
        both = self._shares.total(counted)
        return Share(both[:size], both[size:])


def _interpolated(values: Sequence[int], point: int, modulus: int) -> int:
    """Return at `point` the polynomial of least degree that takes these values at 0, 1, 2 … (Lagrange)."""
    total = 0
    for z, value in enumerate(values):
        others = [y for y in range(len(values)) if y != z]
        weight = value
        for y in others:
            weight = weight * (point - y) * pow(z - y, -1, modulus) % modulus
        total += weight
    return total % modulus
