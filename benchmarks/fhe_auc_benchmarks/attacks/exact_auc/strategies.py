"""What a lying aggregator may try against exact sessions, by name.

It sees every padded sketch in the clear, and the pad key, products of the pads encrypted slot by slot. From these it
makes sums: those of any numbers that it puts in the place of the padded sketches' sum, each times a weight, under the
pad key, plus constants. A lie says which (`Claim`), for each prime.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np

from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Release
from fhe_auc_protocols.exact_auc.auc_sums import counts_name, merged_name

_NEGATIVES, _POSITIVES = (counts_name(0, 0, label) for label in (0, 1))

BIN, WEIGHT = 1, 2**15  # where many are added, and how many: more than the rows of the laboratory have pairs


class Computed(NamedTuple):
    """The sums at `pooled`, shape (size,), in place of the padded sketches' sum, each times a weight, 1 if none is."""

    pooled: Residues
    weights: Mapping[int, int] = MappingProxyType({})


class Claim(NamedTuple):
    """What is returned: computations added up, and constants added to some sums, by index."""

    computed: tuple[Computed, ...] = ()
    added: Mapping[int, int] = MappingProxyType({})

    def constants(self, of: "View") -> Residues:
        """Return what is added to each sum, shape (sums,)."""
        return modular.residues([self.added.get(index, 0) % of.prime for index in of.which()], of.prime)


class View(NamedTuple):
    """What the aggregator has in hand, for one prime: padded sketches, shape (size,), in the parties' order.

    It guesses a count right, `guess`: the positives in the first bin. The generator is for its choices.
    """

    release: Release
    prime: int
    sketches: Sequence[Residues]
    guess: int
    generator: np.random.Generator

    def sum_of(self, sketches: Sequence[Residues]) -> Computed:
        """Return the sums of these sketches, one at least."""
        return Computed(modular.total(np.array(sketches), self.prime, axis=0))

    @property
    def honest(self) -> Computed:
        """What it should compute."""
        return self.sum_of(self.sketches)

    def slice_of(self, vector: str) -> slice:
        """Return where a vector stands in a sketch."""
        names, lengths = zip(*self.release.sketch.vectors, strict=True)
        own = vector.rstrip("'")  # of later primes there are merged bins alone
        index = names.index(vector if vector in names else vector.replace(own, merged_name(own)))
        return slice(sum(lengths[:index]), sum(lengths[: index + 1]))

    def shifted(self, vector: str, entry: int, amount: int, of: Computed | None = None) -> Computed:
        """Return the honest computation, or another, with something added to an entry of the pooled sketch."""
        pooled, place = (of or self.honest).pooled.copy(), self.slice_of(vector).start + entry
        pooled[place] = (int(pooled[place]) + amount) % self.prime
        return Computed(pooled)

    def which(self, *names: str, z: int | None = None) -> list[int]:
        """Return the indices of the sums of these names, or of all, at this z, or at all."""
        split = [each.name.partition(" at ") for each in self.release.sums]
        return [k for k, (own, _, at) in enumerate(split) if own in (names or (own,)) and z in (None, int(at or 0))]

    def random_sketch(self) -> Residues:
        """Return what any sketch is under a pad that the pad key does not take off."""
        return self.generator.integers(0, self.prime, self.release.sketch.size, np.uint64)

    def some(self, number: int) -> int:
        """Return one of 0 … number − 1."""
        return int(self.generator.integers(number))

    def few(self) -> int:
        """Return 1, 2 or 3."""
        return 1 + self.some(3)


Tell: TypeAlias = Callable[[View], Claim]


class Strategy(NamedTuple):
    """One way of lying: what the aggregator does, and what it returns.

    `exact` accepts it where it `passes`; where it is `harmless` the result is right. `on_tags` makes sense with
    authenticators only. What is `staged` takes a count that nobody who lies has.
    """

    what: str
    tell: Tell
    passes: bool = False
    harmless: bool = False
    on_tags: bool = False
    staged: bool = False


def honest(view: View) -> Claim:
    """Return what is right."""
    return Claim((view.honest,))


def _scale(weight: int, *names: str) -> Tell:
    return lambda view: Claim((view.honest._replace(weights=dict.fromkeys(view.which(*names), weight)),))


def _forge(z: int) -> Tell:
    """Add a small constant to the difference's value at z."""
    return lambda view: Claim((view.honest,), dict.fromkeys(view.which("difference", z=z), view.few()))


def guessed_polynomial(degree: int, prime: int, generator: np.random.Generator) -> list[int]:
    """Return at z = 0 … degree a polynomial that is zero at as many guesses at the point.

    Nobody does better, whatever he sees: different polynomials of a degree agree no more often, and nothing says at
    which values the point is rather than at others.
    """
    roots = [int(each) + 1 for each in generator.choice(prime - 1, degree, replace=False, shuffle=False)]
    factor = 1 + int(generator.integers(3))
    return [factor * math.prod(z - root for root in roots) for z in range(degree + 1)]


