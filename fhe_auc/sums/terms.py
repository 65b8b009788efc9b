"""What is summed: products of linear functions of a sketch, in public.

A sketch is what a party contributes: named vectors of integers, laid out one after another. A vector may also be summed
as a *merged* one, of fewer entries: sums of neighbours, which nobody sends.

A term is Σ_k c_k · F_k · G_k · H_k, of 1 to 3 factors that are linear in the sketch, and constants c_k: F_k is a sum
of parts, weight · (x_k, or Σ_{j<k} x_j, or Σ_{j>k} x_j, or Σ_j x_j), x one of its vectors.

A factor consists of *maps* of *bases*: Σ_{j<k} y_j, say, y a sum of vectors entry by entry. `expansion` says what of.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property, partial, reduce
from operator import itemgetter, lt
from typing import Literal, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

Number = TypeVar("Number", np.uint64, np.int64)
Over = Literal["each", "below", "above", "total"]
"""Which entries x_j are added up to entry k of a linear map: that with j = k, all with j < k, with j > k, or all."""

MOST_ENTRIES = 2**20  # of a sketch
MOST_FACTORS = 3  # of a term, besides constants
MOST_PARTS = 2**14  # of all sums together, with constants
MOST_EVALUATED = 2**24
"""Entries that all parts of all sums are evaluated to, with constants.

Both bound what a manifest makes its readers compute: at most 128 MB of residues, in so many pieces.
"""

MOST_MODULUS_BITS = 50
_CHUNK = 2 ** (63 - MOST_MODULUS_BITS)
_LIGHT = 2 ** (64 - MOST_MODULUS_BITS)  # weights whose products with residues have 64 bits


class MergedVectors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vector of sums of neighbouring entries of others, of one length: entry K sums those from `starts[K]` on."""

    starts: tuple[int, ...]  # ascending from 0
    names: tuple[tuple[str, str], ...]  # of the merged vector, and of whose entries it sums


class Sketch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The vectors of a sketch; `CapacityError` for more than 2^20 entries in all, `InputError` for odd merged ones."""

    vectors: tuple[tuple[str, int], ...]  # name and length of each, in order: names differ, and no vector is empty
    merged: tuple[MergedVectors, ...] = ()

    def __post_init__(self) -> None:
        if self.size > MOST_ENTRIES:
            raise CapacityError(f"a sketch has at most {MOST_ENTRIES:,} entries, got {self.size:,}")
        lengths = dict(self.vectors)
        for starts, names in map(msgspec.structs.astuple, self.merged):
            ascending = len(starts) > 0 and starts[0] == 0 and all(map(lt, starts, starts[1:]))
            if not ascending or any(lengths.get(whose, 0) <= starts[-1] for _, whose in names):
                raise InputError("a merged vector sums neighbours of a vector, from the first entry to the last")

    @property
    def size(self) -> int:
        """Entries of all vectors together; merged ones are not among them."""
        return sum(map(itemgetter(1), self.vectors))

    @property
    def lengths(self) -> dict[str, int]:
        """Length of each vector, and of merged ones."""
        return dict(self.vectors) | {name: len(own.starts) for own in self.merged for name, _ in own.names}

    def split(self, values: NDArray[Number]) -> dict[str, NDArray[Number]]:
        """Return the vectors, as views, of `values`, shape (…, size); raise ValueError for another shape."""
        if values.shape[-1:] != (self.size,):
            raise ValueError(f"a sketch has {self.size} entries, got shape {values.shape}")
        ends = itertools.accumulate(map(itemgetter(1), self.vectors))
        return {name: values[..., end - length : end] for (name, length), end in zip(self.vectors, ends, strict=True)}

    def only(self, names: Container[str]) -> Sketch:
        """Return the sketch of these vectors alone; where it lacks what a merged one sums, the sums are its entries."""
        kept = [
            MergedVectors(own.starts, tuple([pair for pair in own.names if pair[0] in names and pair[1] in names]))
            for own in self.merged
        ]
        summed = {name for own in kept for name, _ in own.names}
        vectors = [(name, length) for name, length in self.lengths.items() if name in names and name not in summed]
        return Sketch(tuple(vectors), tuple([own for own in kept if own.names]))

    def taken(self, counts: NDArray[np.int64], other: Sketch) -> NDArray[np.int64]:
        """Return the entries, shape (other.size,), of a sketch that `only` has made, of those of this one."""
        if other.vectors == self.vectors and counts.shape == (self.size,):
            return counts  # with one prime, which all are taken modulo
        vectors = self.split(counts)
        for own in self.merged:
            vectors |= {name: np.add.reduceat(vectors[whose], own.starts) for name, whose in own.names}
        return np.concatenate([vectors[name] for name, _ in other.vectors])


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A linear map of one vector, times a weight that is not zero."""

    vector: str
    over: Over = "each"
    weight: int = 1


