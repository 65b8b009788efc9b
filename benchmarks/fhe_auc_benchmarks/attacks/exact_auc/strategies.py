"""What a lying aggregator may try against exact sessions, by name.

It sees every padded sketch in the clear, and the pad key, products of the pads encrypted slot by slot. From these it
makes sums: those of any numbers that it puts in the place of the padded sketches' sum, weighted entry by entry, from
one pad key or from several, plus constants. A lie says which (`Claim`). It is played by the same function on real
pad keys (`ciphertexts`) and on the pads in the clear, for many sessions at once (`simulated`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from fhe_auc.bfv import Ciphertext, PublicContext
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.terms import Factor, Release, Sum, Term
from fhe_auc_protocols.exact_auc.auc_sums import vector

_NEGATIVES, _POSITIVES = (vector(0, 0, label) for label in (0, 1))

ALL, FIRST_TWO, OUTER_TWO = (0, 1, 2), (0, 1), (0, 2)
"""Parties of a session in the laboratory; what is not staged takes any number, two at least."""
BIN, WEIGHT = 1, 2**15  # where many are added, and how many: more than the rows of the laboratory have pairs

PadKeyName: TypeAlias = Literal["own", "earlier"]
"""This session's pad key, or an earlier session's."""


class Computed(NamedTuple):
    """One computation on a pad key: `release`, at `pooled` instead of the padded sketches' sum, shape (…, size)."""

    pooled: Residues
    release: Release
    pad_key: PadKeyName = "own"


class Claim(NamedTuple):
    """What is returned: computations added up, plus a constant for each sum, shape (sums,)."""

    computed: tuple[Computed, ...]
    added: Residues


@dataclass(frozen=True)
class ExactView:
    """What the aggregator has in hand, for one prime: padded sketches of shape (…, size), in the parties' order.

    Of the `earlier` session of the same parties too. The pad key takes off the pads of the parties `unpadded`. It
    guesses a count right, `guess`: the positives in the first bin. The generator is for its choices.
    """

    release: Release
    prime: int
    sketches: Sequence[Residues]
    earlier: Sequence[Residues]
    unpadded: Sequence[int]
    guess: int
    generator: np.random.Generator

    def sum_of(self, sketches: Sequence[Residues]) -> Residues:
        """Return the sum of sketches, one at least."""
        return np.asarray(np.sum(sketches, axis=0, dtype=np.uint64) % np.uint64(self.prime))

    @property
    def honest(self) -> Computed:
        """What it should compute."""
        return Computed(self.sum_of([self.sketches[each] for each in self.unpadded]), self.release)

    def shifted(self, vector: str, entry: int, amount: int, of: Computed | None = None) -> Computed:
        """Return the honest computation, or another, with something added to an entry of the pooled sketch."""
        pooled = (of or self.honest).pooled.copy()
        place = self.slice_of(vector).start + entry
        pooled[..., place] = (pooled[..., place] + np.uint64(amount % self.prime)) % np.uint64(self.prime)
        return Computed(pooled, self.release)

    def slice_of(self, vector: str) -> slice:
        """Return where a vector stands in a sketch."""
        names, lengths = zip(*self.release.sketch.vectors, strict=True)
        index = names.index(vector)
        return slice(sum(lengths[:index]), sum(lengths[: index + 1]))

    def which(self, *names: str, z: int | None = None) -> list[int]:
        """Return the indices of the sums of these names, or of all, at this z, or at all."""
        split = [each.name.partition(" at ") for each in self.release.sums]
        return [k for k, (own, _, at) in enumerate(split) if own in (names or (own,)) and z in (None, int(at or 0))]

    def weighted(self, sums: Iterable[int], weight: int, bins: Set[int] | None = None) -> Release:
        """Return the release with these sums multiplied by a weight; or only what such bins put into them."""
        chosen, lengths = frozenset(sums), dict(self.release.sketch.vectors)

        def term(of: Term) -> Term:
            length = of.length(lengths)
            if bins is not None and length != self.bins:
                return of
            weights = tuple(weight if bins is None or each in bins else 1 for each in range(length))
            return Term((*of.factors, Factor(constants=weights)))

        changed = (
            Sum(each.name, tuple(map(term, each.terms))) if index in chosen else each
            for index, each in enumerate(self.release.sums)
        )
        return Release(self.release.sketch, tuple(changed))

    def claim(self, *computed: Computed, added: Mapping[int, int] | None = None) -> Claim:
        """Return a claim with constants for some sums."""
        constants = [(added or {}).get(index, 0) % self.prime for index in self.which()]
        return Claim(computed, np.array(constants, np.uint64))

    def scaled(self, sums: Iterable[int], weight: int, bins: Set[int] | None = None) -> Claim:
        """Return the honest result but for weights, as of `weighted`."""
        return self.claim(self.honest._replace(release=self.weighted(sums, weight, bins)))

    def split(self, sums: Iterable[int], of: Computed, *, added: Mapping[int, int] | None = None) -> Claim:
        """Return some sums of a computation, and all others of the honest one."""
        chosen = frozenset(sums)
        theirs = of._replace(release=self.weighted(set(self.which()) - chosen, 0))
        return self.claim(theirs, self.honest._replace(release=self.weighted(chosen, 0)), added=added)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return self.release.sketch.vectors[0][1]

    def some(self, number: int) -> int:
        """Return one of 0 … number − 1."""
        return int(self.generator.integers(number))

    def few(self) -> int:
        """Return 1, 2 or 3."""
        return 1 + self.some(3)


