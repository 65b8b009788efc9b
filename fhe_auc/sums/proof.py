"""One-time authenticators: sums that nobody can change unnoticed who lacks the parties' common secret.

docs/security/verified.md, "Authenticators", specifies and proves them, in the names that are used here. Modulo a prime
t a party's sketch also holds tags, one an entry, and blinders μ^(1) … μ^(d) for each sum of degree d ≥ 2. The
aggregator computes H_s at z = 0 … d, which are sums like any other. Parties interpolate, and accept only if H_s(α) is
what they know it to be before there is a result: a wrong number passes with probability at most d/(t − 1).
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import msgspec
import numpy as np

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, MergedVectors, Part, Release, Sketch, Sum, Term

_LABEL = b"fhe-auc authenticator 1\0"
_TAG = "'"
_BLINDERS = "blinders of "


def authenticated(release: Release) -> Release:
    """Return the release of the same sums with authenticators: each sum, of degree d, at z = 0 … d."""
    sketch = release.sketch
    tags = tuple([(name + _TAG, length) for name, length in sketch.vectors])
    blinders = tuple([(_BLINDERS + total.name, total.degree) for total in release.sums if total.degree > 1])
    sums: list[Sum] = []
    for total in release.sums:
        for z in range(total.degree + 1):
            terms = [Term(tuple([_factor_at(factor, z) for factor in term.factors])) for term in total.terms]
            if z and total.degree > 1:
                powers = Factor(constants=tuple([z**power for power in range(1, total.degree + 1)]))
                terms.append(Term((Factor((Part(_BLINDERS + total.name),)), powers)))
            sums.append(Sum(f"{total.name} at {z}", tuple(terms)))
    merged = [
        MergedVectors(own.starts, own.names + tuple([(name + _TAG, whose + _TAG) for name, whose in own.names]))
        for own in sketch.merged
    ]
    return Release(Sketch(sketch.vectors + tags + blinders, tuple(merged)), tuple(sums))


def _factor_at(factor: Factor, z: int) -> Factor:
    """Return the factor of a sketch's entries plus z times their tags."""
    if not z:
        return factor
    tags = tuple([Part(part.vector + _TAG, part.over, part.weight * z) for part in factor.parts])
    return msgspec.structs.replace(factor, parts=factor.parts + tags)


def released(release: Release, totals: Residues) -> Residues:
    """Return the residues of a release's own sums, shape (sums,), from those of the authenticated one: at z = 0."""
    return np.asarray(totals[np.cumsum([0, *(total.degree + 1 for total in release.sums[:-1])])])


class CommonShares:
    """Vectors that parties derive for each of them from their common secret: x_i = g_i − g_{i+1}, the g uniform.

    The x of all parties are uniform and independent, and the sum over a run of neighbours takes two g, however many
    they are. Whoever lacks the common secret knows none of them. They are of one session and purpose, each of shape
    (size,), modulo one prime; never printed.

    `session` is the manifest's digest; `label` and `purpose` are those of `derived_key`, which refuses a secret that
    has not 32 bytes (`InputError`) once a vector is asked for.
    """

    def __init__(
        self, secret: bytes, session: bytes, label: bytes, *purpose: str | int, modulus: int, size: int
    ) -> None:
        self._key = partial(derived_key, secret, session, label, *purpose)
        self._modulus = modulus
        self._size = size

    def __repr__(self) -> str:
        return "CommonShares(...)"

    def total(self, counted: Sequence[int]) -> Residues:
        """Return the sum of the vectors of the parties with these indices, shape (size,).

        Raises `InputError` unless there are some, each once, in ascending order. A party that is named twice would be
        summed twice, and any check that is linear would find that in order.
        """
        if not counted:
            raise InputError("a sum of no parties")
        if counted[0] < 0 or [pair for pair in pairwise(counted) if pair[1] <= pair[0]]:
            raise InputError("the parties that count must be listed once each, by index, in ascending order")
        parties = set(counted)
        total: Residues = np.zeros(self._size, np.uint64)
        for party in counted:  # g of neighbours cancel
            for index, neighbour, combine in (
                (party, party - 1, modular.add),
                (party + 1, party + 1, modular.subtract),
            ):
                if neighbour not in parties:
                    drawn = modular.uniform(KeyStream(self._key(index)), self._modulus, self._size)
                    total = combine(total, drawn, self._modulus)
        return total


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
        self._point = modular.uniform(KeyStream(derived_key(*key, "point")), modulus - 1, 1) + np.uint64(1)  # not zero
        of_sums = [degree for degree in self._degrees if degree > 1]
        size = release.sketch.size + len(of_sums)  # ρ of entries, u of sums
        self._shares = CommonShares(*key, "share", modulus=modulus, size=size)

    def __repr__(self) -> str:
        return "Authenticator(...)"

    def sketch(self, party: int, values: Residues, private: KeyStream) -> Residues:
        """Return the authenticated sketch of the party with this index; `private` is its own, and used once."""
        t = self._modulus
        shares, of_sums = np.split(self._shares.total([party]), [self._release.sketch.size])
        inverse: Residues = np.array([pow(int(self._point[0]), -1, t)], np.uint64)
        tags = modular.multiply(modular.subtract(shares, values, t), inverse, t)
        blinders, offsets = [], iter(of_sums[:, None])
        for degree in self._degrees:
            if degree > 1:
                drawn, left = modular.uniform(private, t, degree - 1), next(offsets)
                for own in drawn:
                    left = modular.subtract(modular.multiply(left, inverse, t), own, t)
                blinders += [drawn, modular.multiply(left, inverse, t)]
        return np.concatenate([values, tags, *blinders])

    def accepts(self, totals: Residues, counted: Sequence[int]) -> bool:
        """Whether these are the sums of the pooled sketches of the parties with these indices, ascending.

        `totals`, shape (sums,), are those of the authenticated release, in its order, and may be any numbers: only a
        helper's are not reduced. Everything is computed whatever fails: the time that it takes tells the aggregator
        nothing. `InputError` as `CommonShares.total`.
        """
        t, start, right = self._modulus, 0, True
        shares, of_sums = np.split(self._shares.total(counted), [self._release.sketch.size])
        values, offsets = totals % np.uint64(t), iter(of_sums[:, None])
        weights = {degree: self._weights(degree + 1) for degree in set(self._degrees)}
        for degree, expected in zip(self._degrees, self._release.totals(shares, t)[:, None], strict=True):
            if degree > 1:
                expected = modular.add(expected, next(offsets), t)
            found = modular.total(modular.multiply(values[start : start + degree + 1], weights[degree], t), t)
            right &= bool((found == expected).all())
            start += degree + 1
        return right

    def _weights(self, number: int) -> Residues:
        """Return with which weights values at z = 0, 1, 2 … add up to the polynomial's at the point: Lagrange's."""
        t, weights = self._modulus, []
        for z in range(number):
            weight: Residues = np.ones(1, np.uint64)
            for y in range(number):
                if y != z:
                    weight = modular.multiply(weight, modular.subtract(self._point, np.full(1, y, np.uint64), t), t)
                    weight = modular.multiply(weight, np.uint64(pow(z - y, -1, t)), t)
            weights.append(weight)
        return np.concatenate(weights)