def _guess_point(view: View) -> Claim:
    values = view.which("Q10") or view.which("difference")
    polynomial = guessed_polynomial(len(values) - 1, view.prime, view.generator)
    return Claim((view.honest,), dict(zip(values, polynomial, strict=True)))


def _constants(**numbers: int) -> Tell:
    """Return constants alone: for each sum a number that does not depend on z, or zero."""
    return lambda view: Claim(added={each: numbers[name] for name in numbers for each in view.which(name)})


def _add_many(view: View) -> Claim:
    """No rows have signed sums as large as half of the prime."""
    return Claim((view.shifted(_POSITIVES, BIN, WEIGHT),), dict.fromkeys(view.which("M0"), view.prime // 2))


def _shift(vector: str) -> Tell:
    """Add something to one entry of a vector."""

    def lie(view: View) -> Claim:
        part = view.slice_of(vector)
        return Claim((view.shifted(vector, view.some(part.stop - part.start), view.few()),))

    return lie


def _shift_and_guess(view: View) -> Claim:
    bins = view.slice_of(_POSITIVES)
    entry, amount, point = view.some(bins.stop - bins.start), view.few(), 1 + view.some(view.prime - 1)
    of_tag = -amount * pow(point, -1, view.prime)
    return Claim((view.shifted(_POSITIVES + "'", entry, of_tag, view.shifted(_POSITIVES, entry, amount)),))


def _guess_count(miss: int) -> Tell:
    """Add c·(a count − the guess) to the ties at z = 0; the guess is too large by `miss`."""

    def lie(view: View) -> Claim:
        c, at_zero = view.few(), view.which("ties", z=0)
        changed = view.shifted(_NEGATIVES, 0, c)  # adds c times the positives of the first bin
        others = dict.fromkeys(set(view.which()) - set(at_zero), 0)
        rest = view.honest._replace(weights=dict.fromkeys(at_zero, 0))
        added = dict.fromkeys(at_zero, -c * (view.guess + miss))
        return Claim((changed._replace(weights=others), rest), added)

    return lie


def _swap_labels(view: View) -> Claim:
    pooled, changed = view.honest.pooled, view.honest.pooled
    for end in ("", "'") if view.which(z=1) else ("",):
        one, other = view.slice_of(_POSITIVES + end), view.slice_of(_NEGATIVES + end)
        changed[one], changed[other] = pooled[other], pooled[one]
    return Claim((Computed(changed),))


def _replaced(made: Callable[[View, int], Residues]) -> Tell:
    """Put something else in the place of a party's submission."""

    def lie(view: View) -> Claim:
        party, sketches = view.some(len(view.sketches)), list(view.sketches)
        sketches[party] = made(view, party)
        return Claim((view.sum_of(sketches),))

    return lie


STRATEGIES: Mapping[str, Strategy] = {
    "negate-difference": Strategy("return minus the difference: one minus the AUC", _scale(-1, "difference"), True),
    "zero-ties": Strategy("return no ties: a half-width of zero", _scale(0, "ties"), True),
    "scale-all": Strategy("multiply all sums by 2", _scale(2), True),
    "forge-difference": Strategy("add a constant to the difference at z = 0", _forge(0), True),
    "forge-at-1": Strategy("add a constant to the difference at z = 1", _forge(1), on_tags=True),
    "guess-point": Strategy("add a polynomial whose roots are guesses at the point", _guess_point, on_tags=True),
    "chosen-values": Strategy(
        "return random numbers", lambda view: Claim(added={each: view.some(view.prime) for each in view.which()})
    ),
    "plausible-values": Strategy(
        "return chosen sums, computed without the submissions", _constants(difference=80, ties=5, P=10, N=10), True
    ),
    "zeros": Strategy("return zeros, as if there were no rows", _constants(), True),
    "add-positives": Strategy("add positives to a bin", _shift(_POSITIVES), True),
    "add-many": Strategy("add 2^15 positives, and have all ties count as merged", _add_many),
    "add-to-tags": Strategy("add a constant to a tag", _shift(_POSITIVES + "'"), on_tags=True),
    "add-and-guess": Strategy("add positives, and to the tag by a guessed point", _shift_and_guess, on_tags=True),
    "guess-right": Strategy(
        "add c·(count − guess) to the ties at z = 0, rightly: a verdict would tell it", _guess_count(0),
        harmless=True, staged=True,
    ),
    "guess-wrong": Strategy("the same with a guess that is wrong by one", _guess_count(1), staged=True),
    "swap-labels": Strategy("exchange padded positives and negatives", _swap_labels),
    "swap-parties": Strategy(
        "exchange parties' submissions (changes nothing)", lambda view: Claim((view.sum_of(view.sketches[::-1]),)),
        harmless=True,
    ),
    "drop-party": Strategy("leave out a submission", _replaced(lambda view, k: np.zeros_like(view.sketches[k]))),
    "count-twice": Strategy(
        "add a submission twice", _replaced(lambda view, k: view.sum_of([view.sketches[k]] * 2).pooled)
    ),
    "replay-session": Strategy(
        "replace a submission by an earlier one, under another pad", _replaced(lambda view, k: view.random_sketch())
    ),
}  # fmt: skip
"""By name."""
