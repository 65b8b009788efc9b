"""What parties submit so that no aggregator can change the result unnoticed: a one-time polynomial authenticator.

Everything is modulo a prime t, and happens once for each of the session's primes. X and Y are the sums over all parties
of their entries (`fhe_auc_protocols.exact_auc.packing`), s is one of the sums num, tie, den, and z a variable:

    f_s(z) = Σ_{entries of s} (X + X'z)(Y + Y'z)        f_s(0) is what is wanted: num, tie or den
    H_s(z) = f_s(z) + μ_s·z + μ'_s·z²

All parties, and not the aggregator, know from their common secret a point α ≠ 0, a key a_s ≠ 0 for each sum, and R^X,
R^Y, uniform for each entry. Party i draws for itself S_i and μ_{s,i}, uniform, and submits with its entries

    X'_i = (ρ^X_i - X_i)/α       Y'_i = (ρ^Y_i - Y_i)/α       μ'_{s,i} = (a_s·S_i + u_{s,i} - α·μ_{s,i})/α²

where ρ_i and u_i are uniform up to their sums over all parties, Σ ρ^X_i = R^X, Σ ρ^Y_i = R^Y and
Σ u_{s,i} = -f_s(α) = -Σ_{entries of s} R^X·R^Y. So X + αX' = R^X, and with S = Σ S_i

    H_s(α) = a_s·S        for every s.

An aggregator that multiplies, adds up and blinds with one r returns r·H_s: three coefficients a sum, with
r·H_s(α) = a_s·(rS). Whatever it returns otherwise, polynomials n_s of degree 2, is accepted only if
a_0·n_s(α) = a_s·n_0(α) ≠ 0, which is to say n_s·H_0 - n_0·H_s has α as a root; but what it has seen is all but
independent of α (docs/security/verified.md has the proof).

The sums of parties' secrets must be zero without any party adding up those of all: party i takes g_i - g_{i+1}, where
the g are uniform and derived from the common secret. All but one of the differences are uniform and independent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fhe_auc.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc_protocols.exact_auc.packing import Entries, ExactPacking

FIRST = 0
"""Index of the party that takes what makes the sums R and -f, and the slots that hold one."""


@dataclass(frozen=True, repr=False)
class Secrets:
    """What all parties of a session know, for one prime.

    Leading dimensions "…" are independent sessions, for simulations; a party has none.
    """

    prime: int
    """t."""
    point: Residues
    """α, not 0, shape (…)."""
    keys: Residues
    """a_s, not 0, shape (…, sums)."""
    totals: Residues
    """R^X and R^Y, shape (…, 2, pairs, n)."""

    @classmethod
    def draw(cls, stream: KeyStream, packing: ExactPacking, prime: int, *sessions: int) -> Secrets:
        """Draw the secrets of a session, or of as many as the product of `sessions`."""
        return cls(
            prime,
            modular.nonzero(stream, prime, *sessions),
            modular.nonzero(stream, prime, *sessions, packing.sums),
            modular.uniform(stream, prime, *sessions, 2, packing.pairs, packing.entries),
        )

    def values(self, packing: ExactPacking) -> Residues:
        """Return f_s(α) of every sum, shape (…, sums)."""
        products = modular.multiply(self.totals[..., 0, :, :], self.totals[..., 1, :, :], self.prime)
        by_entry = modular.total(products, self.prime, axis=-2)
        entries = packing.sum_of_entry
        sums = [modular.total(by_entry[..., entries == each], self.prime) for each in range(packing.sums)]
        return np.stack(sums, axis=-1)


@dataclass(frozen=True, repr=False)
class Pads:
    """What the differences of neighbours are taken of: g of one party."""

    entries: Residues
    """For ρ^X and ρ^Y, shape (…, 2, pairs, n)."""
    offsets: Residues
    """For u, shape (…, sums)."""

    @classmethod
    def draw(cls, stream: KeyStream, packing: ExactPacking, prime: int, *sessions: int) -> Pads:
        """Draw one party's pads, of a session or of as many as the product of `sessions`."""
        return cls(
            modular.uniform(stream, prime, *sessions, 2, packing.pairs, packing.entries),
            modular.uniform(stream, prime, *sessions, packing.sums),
        )


def submission(
    packing: ExactPacking,
    secrets: Secrets,
    index: int,
    pads: tuple[Pads, Pads],
    counts: Entries,
    private: KeyStream,
) -> tuple[Residues, Residues]:
    """Return what a party puts in the slots of its left and right ciphertexts, shape (…, pairs, slots) each.

    The packing is an authenticated one. Every party has another `index`, from 0; `pads` are those of this party and of
    the next one, cyclically; `counts` its own, integers of shape (pairs, n); `private` is secret from all others.
    """
    t, sessions = secrets.prime, secrets.point.shape
    own, following = pads
    shares = modular.subtract(own.entries, following.entries, t)
    offsets = modular.subtract(own.offsets, following.offsets, t)
    if index == FIRST:
        shares = modular.add(shares, secrets.totals, t)
        offsets = modular.subtract(offsets, secrets.values(packing), t)
    inverse = modular.inverse(secrets.point, t)
    plain = [np.broadcast_to(modular.residues(each, t), (*sessions, *each.shape)) for each in counts]
    primed = [
        modular.multiply(modular.subtract(shares[..., which, :, :], each, t), inverse[..., None, None], t)
        for which, each in enumerate(plain)
    ]
    share = modular.uniform(private, t, *sessions)
    first = modular.uniform(private, t, *sessions, packing.sums)
    wanted = modular.add(modular.multiply(secrets.keys, share[..., None], t), offsets, t)
    rest = modular.subtract(wanted, modular.multiply(first, secrets.point[..., None], t), t)
    second = modular.multiply(rest, modular.multiply(inverse, inverse, t)[..., None], t)
    one = np.full(sessions, np.uint64(index == FIRST))
    return packing.tagged((plain[0], primed[0]), (plain[1], primed[1]), np.stack([first, second], axis=-2), one)