class Factor(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A sum of parts, or a public vector of constants of 64 bits; totals take any length.

    The entries of a sum of parts may be repeated, for the rows (`repeat`) or columns (`times`) of a table that is laid
    out row by row: each entry so many times, and what comes of that so many times over.
    """

    parts: tuple[Part, ...] = ()
    constants: tuple[int, ...] = ()
    repeat: int = 1
    times: int = 1

    @classmethod
    def each(cls, vectors: Iterable[str]) -> Factor:
        """Return the sum of these vectors, entry by entry."""
        return cls(tuple([Part(vector) for vector in vectors]))

    def length(self, lengths: Mapping[str, int]) -> int | None:
        """Return how many entries it has with vectors of these lengths, None for totals; `InputError` if none fits."""
        if bool(self.parts) == bool(self.constants):
            raise InputError("a factor has either parts or constants")
        for part in self.parts:
            if part.vector not in lengths or part.over not in get_args(Over) or not part.weight:
                raise InputError(f"{part.weight} times {part.over!a} of the vector {part.vector!a} cannot be")
        own = {lengths[part.vector] for part in self.parts if part.over != "total"}
        if min(self.repeat, self.times) < 1 or (self.repeat * self.times > 1 and not own):
            raise InputError("a factor is repeated once at least, and constants and totals are not repeated")
        if len(own) > 1:
            raise _different(own)
        length = own.pop() if own else len(self.constants)
        return length * self.repeat * self.times or None

    @cached_property
    def maps(self) -> list[tuple[Factor, Over, int]]:
        """Return what it adds up: a base, how its entries are added up, and times which number.

        Bases are factors. Those of the same vectors in the same proportions are equal; a total is a base of its own.
        """
        together = defaultdict[tuple[Over, str], list[tuple[str, int]]](list)
        for part in self.parts:
            together[part.over, part.vector * (part.over == "total")].append((part.vector, part.weight))
        maps: list[tuple[Factor, Over, int]] = []
        for (over, total), weighted in together.items():
            weighted.sort()
            lead = weighted[0][1]
            scale = lead if all(weight % lead == 0 for _, weight in weighted) else 1
            own: Over = "total" if total else "each"
            maps.append((Factor(tuple([Part(name, own, weight // scale) for name, weight in weighted])), over, scale))
        return maps


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """The product, summed over entries, of 1 to 3 factors that are no constants, and of constants."""

    factors: tuple[Factor, ...]

    @cached_property
    def powers(self) -> Counter[Factor]:
        """The different factors that are no constants, and how often each is there."""
        return Counter([factor for factor in self.factors if not factor.constants])

    @cached_property
    def degree(self) -> int:
        """How many factors are no constants."""
        return self.powers.total()

    def length(self, lengths: Mapping[str, int]) -> int:
        """Return how many entries are summed, 1 where there are totals alone; `InputError` where factors do not fit."""
        if not 1 <= self.degree <= MOST_FACTORS:
            raise InputError(f"a term has 1 to {MOST_FACTORS} factors that are no constants, got {self.degree}")
        own = {length for factor in self.factors if (length := factor.length(lengths)) is not None}
        if len(own) > 1:
            raise _different(own)
        return own.pop() if own else 1


class Sum(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """A number that is released: the sum of its terms."""

    name: str
    terms: tuple[Term, ...]

    @classmethod
    def product(cls, name: str, *factors: Factor) -> Sum:
        """Return the sum of one product."""
        return cls(name, (Term(factors),))

    @property
    def degree(self) -> int:
        """The largest degree of its terms."""
        degrees = [term.degree for term in self.terms]
        return max(degrees)

    @cached_property
    def bases(self) -> list[Factor]:
        """Return the bases of its products, each once."""
        factors = [factor for term in self.terms if term.degree > 1 for factor in term.factors]
        return list(dict.fromkeys(base for factor in factors for base, _, _ in factor.maps))


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sketch, and the sums that are released of it: at least one, each with a name of its own.

    Raises `InputError` for names that are there twice, and sums that do not fit the sketch, which would be computed
    wrongly; `CapacityError` for more than 2^14 parts and vectors of constants, or more than 2^24 entries of these.
    """

    sketch: Sketch
    sums: tuple[Sum, ...]

    def __post_init__(self) -> None:
        lengths, factors = self.sketch.lengths, self._factors
        names = {total.name for total in self.sums}
        merged = sum(len(own.names) for own in self.sketch.merged)
        if (len(lengths), len(names)) != (len(self.sketch.vectors) + merged, len(self.sums)) or not names:
            raise InputError("a release has a sum at least, and two vectors, or two sums, have different names")
        for total in self.sums:
            if not [term.length(lengths) for term in total.terms]:
                raise InputError(f"sum {total.name!r} has no terms")
        parts = sum(max(len(factor.parts), 1) for factor in factors)
        if parts > MOST_PARTS:
            raise CapacityError(f"all sums together have at most {MOST_PARTS:,} parts and constants, got {parts:,}")
        entries = sum(
            len(factor.constants) + factor.repeat * factor.times * sum(lengths[part.vector] for part in factor.parts)
            for factor in factors
        )
        if entries > MOST_EVALUATED:
            raise CapacityError(f"all sums together evaluate at most {MOST_EVALUATED:,} entries, got {entries:,}")

    def only(self, sums: Sequence[bool]) -> Release:
        """Return the release of some of the sums, and of the vectors that they take."""
        chosen = tuple(itertools.compress(self.sums, sums))
        if len(chosen) == len(self.sums):
            return self
        factors = [factor for total in chosen for term in total.terms for factor in term.factors]
        return Release(self.sketch.only({part.vector for factor in factors for part in factor.parts}), chosen)

    def evaluate(self, values: Residues, modulus: int, *, bases: bool = True) -> dict[Factor, Residues]:
        """Return factors' entries, and those of `bases`, at a sketch, (…, size), modulo a prime of at most 50 bits.

        They have the shape (…, length), or (…, 1) where there are totals alone; of constants (length,).
        """
        if modulus.bit_length() > MOST_MODULUS_BITS:
            raise ValueError(f"only modulo primes of at most {MOST_MODULUS_BITS} bits")
        if values.dtype != np.uint64 or int(values.max(initial=0)) >= modulus:
            raise ValueError("a sketch's entries must be residues modulo the prime")
        vectors, evaluated = self.sketch.split(values), dict[Factor, Residues]()
        for own in self.sketch.merged:
            for name, whose in own.names:
                running = running_sums(vectors[whose], modulus)
                before = np.take(np.insert(running, 0, 0, axis=-1), [*own.starts, running.shape[-1]], axis=-1)
                vectors[name] = modular.subtract(before[..., 1:], before[..., :-1], modulus)
        others = [base for total in self.sums for base in total.bases] if bases else []
        for factor in dict.fromkeys(self._factors + others):
            entries = None if factor.parts else modular.residues(factor.constants, modulus)
            for part in factor.parts:
                mapped = values = vectors[part.vector]
                if part.over != "each":
                    running = running_sums(values, modulus)
                    mapped = running[..., -1:]
                    if part.over == "below":
                        mapped = modular.subtract(running, values, modulus)
                    elif part.over == "above":
                        mapped = modular.subtract(mapped, running, modulus)
                if 1 < part.weight < _LIGHT:
                    mapped = mapped * np.uint64(part.weight) % np.uint64(modulus)
                elif part.weight != 1:
                    mapped = modular.multiply(mapped, np.uint64(part.weight % modulus), modulus)
                entries = mapped if entries is None else modular.add(entries, mapped, modulus)
            assert entries is not None  # noqa: S101 - a factor has parts or constants
            evaluated[factor] = np.tile(np.repeat(entries, factor.repeat, axis=-1), factor.times)
        return evaluated

    def totals(self, values: Residues, modulus: int) -> Residues:
        """Return each sum at sketches, shape (…, size), modulo a prime, shape (…, sums); ValueError as `evaluate`."""
        at, multiply = self.evaluate(values, modulus, bases=False), partial(modular.multiply, modulus=modulus)
        terms = [[reduce(multiply, map(at.__getitem__, term.factors)) for term in total.terms] for total in self.sums]
        products = [np.concatenate(of_sum, axis=-1) for of_sum in terms]
        return np.stack([modular.total(entries, modulus) for entries in products], axis=-1)

    @property
    def _factors(self) -> list[Factor]:
        return [factor for total in self.sums for term in total.terms for factor in term.factors]


def _different(lengths: Iterable[int]) -> InputError:
    return InputError(f"what is added or multiplied has different lengths, {', '.join(map(str, sorted(lengths)))}")


def running_sums(values: Residues, modulus: int) -> Residues:
    """Return Σ_{j≤k} values_j for each k of the last axis, modulo a number of at most 50 bits."""
    sums = np.empty_like(values)
    before: Residues = np.zeros(1, np.uint64)
    for start in range(0, values.shape[-1], _CHUNK):  # as many as fit into 64 bits unreduced
        piece = sums[..., start : start + _CHUNK]
        np.cumsum(values[..., start : start + _CHUNK], axis=-1, out=piece)
        piece += before
        piece %= np.uint64(modulus)
        before = piece[..., -1:]
    return sums
