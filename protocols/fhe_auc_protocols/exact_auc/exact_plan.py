"""The plan of an exact AUC as it stands in a manifest: what is released, its parameters, and what they say to people.

Integers are released, each modulo the first few of the plaintext primes: as many as tell the values that it can take
apart (`AnalysisSums.ranges`). So a prime has sums of its own, and of a sketch the vectors that these take: with an
interval, only the cubic sums need a second one, and only merged bins have counts modulo it. Every prime is above
d·2^40, d the largest degree of a sum: a lie on one result then passes with a chance of at most d/(t − 1), below 2^-40.

The aggregator multiplies plaintexts by ciphertexts of a pad key (`fhe_auc.sums`). What the circuit's noise is (X), what
flooding (2^b) adds to it, what switching down does, and when all of it hides and decrypts: docs/security/encryption.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain, islice
from operator import mul
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base import quantities
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.bfv.parameters import BfvParameters, flooding_margin
from fhe_auc.input_proofs.sessions import proof_bytes
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import Analysis
from fhe_auc.question.score_bins import starts_of
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import packed_size
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import plan as plans
from fhe_auc.session.plan import Keys, Parameter, Terms
from fhe_auc.sums.layout import Layout
from fhe_auc.sums.proof import authenticated
from fhe_auc.sums.terms import Release, Sketch
from fhe_auc_protocols.exact_auc.auc_sums import EXACTLY, VARIANCE_BINS, AucSums, Coarse, picked
from fhe_auc_protocols.exact_auc.cluster_sums import ClusterSums
from fhe_auc_protocols.exact_auc.comparison_sums import ComparisonSums
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from fhe_auc_protocols.exact_auc.epsilon_sums import NoisySums
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts, RowCaps
from fhe_auc_protocols.exact_auc.release_part import Agreed, Counts, Range, Reading, ReleasePart, Rows, most_units
from fhe_auc_protocols.exact_auc.site_sums import SiteSums
from fhe_auc_protocols.exact_auc.tie_sums import TieSums

NO_WEIGHTS = "epsilon: weights do not go with noise, which is sized for rows that count once"
_MOST_SQUARED = 2**54  # units that squares of weights add up to: times 16², sums of a party have 64 bits
MOST_PROVED = 2**50 - 2**30  # values of a sum modulo the one prime of proved counts: a prime is above it
SOUNDNESS_BITS = 40  # a wrong integer of one result is accepted with a probability below 2^-40
LEAST_FLOODING_BITS, MOST_FLOODING_BITS = 40, 80


@dataclass(frozen=True)
class AnalysisSums:
    """The sums of an analysis over `bins` bins.

    With `interval` those of standard errors are among them, and of comparisons. `runs` says which bins can hold one
    score only (`tie_sums`), None that all ties may be those of bins. `proved` counts are all of one sign. With
    `privacy` there are only the numbers of its channels, with noise.
    """

    analysis: Analysis
    bins: int
    interval: bool
    privacy: Privacy | None = None
    runs: tuple[int, ...] | None = None
    proved: bool = False
    variance_bins: int = VARIANCE_BINS
    coarse: Coarse = EXACTLY

    @property
    def parts(self) -> tuple[ReleasePart, ...]:
        """All that there are; those of vectors that add up over rows come first."""
        return self._made[0]

    @property
    def aucs(self) -> AucSums:
        """Those of AUCs, which are the first part."""
        return self._made[1]

    def for_rows(self, max_rows: int, parties: int) -> AnalysisSums:
        """Return sums of so many pooled rows: those of weights as coarse as it takes, where counts are proved."""
        if self.analysis.units is None or not (self.proved and self.interval):
            return self
        powers = range(max(1, (self.analysis.units.per // 3).bit_length()))  # up to a third of a row's weight of 1
        found = (replace(self, coarse=Coarse(2**own, 4 ** (own + 1) if own else 1)) for own in powers)
        return next((own for own in found if own.least_modulus(max_rows, parties) < MOST_PROVED), self)

    @property
    def signs(self) -> TieSums:
        """The sums that tell which ties are meant; none have noise."""
        return self._made[2]

    @cached_property
    def _made(self) -> tuple[tuple[ReleasePart, ...], AucSums, TieSums]:
        analysis, bins, pairs = self.analysis, self.bins, self.analysis.comparisons
        # A difference of models has a far smaller variance, of which merging might hide much.
        variance_bins = bins if pairs else self.variance_bins
        least = 16 if self.interval else 1  # without one, as in a fleet, records are small
        ties = TieSums(analysis, self.runs, bins, 0, least, self.proved)
        aucs = AucSums(analysis, bins, self.interval, ties.wide, variance_bins=variance_bins, coarse=self.coarse)
        heaviest = analysis.units.most if analysis.units else 0
        compared = ComparisonSums(pairs, bins, self.interval, heaviest) if pairs else None
        ties = replace(ties, counts=sum(length for part in (aucs, compared) if part for _, length in part.vectors))
        if self.privacy is not None:
            noisy = NoisySums(self.privacy, picked(ties.wide), ties_meant=not ties.wide.any())
            return (replace(aucs, released=False), noisy), aucs, replace(ties, runs=None)
        parts: list[ReleasePart] = [aucs, ties]
        if compared is not None:
            parts = [replace(aucs, alike=compared.crowded(~ties.wide)), compared, ties]
        if analysis.heterogeneity:
            parts.append(SiteSums(len(analysis.models)))
        if analysis.cluster:
            parts.append(ClusterSums(analysis, bins))
        return tuple(parts), aucs, ties

    @cached_property
    def release(self) -> Release:
        """What is released, of which sketch; raise `InputError` or `CapacityError` where it is too much for one."""
        vectors, merged, sums = ([getattr(part, of) for part in self.parts] for of in ("vectors", "merged", "sums"))
        return Release(Sketch(tuple(chain(*vectors)), tuple(chain(*merged))), tuple(chain(*sums)))

    def ranges(self, max_rows: int, parties: int = 1) -> list[Range | None]:
        """Return the range of each sum of so many pooled rows; None for one that takes all the room there is.

        Rows themselves are counted further, up to as many of each of the `parties`: so that it is certain which sums
        are those of more rows. With weights, parts are asked for so many units.
        """
        most = most_units(self.analysis, max_rows)
        return [own for part in self.parts for own in part.ranges(most, parties)]

    def least_modulus(self, max_rows: int, parties: int = 1) -> int:
        """Return how many values a sum can take, the most of any."""
        return max(most - least + 1 for least, most in filter(None, self.ranges(max_rows, parties)))

    def primes_of(self, primes: Sequence[int], max_rows: int, parties: int) -> list[int]:
        """Return modulo how many of these primes each sum is known; of none that tell its values apart: one more."""
        products, ranges = [*accumulate(primes, mul)], self.ranges(max_rows, parties)
        return [len(primes) if own is None else 1 + bisect_left(products, own[1] - own[0] + 1) for own in ranges]

    def sketch(
        self, data: PartyData, thresholds: NDArray[np.float64], max_rows: int, modulus: int, session: bytes = b""
    ) -> Counts:
        """Return a party's sketch, (release.sketch.size,), of sums modulo T; `InputError`: another analysis's rows.

        Signs are those of this session (`tie_sums`).
        """
        wanted = len(self.analysis.models), len(self.analysis.by)
        if (len(data.scores), len(data.groups)) != wanted:
            raise InputError(
                f"party {data.name!r} has {len(data.scores)} columns of scores and {len(data.groups)} of groups, the "
                f"session {wanted[0]} and {wanted[1]}"
            )
        if self.analysis.units is None:
            data = replace(data, weights=None)
        classes = self.analysis.classes_of_rows
        rows = Rows(data, *_bins_at(np.asarray(thresholds, "<f8").tobytes()), session, classes)
        counted: Counts = np.zeros(1, np.int64)
        for batch in data.batches():
            own = replace(rows, data=batch)
            counted = counted + np.concatenate([vector for part in self.parts for vector in part.of_rows(own)])
        of_cells = len(self.analysis.models), len(self.analysis.groups) * classes, self.bins
        counts = counted[: math.prod(of_cells)].reshape(of_cells)[:, :classes]  # of all rows, which come first
        counted = self.aucs.rounded(counted)
        others = [vector for part in self.parts for vector in part.of_party(rows, counts, max_rows, modulus)]
        return np.concatenate([counted, *others])

    def read_sums(self, integers: Sequence[int], reading: Reading) -> None:
        """Read what a result says, part by part.

        Raises `ResultCheckError` where they cannot be those of at most `max_rows` rows; of how many, it says where that
        can be: none of the `parties` has more.
        """
        given = iter(integers)
        for part in self.parts:
            part.read_sums(list(islice(given, len(part.sums))), reading)


@lru_cache(maxsize=4)  # in one process, many parties count at the same thresholds
def _bins_at(thresholds: bytes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the thresholds of these bytes, checked, and where each one's bin begins."""
    grid = grids.explicit(np.frombuffer(thresholds, "<f8"))
    return grid, starts_of(grid)


