"""Products of differences, expanded into what the key holder encrypts and what the aggregator multiplies it by.

For a term with the different factors A_i − B_i, each e_i times, and constants c:

    c · Π_i (A_i − B_i)^{e_i} = Σ_{0 ≤ j ≤ e}  c · Π_i C(e_i, j_i) · A_i^{e_i − j_i}  ·  Π_i (−B_i)^{j_i}
                                               a coefficient, in the clear              a monomial, encrypted

The monomial with j = 0 is 1. Where j = e the coefficient is c, which the key holder knows as well: of all entries it
encrypts the sum of c times monomial, one number. Of the others an entry has none in a term of degree 1, one for a
square, two for a product, two for a cube, four for a square times another factor, six for three different factors.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, Term, running_sums


def encrypted_numbers(term: Term, length: int) -> int:
    """Return how many numbers are encrypted for a term of so many entries."""
    return (len(_exponents(_powers(term))) - 2) * length + 1


def coefficients(term: Term, at: Mapping[Factor, Residues], modulus: int) -> tuple[Residues, list[Residues]]:
    """Return the coefficient of 1, shape (length,), and those of `monomials`, of the same shapes as these.

    `at` is each factor's A, from `Release.evaluate`.
    """
    powers = _powers(term)
    constants = [at[factor] for factor in term.factors if factor.constants]
    clear = []
    for exponents in _exponents(powers)[:-1]:
        binomial, factors = 1, constants.copy()
        for (factor, power), exponent in zip(powers.items(), exponents, strict=True):
            binomial *= math.comb(power, exponent)
            factors += [at[factor]] * (power - exponent)
        clear.append(_product(factors, binomial, _length(term, at), modulus))
    return clear[0], [*clear[1:], np.ones(1, np.uint64)]


def monomials(term: Term, at: Mapping[Factor, Residues], modulus: int) -> list[Residues]:
    """Return the monomials, each of shape (length,), and the sum of the last ones with their coefficients, shape (1,).

    `at` holds the B of each factor, from `Release.evaluate`.
    """
    powers, length = _powers(term), _length(term, at)
    negated = [modular.subtract(np.zeros(1, np.uint64), at[factor], modulus) for factor in powers]
    *others, last = (
        [*itertools.chain(*map(itertools.repeat, negated, exponents))] for exponents in _exponents(powers)[1:]
    )
    summed = _product([*last, *(at[factor] for factor in term.factors if factor.constants)], 1, length, modulus)
    return [*(_product(factors, 1, length, modulus) for factors in others), running_sums(summed, modulus)[-1:]]


def _powers(term: Term) -> Counter[Factor]:
    return Counter(factor for factor in term.factors if not factor.constants)


def _exponents(powers: Counter[Factor]) -> list[tuple[int, ...]]:
    """Return j of all monomials; zeros come first, and e last."""
    return list(itertools.product(*(range(power + 1) for power in powers.values())))


def _length(term: Term, at: Mapping[Factor, Residues]) -> int:
    return max(len(at[factor]) for factor in term.factors)


def _product(factors: Iterable[Residues], start: int, length: int, modulus: int) -> Residues:
    product: Residues = np.full(length, start, np.uint64)
    for factor in factors:
        product = modular.multiply(product, factor, modulus)
    return product
