"""What parties conclude from the decrypted sums: a verified fraction, a verified "undefined", or no number at all."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm, prod

import numpy as np

from fhe_auc.errors import EvaluationError, ResultCheckError, UndefinedAucError, VerificationError
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc_protocols.exact_auc.authenticator import Secrets

_REFUSED = (
    "the result fails its check ({}), so no number is given: the aggregator has not computed what it should, a party "
    "was left out or has submitted twice, a message is damaged, or the pooled rows are more than max_rows"
)
_ONE_CLASS = "the pooled rows have one class only, so the AUC is undefined{}; no number is given"


def soundness_of_check(primes: Sequence[int], sums: int) -> float:
    """Return a bound on the probability that a wrong result passes `authentic`, where the rows have both classes.

    `sums` is how many there are (`ExactPacking.sums`); docs/security/verified.md has the proof.
    """
    return _wrong_ratio(primes, sums) + _false_undefined(primes)


def soundness(primes: Sequence[int], sums: int, bound: int) -> float:
    """Return a bound on the probability that a wrong result is accepted, whatever the aggregator does; `bound` is D.

    Where the pooled rows have one class only, the check alone leaves a quotient that is uniform modulo the primes'
    product T, and is a fraction with a denominator of at most D with probability below (D + 1)²/T.
    """
    one_class = (bound + 1) ** 2 / prod(primes) + sum(1 / t**2 for t in primes)
    return _wrong_ratio(primes, sums) + max(one_class, _false_undefined(primes))


def _wrong_ratio(primes: Sequence[int], sums: int) -> float:
    """Bound the probability that other ratios than those submitted pass `authentic` for all primes.

    Given what was submitted, α is uniform over at least t - 1 - 2·sums values, of which a wrong result has at most four
    on its side; or S is zero, and the keys have to be guessed. One wrong prime is enough to be refused. The proof is in
    docs/security/verified.md.
    """
    return 4 / (min(primes) - 1 - 2 * sums) + sum(1 / (t * (t - 1)) for t in primes)


def _false_undefined(primes: Sequence[int]) -> float:
    """Bound the probability that zeros as constant coefficients pass for all primes though P·N > 0."""
    return float((3 / min(primes)) ** len(primes))


def authentic(secrets: Secrets, totals: Residues) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Tell whether a prime's totals pass the check, shape (…): a_0·n_s(α) = a_s·n_0(α) ≠ 0 for every sum s.

    Totals are the coefficients of n_s, the constant one first, shape (…, 3, sums).
    """
    t, point = secrets.prime, secrets.point[..., None]
    at = totals[..., 2, :]
    for power in (1, 0):
        at = modular.add(modular.multiply(at, point, t), totals[..., power, :], t)
    left = modular.multiply(secrets.keys[..., :1], at, t)
    right = modular.multiply(secrets.keys, at[..., :1], t)
    return np.asarray((left == right).all(axis=-1) & (at[..., 0] != 0))


def accept(found: Sequence[Residues], secrets: Sequence[Secrets], bound: int) -> tuple[Fraction, ...]:
    """Return the sums before den (num, and tie where there is one) as fractions of den.

    From the totals of the decrypted result, shape (3, sums), and the secrets for each prime. No honest denominator is
    larger than the bound D.

    Raises
    ------
    VerificationError
        The totals are not those of an honest aggregator over all parties.
    UndefinedAucError
        They are, and the pooled rows have one class only.
    """
    # All of it is computed whatever fails: when a party answers would otherwise tell the aggregator its verdict.
    fits = [bool(authentic(each, totals)) for each, totals in zip(secrets, found, strict=True)]
    outcome: tuple[Fraction, ...] | EvaluationError
    try:
        outcome = fractions([totals[0] for totals in found], [each.prime for each in secrets], bound)
    except EvaluationError as error:
        outcome = error
    if not all(fits):
        raise VerificationError(_REFUSED.format("the authenticator does not fit"), check="authenticator")
    if isinstance(outcome, ResultCheckError):
        raise VerificationError(str(outcome), check=outcome.check) from None
    if isinstance(outcome, EvaluationError):
        raise UndefinedAucError(_ONE_CLASS.format(", which is verified")) from None
    return outcome


def fractions(constant: Sequence[Residues], primes: Sequence[int], bound: int) -> tuple[Fraction, ...]:
    """Return the sums before den as fractions of den, which are the same whatever each prime's multiplier.

    From r·num, r·tie (where there is one) and r·den for each prime, shape (sums,). The product of the primes exceeds
    2·D², D the bound on den.

    Raises
    ------
    ResultCheckError
        No such fractions exist with one denominator of at most D.
    UndefinedAucError
        Everything is zero.
    """
    if not any(each.any() for each in constant):
        raise UndefinedAucError(_ONE_CLASS.format(""))
    if not all(each[-1] for each in constant):
        raise ResultCheckError(_REFUSED.format("the denominator is zero"), check="denominator")
    found = []
    for position in range(len(constant[0]) - 1):
        quotients = [
            int(each[position]) * pow(int(each[-1]), -1, t) % t for each, t in zip(constant, primes, strict=True)
        ]
        fraction = _reconstructed(quotients, primes, bound)
        if fraction is None:
            raise ResultCheckError(_REFUSED.format("the quotient is not a fraction between 0 and 1"), check="fraction")
        found.append(fraction)
    if lcm(*(each.denominator for each in found)) > bound:
        raise ResultCheckError(
            _REFUSED.format("the fractions have no denominator in common that is small enough"), check="fraction"
        )
    return tuple(found)


def _reconstructed(quotients: Sequence[int], primes: Sequence[int], bound: int) -> Fraction | None:
    """Return the fraction p/q with 0 ≤ p ≤ q ≤ bound that is `quotients` modulo each prime, or None.

    Rational reconstruction (Wang 1981): at most one fraction fits, as the primes' product exceeds 2·bound².
    """
    modulus = prod(primes)
    residue = sum(each * (modulus // t) * pow(modulus // t, -1, t) for each, t in zip(quotients, primes, strict=True))
    above, numerator, before, denominator = modulus, residue % modulus, 0, 1
    while numerator > bound:
        quotient = above // numerator
        above, numerator = numerator, above - quotient * numerator
        before, denominator = denominator, before - quotient * denominator
    if denominator < 0:
        numerator, denominator = -numerator, -denominator
    if not 0 <= numerator <= denominator <= bound:
        return None
    return Fraction(numerator, denominator)