Lie: TypeAlias = Callable[[ExactView], Claim]
Tamper: TypeAlias = Callable[[PublicContext, Ciphertext, np.random.Generator], Ciphertext]


class ExactStrategy(NamedTuple):
    """One way of lying: what the aggregator does, and what it returns.

    `on_tags` makes sense with authenticators only. What is `staged` takes more than a session has by itself: an earlier
    one, a count, or lists of some of three parties: `unpadded`, for whose pads a helper is asked for the key, and
    who are added up; `claimed`, whom the aggregator names to the parties. `tamper` changes the ciphertext at last.
    """

    description: str
    play: Lie
    on_tags: bool = False
    staged: bool = False
    unpadded: tuple[int, ...] = ALL
    claimed: tuple[int, ...] = ALL
    tamper: Tamper | None = None

    @property
    def on_lists(self) -> bool:
        """Whether it takes a helper: a key holder makes a pad key for all parties."""
        return not self.unpadded == self.claimed == ALL


def _honest(view: ExactView) -> Claim:
    return view.claim(view.honest)


def _scale(weight: int, *names: str) -> Lie:
    return lambda view: view.scaled(view.which(*names), weight)


def _leave_out(view: ExactView) -> Claim:
    bins = view.generator.choice(view.bins, min(view.few(), view.bins), replace=False)
    return view.scaled(view.which(), 0, set(bins.tolist()))


def _forge(name: str, z: int | None) -> Lie:
    """Add a small constant to a sum's value at z, or to all of its values."""
    return lambda view: view.claim(view.honest, added=dict.fromkeys(view.which(name, z=z), view.few()))


def _guess_point(view: ExactView) -> Claim:
    """Add c·(z − r_1)·(z − r_2) to the difference: another polynomial, that agrees at two places.

    With cubic sums c·(z − r_1)·(z − r_2)·(z − r_3) to one of these. Nobody does better, whatever he sees: different
    polynomials of a degree agree no more often, and nothing says at which values the point is rather than at others.
    """
    values = view.which("Q10") or view.which("difference")
    drawn = view.generator.choice(view.prime - 1, len(values) - 1, replace=False, shuffle=False)
    c, roots = view.few(), [int(each) + 1 for each in drawn]
    added = {index: c * math.prod(z - root for root in roots) for z, index in enumerate(values)}
    return view.claim(view.honest, added=added)


def _constants(**numbers: int) -> Lie:
    """Return constants alone: for each sum a number that does not depend on z, or zero."""
    return lambda view: view.claim(added={each: numbers[name] for name in numbers for each in view.which(name)})


