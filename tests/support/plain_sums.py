"""Sums in Python's integers, and random ones."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, MergedVectors, Part, Release, Sketch, Sum, Term

Vectors = Mapping[str, Sequence[int]]

PRIMES = [3, 101, 65537, 2199023288321, 2**50 - 27]
"""The smallest odd one, small ones, one of 42 bits as sessions have, and the largest of 50 bits."""


def entry(factor: Factor, vectors: Vectors, k: int) -> int:
    """One entry of a factor, by definition."""
    if factor.constants:
        return factor.constants[k]
    if factor.repeat * factor.times > 1:  # a row of a table, or a column of it
        length = max(len(vectors[part.vector]) for part in factor.parts if part.over != "total")
        k = k % (length * factor.repeat) // factor.repeat
    chosen = {
        "each": lambda x: x[k],
        "below": lambda x: sum(x[:k]),
        "above": lambda x: sum(x[k + 1 :]),
        "total": lambda x: sum(x),
    }
    return sum(part.weight * chosen[part.over](vectors[part.vector]) for part in factor.parts)


def term_length(term: Term, vectors: Vectors) -> int:
    """How many entries a term has: as many as any vector or constants that it takes entry by entry."""
    lengths = [len(factor.constants) for factor in term.factors if factor.constants]
    lengths += [
        len(vectors[part.vector]) * factor.repeat * factor.times
        for factor in term.factors
        for part in factor.parts
        if part.over != "total"
    ]
    return max(lengths, default=1)


def value(wanted: Sum, vectors: Vectors) -> int:
    """A sum, by definition."""
    total = 0
    for term in wanted.terms:
        for k in range(term_length(term, vectors)):
            product = 1
            for factor in term.factors:
                product *= entry(factor, vectors, k)
            total += product
    return total


def vectors_of(sketch: Sketch, values: Sequence[int]) -> dict[str, list[int]]:
    """A sketch's vectors, cut by hand."""
    found, start = {}, 0
    for name, length in sketch.vectors:
        found[name] = list(values[start : start + length])
        start += length
    for own in sketch.merged:
        for name, whose in own.names:
            ends = [*own.starts[1:], len(found[whose])]
            found[name] = [sum(found[whose][first:end]) for first, end in zip(own.starts, ends, strict=True)]
    return found


def centred(number: int, modulus: int) -> int:
    """The integer of that residue between -modulus/2 and modulus/2."""
    residue = number % modulus
    return residue - modulus if 2 * residue > modulus else residue


def residues(values: Sequence[int], modulus: int) -> Residues:
    return np.array([each % modulus for each in values], np.uint64)


def random_residues(seed: int, size: int, modulus: int) -> Residues:
    return modular.uniform(KeyStream(seed.to_bytes(32, "big")), modulus, size)


@st.composite
def factors(draw: st.DrawFn, vectors: dict[str, int], length: int, largest: int) -> Factor:
    if draw(st.integers(0, 5)) == 0:
        constant = st.one_of(st.integers(-3, 3), st.sampled_from([2**40, -(2**40)]))
        return Factor(constants=tuple(draw(st.lists(constant, min_size=length, max_size=length))))
    lengths = sorted({found for found in vectors.values() if length % found == 0})  # some stand in it repeatedly
    repeated = length // (whole := draw(st.sampled_from(lengths or [1])))
    fitting = [name for name, found in vectors.items() if found == whole]
    each = draw(st.sampled_from([number for number in range(1, repeated + 1) if repeated % number == 0]))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        over = draw(st.sampled_from(["each", "below", "above", "total"])) if fitting else "total"
        name = draw(st.sampled_from(list(vectors) if over == "total" else fitting))
        parts.append(Part(name, over, draw(st.sampled_from([1, -1, 2, -3, 27, largest, -largest]))))
    if all(part.over == "total" for part in parts):
        return Factor(tuple(parts))
    return Factor(tuple(parts), (), each, repeated // each)


@st.composite
def terms(draw: st.DrawFn, vectors: dict[str, int], largest: int) -> Term:
    length = draw(st.sampled_from(sorted(set(vectors.values()))))
    found = [draw(factors(vectors, length, largest)) for _ in range(draw(st.integers(1, 3)))]
    if draw(st.booleans()):  # repeated factors are treated in a way of their own
        found = [found[0], *found[: draw(st.integers(1, 2))]]
    if all(factor.constants for factor in found):
        found[0] = Factor((Part(draw(st.sampled_from(list(vectors))), "total"),))
    return Term(tuple(found))


@st.composite
def releases(draw: st.DrawFn, *, most_entries: int = 12, largest: int = 2**40) -> Release:
    lengths = draw(st.lists(st.sampled_from([1, 2, 5, 6, most_entries]), min_size=1, max_size=4))
    vectors = {f"x{number}": length for number, length in enumerate(lengths)}
    merged = []
    for name in draw(st.lists(st.sampled_from(list(vectors)), max_size=2, unique=True)):
        starts = draw(st.lists(st.integers(1, vectors[name]), max_size=4, unique=True).map(sorted))
        merged.append(MergedVectors((0, *[at for at in starts if at < vectors[name]]), ((f"{name} merged", name),)))
    sketch = Sketch(tuple(vectors.items()), tuple(merged))
    count = draw(st.integers(1, 4))
    several = st.lists(terms(sketch.lengths, largest), min_size=1, max_size=3)
    made = [Sum(f"sum {number}", tuple(draw(several))) for number in range(count)]
    return Release(sketch, tuple(made))


@st.composite
def sketches(draw: st.DrawFn, sketch: Sketch) -> list[int]:
    number = st.one_of(st.integers(0, 9), st.integers(0, 10**6))
    return draw(st.lists(number, min_size=sketch.size, max_size=sketch.size))
