"""Sums of products of differences, expanded: what the key holder encrypts, and what the aggregator multiplies it by.

Of a term with the different factors A_i − B_i, each e_i times, and constants c:

    c · Π_i (A_i − B_i)^{e_i} = Σ_{0 ≤ j ≤ e}  c · Π_i C(e_i, j_i) · A_i^{e_i − j_i}  ·  Π_i (−B_i)^{j_i}
                                               a coefficient, in the clear              a monomial, encrypted

- **j = 0**: the monomial is 1, and nothing is encrypted.
- **j = e**: the coefficient is c, which the key holder knows as well. It encrypts one number for the whole sum.
- **one B**: linear in B. What a factor does to a base y can be done to the coefficients in its place, as
  Σ_k a_k·Σ_{j<k} y_j = Σ_j y_j·Σ_{k>j} a_k. So each entry of a base is encrypted once in a sum, in however many factors
  and terms it is.
- **two B**, in a term of degree 3: two numbers for each entry of a square times another factor, three of three factors,
  one of a cube.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, Over, Sum, Term, running_sums


def encrypted_numbers(total: Sum, lengths: Mapping[str, int]) -> int:
    """Return how many numbers are encrypted for a sum over vectors of these lengths."""
    linear = sum(base.length(lengths) or 1 for base in total.bases)
    return linear + sum(len(_of_two(term)) * term.length(lengths) for term in total.terms) + 1


def monomials(total: Sum, at: Mapping[Factor, Residues], modulus: int) -> list[Residues]:
    """Return what is encrypted for a sum, as vectors of several lengths; the last one is the number of j = e.

    `at` holds the B of each factor and base, from `Release.evaluate`.
    """
    zero: Residues = np.zeros(1, np.uint64)
    of_two, last = list[Residues](), zero
    for term in total.terms:
        powers, length = term.powers, _length(term, at)
        for j in _of_two(term):
            pair = [at[factor] for factor, power in zip(powers, j, strict=True) for _ in range(power)]
            of_two.append(_product(pair, 1, length, modulus))
        product = modular.total(_product([at[factor] for factor in term.factors], 1, length, modulus), modulus)[None]
        last = (modular.subtract if term.degree % 2 else modular.add)(last, product, modulus)
    return [*[modular.subtract(zero, at[base], modulus) for base in total.bases], *of_two, last]


def coefficients(total: Sum, at: Mapping[Factor, Residues], modulus: int) -> tuple[Residues, list[Residues]]:
    """Return a sum's coefficients of 1, added up, shape (1,); and those of `monomials`, of the same shapes as these.

    `at` holds the A of each factor and base, from `Release.evaluate`.
    """
    clear: Residues = np.zeros(1, np.uint64)
    linear, of_two = {base: np.zeros_like(at[base]) for base in total.bases}, list[Residues]()
    for term in total.terms:
        powers = term.powers
        first = _coefficient(term, (0,) * len(powers), at, modulus)
        clear = modular.add(clear, modular.total(first, modulus)[None], modulus)
        for which, factor in enumerate(powers if term.degree > 1 else ()):
            one = tuple([int(other == which) for other in range(len(powers))])
            folded = _folded(_coefficient(term, one, at, modulus), factor, modulus)
            for base, over, scale in factor.maps:
                own = _product([_transposed(folded, over, modulus)], scale % modulus, len(linear[base]), modulus)
                linear[base] = modular.add(linear[base], own, modulus)
        of_two += [_coefficient(term, j, at, modulus) for j in _of_two(term)]
    return clear, [*linear.values(), *of_two, np.ones(1, np.uint64)]


def _coefficient(term: Term, j: tuple[int, ...], at: Mapping[Factor, Residues], modulus: int) -> Residues:
    binomial, factors = 1, [at[factor] for factor in term.factors if factor.constants]
    for (factor, power), exponent in zip(term.powers.items(), j, strict=True):
        binomial *= math.comb(power, exponent)
        factors += [at[factor]] * (power - exponent)
    return _product(factors, binomial, _length(term, at), modulus)


def _folded(weights: Residues, factor: Factor, modulus: int) -> Residues:
    """Return what the entries of a factor weigh before they are repeated."""
    if factor.repeat * factor.times == 1:
        return weights
    table = weights.reshape(factor.times, -1, factor.repeat)
    return modular.total(modular.total(table, modulus), modulus, axis=0)


def _transposed(weights: Residues, over: Over, modulus: int) -> Residues:
    """Return what each entry of a base weighs where the entries of a map of it weigh this."""
    if over == "each":
        return weights
    running = running_sums(weights, modulus)
    if over == "above":
        return modular.subtract(running, weights, modulus)
    return running[-1:] if over == "total" else modular.subtract(running[-1:], running, modulus)


def _of_two(term: Term) -> list[tuple[int, ...]]:
    """Return j of all monomials with two B, of a term that has more factors."""
    if term.degree < 3:
        return []
    return [j for j in itertools.product(*[range(power + 1) for power in term.powers.values()]) if sum(j) == 2]


def _length(term: Term, at: Mapping[Factor, Residues]) -> int:
    return max(map(len, map(at.__getitem__, term.factors)))


def _product(factors: Sequence[Residues], start: int, length: int, modulus: int) -> Residues:
    product = reduce(partial(modular.multiply, modulus=modulus), factors) if factors else np.ones(1, np.uint64)
    if start != 1:
        product = modular.multiply(product, np.uint64(start), modulus)
    return product if len(product) == length else np.broadcast_to(product, length)