def _add_many(view: ExactView) -> Claim:
    """No rows have signed sums as large as half of the prime."""
    impossible = dict.fromkeys(view.which("M0"), view.prime // 2)
    return view.claim(view.shifted(_POSITIVES, BIN, WEIGHT), added=impossible)


def _shift(vector: str, z: int | None = None) -> Lie:
    """Add something to one entry of a vector, at this z only or at all."""

    def lie(view: ExactView) -> Claim:
        part = view.slice_of(vector)
        return view.split(view.which(z=z), view.shifted(vector, view.some(part.stop - part.start), view.few()))

    return lie


def _shift_and_guess(view: ExactView) -> Claim:
    entry, amount, point = view.some(view.bins), view.few(), 1 + view.some(view.prime - 1)
    of_tag = -amount * pow(point, -1, view.prime)
    return view.claim(view.shifted(_POSITIVES + "'", entry, of_tag, view.shifted(_POSITIVES, entry, amount)))


def _guess_count(miss: int) -> Lie:
    """Add c·(a count − the guess) to the ties at z = 0; the guess is too large by `miss`."""

    def lie(view: ExactView) -> Claim:
        c, at_zero = view.few(), view.which("ties", z=0)
        changed = view.shifted(_NEGATIVES, 0, c)  # adds c times the positives of the first bin
        return view.split(at_zero, changed, added=dict.fromkeys(at_zero, -c * (view.guess + miss)))

    return lie


def _swap_labels(view: ExactView) -> Claim:
    pooled, changed = view.honest.pooled, view.honest.pooled
    for end in ("", "'") if view.which(z=1) else ("",):
        one, other = view.slice_of(_POSITIVES + end), view.slice_of(_NEGATIVES + end)
        changed[..., one], changed[..., other] = pooled[..., other], pooled[..., one]
    return view.claim(Computed(changed, view.release))


def _replaced(made: Callable[[ExactView, int], Residues]) -> Lie:
    """Put something else in the place of a party's submission."""

    def lie(view: ExactView) -> Claim:
        party, sketches = view.some(len(view.sketches)), list(view.sketches)
        sketches[party] = made(view, party)
        return view.claim(Computed(view.sum_of(sketches), view.release))

    return lie


def _moved_on(view: ExactView, party: int) -> Residues:
    found, part = view.sketches[party].copy(), view.slice_of(_POSITIVES)
    found[..., part] = np.roll(found[..., part], 1, axis=-1)
    return found


def _earlier(view: ExactView) -> Computed:
    return Computed(view.sum_of(view.earlier), view.release, "earlier")


def _spend_noise(public: PublicContext, result: Ciphertext, generator: np.random.Generator) -> Ciphertext:
    """Multiply by random numbers and divide by them again: nothing changes but the noise."""
    prime = public.parameters.plain_moduli[result.prime]
    for _ in range(2):
        weights = generator.integers(1, prime, public.parameters.slots, np.uint64)
        result = public.multiply_values(public.multiply_values(result, weights), modular.inverse(weights, prime))
    return result


def _flip(public: PublicContext, result: Ciphertext, generator: np.random.Generator) -> Ciphertext:
    words = result.words.copy()
    words[tuple(generator.integers(0, words.shape))] ^= np.uint64(1 << int(generator.integers(20)))
    return Ciphertext(result.prime, words)


STRATEGIES: Mapping[str, ExactStrategy] = {
    "negate-difference": ExactStrategy("return minus the difference: one minus the AUC", _scale(-1, "difference")),
    "zero-ties": ExactStrategy("return no ties: a half-width of zero", _scale(0, "ties")),
    "scale-all": ExactStrategy("multiply all sums by 2", _scale(2)),
    "scale-value": ExactStrategy(
        "multiply one value by a constant",
        lambda view: view.scaled([view.some(len(view.release.sums))], 2 + view.some(2**40 - 2)),
    ),
    "leave-out-bins": ExactStrategy("leave some bins out of difference and ties", _leave_out),
    "forge-difference": ExactStrategy("add a constant to the difference at z = 0", _forge("difference", 0)),
    "forge-positives": ExactStrategy("add a constant to P at z = 0", _forge("P", 0)),
    "forge-all-z": ExactStrategy("add a constant to the difference, the same at all z", _forge("difference", None)),
    "forge-at-1": ExactStrategy("add a constant to the difference at z = 1", _forge("difference", 1), on_tags=True),
    "forge-at-2": ExactStrategy("add a constant to the ties at z = 2", _forge("ties", 2), on_tags=True),
    "guess-point": ExactStrategy("add a polynomial whose roots are guesses at the point", _guess_point, on_tags=True),
    "chosen-values": ExactStrategy(
        "return random numbers", lambda view: view.claim(added={each: view.some(view.prime) for each in view.which()})
    ),
    "plausible-values": ExactStrategy(
        "return chosen sums, computed without the submissions", _constants(difference=80, ties=5, P=10, N=10)
    ),
    "zeros": ExactStrategy("return zeros, as if there were no rows", _constants()),
    "add-positives": ExactStrategy("add positives to a bin", _shift(_POSITIVES)),
    "add-negatives": ExactStrategy("add negatives to a bin", _shift(_NEGATIVES)),
    "add-many": ExactStrategy("add 2^15 positives, and have all ties count as merged", _add_many),
    "add-at-0": ExactStrategy("add positives to a bin at z = 0 only", _shift(_POSITIVES, 0), on_tags=True),
    "add-to-tags": ExactStrategy("add a constant to a tag", _shift(_POSITIVES + "'"), on_tags=True),
    "add-to-blinders": ExactStrategy("add a constant to a blinder", _shift("blinders of ties"), on_tags=True),
    "add-and-guess": ExactStrategy("add positives, and to the tag by a guessed point", _shift_and_guess, on_tags=True),
    "guess-right": ExactStrategy(
        "add c·(count − guess) to the ties at z = 0, rightly: a verdict would tell it", _guess_count(0), staged=True
    ),
    "guess-wrong": ExactStrategy("the same with a guess that is wrong by one", _guess_count(1), staged=True),
    "swap-labels": ExactStrategy("exchange padded positives and negatives", _swap_labels),
    "swap-entries": ExactStrategy("move a party's padded positives on by a bin", _replaced(_moved_on)),
    "swap-parties": ExactStrategy(
        "exchange parties' submissions (changes nothing)",
        lambda view: view.claim(Computed(view.sum_of(view.sketches[::-1]), view.release)),
    ),
    "drop-party": ExactStrategy("leave out a submission", _replaced(lambda view, k: np.zeros_like(view.sketches[k]))),
    "count-twice": ExactStrategy(
        "add a submission twice", _replaced(lambda view, k: view.sum_of([view.sketches[k]] * 2))
    ),
    "copy-party": ExactStrategy("replace a submission by another", _replaced(lambda view, k: view.sketches[k - 1])),
    "replay-session": ExactStrategy("replay an earlier one", _replaced(lambda view, k: view.earlier[k]), staged=True),
    "old-pad-key": ExactStrategy(
        "use an earlier pad key", lambda view: view.claim(view.honest._replace(pad_key="earlier")), staged=True
    ),
    "earlier-result": ExactStrategy("return an earlier result", lambda view: view.claim(_earlier(view)), staged=True),
    "mix-results": ExactStrategy(
        "return P and N of an earlier result",
        lambda view: view.split(view.which("P", "N"), _earlier(view)),
        staged=True,
    ),
    "average-results": ExactStrategy(
        "return twice this result, minus an earlier one",
        lambda view: view.claim(
            view.honest._replace(release=view.weighted(view.which(), 2)),
            _earlier(view)._replace(release=view.weighted(view.which(), -1)),
        ),
        staged=True,
    ),
    "claim-more": ExactStrategy("add up two parties, and name three", _honest, staged=True, unpadded=FIRST_TWO),
    "claim-fewer": ExactStrategy("add up three parties, and name two", _honest, staged=True, claimed=FIRST_TWO),
    "claim-others": ExactStrategy(
        "add up two, name other two", _honest, staged=True, unpadded=FIRST_TWO, claimed=OUTER_TWO
    ),
    "spend-noise": ExactStrategy("make the noise so large that decryption fails", _honest, tamper=_spend_noise),
    "flip-bytes": ExactStrategy("change a number of the encrypted result", _honest, tamper=_flip),
}
"""By name."""

DESCRIPTIONS: Mapping[str, str] = {name: strategy.description for name, strategy in STRATEGIES.items()}
"""What the aggregator does, by name."""
