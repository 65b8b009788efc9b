"""Products of differences, expanded into what the key holder encrypts and what the aggregator multiplies it by.

For a term with the different factors A_i − B_i, each e_i times, and constants c:

    c · Π_i (A_i − B_i)^{e_i} = Σ_{0 ≤ j ≤ e}  c · Π_i C(e_i, j_i) · A_i^{e_i − j_i}  ·  Π_i (−B_i)^{j_i}
                                               a coefficient, in the clear              a monomial, encrypted

The monomial with j = 0 is 1. Of the others there is one in a term of degree 1, two for a square, three for a product,
three for a cube, five for a square times another factor, seven for three different factors.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, Term


def monomial_count(term: Term) -> int:
    """Return how many monomials of an entry are encrypted."""
    return len(_exponents(_powers(term))) - 1


def coefficients(term: Term, at: Mapping[Factor, Residues], modulus: int) -> tuple[Residues, list[Residues]]:
    """Return the coefficient of 1, then those of `monomials`; `at` is each factor's A, from `Release.evaluate`."""
    powers = _powers(term)
    constants = [at[factor] for factor in term.factors if factor.constants]
    clear = []
    for exponents in _exponents(powers):
        binomial, factors = 1, constants.copy()
        for (factor, power), exponent in zip(powers.items(), exponents, strict=True):
            binomial *= math.comb(power, exponent)
            factors += [at[factor]] * (power - exponent)
        clear.append(_product(factors, binomial, _length(term, at), modulus))
    return clear[0], clear[1:]


def monomials(term: Term, at: Mapping[Factor, Residues], modulus: int) -> list[Residues]:
    """Return the monomials, each of shape (length,); `at` holds the B of each factor, from `Release.evaluate`."""
    powers = _powers(term)
    negated = [modular.subtract(np.zeros(1, np.uint64), at[factor], modulus) for factor in powers]
    return [
        _product(itertools.chain(*map(itertools.repeat, negated, exponents)), 1, _length(term, at), modulus)
        for exponents in _exponents(powers)[1:]
    ]


def _powers(term: Term) -> Counter[Factor]:
    return Counter(factor for factor in term.factors if not factor.constants)


def _exponents(powers: Counter[Factor]) -> list[tuple[int, ...]]:
    """Return j of all monomials; zeros come first."""
    return list(itertools.product(*(range(power + 1) for power in powers.values())))


def _length(term: Term, at: Mapping[Factor, Residues]) -> int:
    return max(len(at[factor]) for factor in term.factors)


def _product(factors: Iterable[Residues], start: int, length: int, modulus: int) -> Residues:
    product: Residues = np.full(length, start, np.uint64)
    for factor in factors:
        product = modular.multiply(product, factor, modulus)
    return product