def least_prime(release: Release) -> int:
    """Return what every plaintext prime is above, so that the authenticators are as sound as `SOUNDNESS_BITS` says."""
    return max(total.degree for total in release.sums) << SOUNDNESS_BITS


class ExactPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """All that parties and aggregator agree on, in public; it comes from whoever wrote the manifest.

    Raises `CapacityError`: the parts do not fit together, or would not hide or verify what they must; `InputError`:
    more or something else is released than an AUC.
    """

    kind: ClassVar[str] = "exact sums"

    analysis: Analysis  # what is estimated
    thresholds: int  # points of the session's grid, at least 2
    interval: bool  # whether the sums for standard errors are released too
    authenticated: bool  # whether sketches have authenticators, so that results are verified
    parties: int  # most that submit, at least 1
    max_rows: int  # public bound n on the pooled rows: at least 2
    parameters: BfvParameters  # their plaintext moduli are primes above `least_prime`, as many as the sums need
    kept: int  # primes of Q that results are switched down to
    flooding_bits: int  # λ, 40 to 80: flooding hides but for a statistical distance of 2^-λ, for each prime
    runs: tuple[int, ...] | None = None
    """Which bins can hold one score only (`tie_sums.runs_of`); None: all ties may be those of bins."""
    privacy: Privacy | None = None
    """The budget, where what is released is noisy; `authenticated` then, `caps` its rows, without the other sums."""
    helpers: int = 0  # 1 where a helper has the key in place of the parties, else 0
    variance_bins: int = VARIANCE_BINS  # most bins that the sums of standard errors are over
    caps: tuple[int, ...] = ()
    """Where parties prove their counts, the row cap of each, in the manifest's order; a fleet's devices have one for
    all. With a helper and one prime only. Empty: nothing is proved of what parties put in."""

    def __post_init__(self) -> None:
        if self.helpers not in (0, 1):
            raise CapacityError(f"a session has one helper, or none; got {self.helpers}")
        agreed = Agreed(**{name: getattr(self, name) for name in Agreed._fields})
        for part in self.parts:
            part.check_plan(agreed)
        if self.proved is not None:
            _ = self.proved.statement  # raises where the prime is too small for that
        if self.analysis.follow_up and not self.analysis.at:
            raise InputError("AUCs of follow-up times are at one horizon, once the censoring curve is known")
        if self.analysis.units is not None:
            if self.privacy is not None:
                raise InputError(NO_WEIGHTS)
            if most_units(self.analysis, self.max_rows) * self.analysis.units.most >= _MOST_SQUARED:
                raise CapacityError("weights are too large for so many rows: take wider steps, or a lower bound of one")
        bounds = ("parties", self.parties, 1), ("max_rows", self.max_rows, 2), ("variance_bins", self.variance_bins, 2)
        for name, number, least in bounds:
            if number < least:
                raise CapacityError(f"{name} must be at least {least}, got {number}")
        moduli = self.parameters.plain_moduli
        least = least_prime(self.release)
        if min(moduli) < least:
            raise CapacityError(f"the plan has a prime below {least:,}")
        if max(self._primes_of) != len(moduli):
            few = "few" if max(self._primes_of) > len(moduli) else "many"
            raise CapacityError(f"{len(moduli)} primes are too {few} for {self.max_rows:,} pooled rows")
        _ = self.computed, self.layouts  # which are kept, one after the other
        total = len(self.parameters.modulus_bits)
        if not 1 <= self.kept <= total:
            raise CapacityError(f"of {total} primes of the modulus, a result cannot keep {self.kept}")
        least, most = LEAST_FLOODING_BITS, MOST_FLOODING_BITS
        if not least <= self.flooding_bits <= most:
            raise CapacityError(f"flooding_bits must lie between {least} and {most}, got {self.flooding_bits}")
        if (margin := self.flooding_margin) < self.flooding_bits:
            raise CapacityError(
                f"{self.products:,} products make so much noise that flooding hides it by {margin:.1f} bits "
                f"only, {self.flooding_bits} are asked for; take fewer thresholds"
            )

    @cached_property
    def parts(self) -> tuple[ReleasePart, ...]:
        """What the release is made of, with the row caps that are proved."""
        return self.sums.parts if not self.caps else (*self.sums.parts, RowCaps(self.caps, self.analysis))

    @property
    def keys(self) -> Keys:
        """Who makes the keys: "sealed" or "helper"."""
        return "helper" if self.helpers else "sealed"

    @cached_property
    def modulus(self) -> int:
        """T, the product of the plaintext primes."""
        return math.prod(self.parameters.plain_moduli)

    @property
    def primes(self) -> int:
        """How many plaintext primes there are."""
        return len(self.parameters.plain_moduli)

    @cached_property
    def sums(self) -> AnalysisSums:
        """What is released, and how it is read."""
        proved, asked = bool(self.caps), (self.analysis, self.thresholds, self.interval)
        sums = AnalysisSums(*asked, self.privacy, self.runs, proved, self.variance_bins)
        return sums.for_rows(self.max_rows, self.parties)

    @property
    def release(self) -> Release:
        """What is released, and of which sketch; without authenticators."""
        return self.sums.release

    @cached_property
    def _primes_of(self) -> list[int]:
        return self.sums.primes_of(self.parameters.plain_moduli, self.max_rows, self.parties)

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """What is released modulo each prime, without authenticators."""
        return tuple([self.release.only([own > prime for own in self._primes_of]) for prime in range(self.primes)])

    @cached_property
    def computed(self) -> tuple[Release, ...]:
        """What the aggregator computes modulo each prime: what is released, or the same with authenticators."""
        return tuple(map(authenticated, self.releases)) if self.authenticated else self.releases

    def integers(self, totals: Sequence[Residues]) -> list[int]:
        """Return the integers of what is released modulo each prime, shape (sums,) of its release.

        Those that can be negative lie around zero.
        """
        known = [iter(own.tolist()) for own in totals]
        integers = []
        for own, count in zip(self.sums.ranges(self.max_rows, self.parties), self._primes_of, strict=True):
            primes = self.parameters.plain_moduli[:count]
            (integer,) = modular.centred([np.array([next(of)], np.uint64) for of in known[:count]], primes)
            integers.append(integer if own is None or own[0] < 0 else integer % math.prod(primes))
        return integers

    @cached_property
    def proved(self) -> ProvedCounts | None:
        """How counts are submitted and proved; None where they are not."""
        if not self.caps:
            return None
        (prime,) = self.parameters.plain_moduli
        aucs, size = self.sums.aucs, self.computed[0].sketch.size
        asked = self.analysis, self.thresholds, max(self.caps), prime, size, self.sums.signs
        return ProvedCounts(*asked, aucs.starts if aucs.interval else None, aucs.coarse)

    def cap_of(self, index: int) -> int:
        """Return the row cap of the party with this index, where counts are proved."""
        return self.caps[index if len(self.caps) > 1 else 0]

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """Where each prime's sums stand in its result's slots."""
        return tuple([Layout.of(computed, self.parameters.slots) for computed in self.computed])

    @property
    def results(self) -> int:
        """Ciphertexts of a result: one for each layer of each prime's."""
        return sum(layout.layers for layout in self.layouts)

    @property
    def products(self) -> int:
        """Most ciphertexts of the pad key that make a result."""
        return max(layout.ciphertexts for layout in self.layouts)

    @cached_property
    def flooding_margin(self) -> float:
        """λ that flooding reaches, at least `flooding_bits`."""
        return flooding_margin(self.parameters, self.products, self.kept)

    @property
    def soundness(self) -> float | None:
        """A bound on the chance that any party accepts a wrong integer; None where results are not verified.

        With a helper nobody compares what it was given, and each party may be given another result.
        """
        if not self.authenticated:
            return None
        results = self.parties if self.helpers else 1
        return results * max(total.degree for total in self.release.sums) / (min(self.parameters.plain_moduli) - 1)

    @property
    def sizes(self) -> list[int]:
        """Residues that a party submits modulo each prime."""
        return [own.sketch.size for own in self.computed] if self.proved is None else [self.proved.size]

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's submission."""
        sketch = sum(map(packed_size, self.sizes, self.parameters.plain_moduli))
        return sketch + self.helpers * plans.BLOB_BYTES + self.proof_bytes

    @property
    def proof_bytes(self) -> int:
        """Bytes of a party's proofs that its counts are within its cap; 0 where there are none."""
        return 0 if self.proved is None else proof_bytes(self.proved.statement)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result's ciphertexts: one for each prime and layer, both polynomials."""
        kept = self.parameters.modulus_bits[: self.kept]
        return 2 * self.results * self.parameters.ring_dimension * sum(kept) // 8

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives: the result."""
        if self.helpers:
            return 8 * sum(len(own.sums) for own in self.computed) + plans.WRAPPED_BYTES * self.parties
        return self.result_bytes

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters = self.parameters
        rows = [
            *([] if self.privacy is None else self.privacy.describe()),
            *plans.describe_ring(
                parameters,
                "the smallest whose modulus takes a plaintext times a ciphertext, and its flooding; N slots a "
                "ciphertext",
                "the room for noise, which is what hides",
            ),
            Parameter(
                "plaintext primes",
                f"{self.primes} of {min(parameters.plain_moduli).bit_length()} bits",
                "as many as tell every sum of {max_rows:,} rows (--max-rows) from every other; few sums take all",
            ),
            Parameter(
                "numbers of a sketch",
                f"{sum(self.sizes):,}",
                f"rows of each label in {self.thresholds:,} bins"
                + ("" if self.analysis.is_plain else ", for each model and group")
                + (", twice as many with their authenticators" if self.authenticated else ""),
            ),
            plans.describe_flooding(math.floor(self.flooding_margin), -self.flooding_margin),
        ]
        if (soundness := self.soundness) is not None:
            why = "chance for the aggregator in a session, proved, where all must submit"
            rows.append(Parameter("a lie passes", f"< {quantities.chance_text(soundness)}", why))
        if self.proved is not None:
            rows.append(self.proved.describe())
        pad_key = Parameter(
            "pad key, ciphertexts", f"{sum(own.ciphertexts for own in self.layouts)}", "made by who has the key, once"
        )
        return [*rows, pad_key, plans.describe_upload(self, "its padded sketch"), plans.describe_download(self)]

    def as_dict(self) -> dict[str, object]:
        """Return the parameters as plain data."""
        return {
            **plans.ring_as_dict(self, self.parameters, self.primes),
            "plain_moduli": list(self.parameters.plain_moduli),
            "sketch_entries": sum(self.sizes),
            "products": self.products,
            "kept_primes": self.kept,
            "result_bytes": self.result_bytes,
            "flooding_bits": self.flooding_margin,
            "soundness": self.soundness,
            "proof_bytes": self.proof_bytes,
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        analysis, sums = self.analysis, self.release.sums
        released = ", ".join(total.name for total in sums) if analysis.is_plain else f"{len(sums):,} numbers"
        noisy = "" if self.privacy is None else ", each with noise"
        bound = Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound")
        why = f"as integers{noisy}, to the parties and to nobody else; the AUC is of these"
        return Terms(
            [
                *[row for part in self.parts for row in part.terms()],
                *[bound] * (not noisy),
                Parameter("released", released, why),
            ],
            {"max_rows": self.max_rows, "analysis": msgspec.to_builtins(analysis), "row_caps_proved": bool(self.caps)},
        )
