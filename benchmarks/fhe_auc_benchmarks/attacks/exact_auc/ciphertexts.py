"""Strategies played on ciphertexts, by an aggregator that holds what every aggregator holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeAlias, cast

import msgspec
import numpy as np

from fhe_auc import bfv
from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UndefinedAucError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Attacks, Request
from fhe_auc.sums.pads import PadKey, unpack
from fhe_auc.sums.terms import Factor, Term, coefficients
from fhe_auc_benchmarks.attacks.exact_auc import strategies
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, ExactStrategy, ExactView, OpeningName
from fhe_auc_benchmarks.attacks.laboratory import (
    HARMLESS,
    PASSED,
    SITES,
    AttackOutcome,
    made_up_sites,
    strategy_of,
    verdict,
)
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.roles.helper_opening import OPEN, _SignedBlob
from fhe_auc_keys.roles.helper_roles import HelpedAggregator, HelpedParty
from fhe_auc_keys.roles.padded_roles import PaddedAggregator, SealedPads, SealedPadsSession
from fhe_auc_protocols.exact_auc.computations import ExactPaddedComputation
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified

PROTOCOLS: dict[str, type[Exact]] = {"exact": Exact, "verified": Verified}
GRID = thresholds.uniform(8)
Numbers: TypeAlias = tuple[Fraction, float, float, int, int]
"""An AUC, its binning error, its positives and its negatives."""


class Liar:
    """What a strategy makes of padded sketches and openings, flooded as honest results are.

    `earlier` are padded sketches of an earlier session, if there was one. Generator and `guess` are for its choices.
    """

    def __init__(
        self,
        plan: ExactPlan,
        strategy: ExactStrategy,
        generator: np.random.Generator,
        *,
        earlier: Sequence[Sequence[Residues]] = (),
        guess: int = 0,
    ) -> None:
        self.strategy, self.plan = strategy, plan
        self._generator, self._earlier, self._guess = generator, earlier, guess

    def unpacked(self, parts: Sequence[bytes]) -> list[Residues]:
        """Return a party's padded sketch, for each prime."""
        size, primes = self.plan.computed.sketch.size, self.plan.parameters.plain_moduli
        return [unpack(part, size, prime) for part, prime in zip(parts, primes, strict=True)]

    def result(
        self, public: bfv.PublicContext, openings: Mapping[OpeningName, PadKey], kept: Sequence[Sequence[Residues]]
    ) -> bytes:
        """Return the encrypted result, from each party's padded sketches and the openings that there are, by name."""
        seed, made = self._generator.integers(2**63), []  # the same choices for every prime
        for which, prime in enumerate(self.plan.parameters.plain_moduli):
            generator = np.random.default_rng(seed)
            own, earlier = ([each[which] for each in sketches] for sketches in (kept, self._earlier))
            opened = some(self.strategy.opened, len(kept))
            view = ExactView(self.plan.computed, prime, own, earlier, opened, self._guess, generator)
            claim = self.strategy.play(view)
            constants = self.plan.layout.mask(KeyStream(generator.bytes(32)), claim.added, prime)
            computed = []
            for each in claim.computed:
                opening = openings[each.opening]
                weighted = _LyingOpening(public, each.release, opening.layout, opening.ciphertexts)
                computed.append(weighted.evaluated(each.pooled, which))
            total = public.add_values(computed[0], constants) if computed else public.encrypt(constants, which)
            for summand in computed[1:]:
                public.add_in_place(total, summand)
            if self.strategy.tamper is not None:
                total = self.strategy.tamper(public, total, generator)
            made.append(public.dump_result(public.flood(total), self.plan.kept))
        return encode(tuple(made))


class _LyingOpening(PadKey):
    """The honest opening, from which the sums of another release are computed, as far as that is possible.

    An honest release's last coefficients are in the sums that the opening holds. `ExactView.weighted` has put a weight
    behind all factors of a term, the same at every entry, which multiplies such a sum as well; weights entry by entry
    cannot.
    """

    @staticmethod
    def _coefficients(term: Term, at: Mapping[Factor, Residues], modulus: int) -> tuple[Residues, list[Residues]]:
        first, hidden = coefficients(term, at, modulus)
        weights = {*term.factors[-1].constants} if term.factors else set()
        if len(weights) == 1:
            hidden[-1] = np.array([weights.pop() % modulus], np.uint64)
        return first, hidden


def some(parties: tuple[int, ...], number: int) -> Sequence[int]:
    """Return who these are where there may be another number of parties than three."""
    return range(number) if parties == strategies.ALL else parties


class LyingPaddedAggregator(PaddedAggregator):
    """Keeps what parties send, and returns what a `Liar` makes of it; `earlier` is an earlier session's, if any."""

    def __init__(
        self,
        manifest: Manifest,
        public: bfv.PublicContext,
        opening: bytes,
        liar: Liar,
        earlier: LyingPaddedAggregator | None = None,
    ) -> None:
        echo = PROTOCOLS[manifest.protocol].modes["sealed"].echo
        super().__init__(manifest, ExactPaddedComputation(manifest), public, opening, echo)
        self._public, self._liar = public, liar
        self._openings: dict[OpeningName, PadKey] = {"own": self._pad_key}
        if earlier is not None:
            self._openings["earlier"] = earlier._pad_key
        self._kept: dict[str, list[Residues]] = {}

    @property
    def kept(self) -> list[list[Residues]]:
        """Each party's padded sketches, one for each prime."""
        return [self._kept[party] for party in self.manifest.parties]

    def _accept(self, party: str, payload: bytes) -> None:
        super()._accept(party, payload)
        if self.round == 1:
            self._kept[party] = self._liar.unpacked(decode(payload, tuple[bytes, ...], "submission"))

    def _close(self) -> bytes:
        if self.round > 1:
            return super()._close()
        return encode(Result(self.counted, self._liar.result(self._public, self._openings, self.kept)))


class LyingHelpedAggregator(HelpedAggregator):
    """The same with a helper, which makes the opening; `earlier` is the aggregator of an earlier session, if any."""

    def __init__(
        self,
        manifest: Manifest,
        strategy: ExactStrategy,
        generator: np.random.Generator,
        *,
        earlier: LyingHelpedAggregator | None = None,
        guess: int = 0,
    ) -> None:
        computation = ExactPaddedComputation(manifest)
        super().__init__(manifest, computation)
        kept = earlier.kept if earlier else ()
        self._liar = Liar(computation.plan, strategy, generator, earlier=kept, guess=guess)
        self._earlier = earlier
        self.opening: PadKey | None = None

    @property
    def kept(self) -> list[list[Residues]]:
        """Each party's padded sketches, one for each prime."""
        found = []
        for party in self.manifest.parties:
            only = self._computation.running_sum()
            only.add(self._submissions[party].parts)
            found.append(self._computation._sketches(only.totals))
        return found

    def blobs(self) -> tuple[_SignedBlob, ...]:
        """Return what the parties that count have sent for the helper."""
        found = self._submissions
        return tuple(_SignedBlob(party, found[party].blobs, found[party].signature) for party in self.counted)

    def encrypted_result(self) -> bytes:
        """Return what the helper is to decrypt; raise `EvaluationError` where it has opened nothing yet."""
        if self._keys is None:
            raise EvaluationError("the helper has not answered, or opened nothing")
        self.opening = self._keys
        openings: dict[OpeningName, PadKey] = {"own": self.opening}
        if self._earlier and self._earlier.opening:
            openings["earlier"] = self._earlier.opening
        return encode(Result(self.counted, self._liar.result(self._keys.public, openings, self.kept)))

    def _close(self) -> bytes:
        if self.round == OPEN:
            self._name(self._liar.strategy.claimed)
            return self.encrypted_result()
        if self.round < OPEN:
            self._name(self._liar.strategy.opened)
        return super()._close()

    def _name(self, parties: tuple[int, ...]) -> None:
        names = self.manifest.parties
        self._parties.count(tuple(names[each] for each in some(parties, len(names))))


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``, and lies of a party."""

    descriptions = strategies.DESCRIPTIONS
    of_parties: ClassVar[Mapping[str, str]] = {name: lie.description for name, lie in LIES.items()}

    def aggregator(
        self, attack: str, manifest: Manifest, material: bytes, *, rows: int
    ) -> LyingPaddedAggregator | LyingHelpedAggregator:
        """Return an aggregator that plays a strategy; one that is staged cannot be played on a session alone."""
        strategy, plan = strategy_of(attack, STRATEGIES), ExactPaddedComputation(manifest).plan
        if strategy.staged:
            raise InputError(f"attack {attack!r} takes more than this session; play it with fhe-auc attack")
        if strategy.on_tags and not plan.authenticated:
            raise InputError(f"attack {attack!r} is on tags, and protocol {manifest.protocol!r} has none")
        if min(manifest.min_parties, plan.thresholds) < 2:
            raise InputError("attacks are played with two thresholds and two parties at least")
        if manifest.keys == "helper":
            return LyingHelpedAggregator(manifest, strategy, np.random.default_rng())
        context, opening = public_context(material)
        liar = Liar(plan, strategy, np.random.default_rng())
        return LyingPaddedAggregator(manifest, bfv.load_public(context), opening, liar)

    def party(
        self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int
    ) -> HelpedParty[Evaluation]:
        """Return a party that tells a lie of `LIES`."""
        lie = strategy_of(attack, LIES)
        lie.check(attack, manifest.decoded_plan(ExactPlan))
        return lying_party(manifest, material, data, lie, rows)


def request_for(backend: str | None, **changes: Any) -> Request:
    """Return a request for sessions of three sites, or others."""
    return Request(**{"parties": SITES, "thresholds": GRID, "backend": backend, "max_rows": 1_000, **changes})


def guess_of(sites: Sequence[PartyData]) -> int:
    """Return what liars guess right: the positives in the first bin."""
    return int(sum(count(each, GRID).bin_positives[0] for each in sites))


def right(parties: Sequence[PartyData], analysis: Analysis = PLAIN) -> list[Numbers]:
    """Return what is right of each model and group, pair by pair of rows; of bounds, merged pairs and ties."""
    labels = np.concatenate([data.labels for data in parties]).astype(bool)
    groups = [np.ones(len(labels), np.bool_)]
    for index, variable in enumerate(analysis.by):
        levels = np.concatenate([data.groups[index] for data in parties])
        groups += [levels == level for level in range(len(variable.levels))]
    found: list[Numbers] = []
    for model in range(len(analysis.models)):
        scores = np.concatenate([data.scores[model] for data in parties])
        bins = np.searchsorted(GRID, scores, side="right")
        for group in groups:
            positives, negatives = bins[group & labels], bins[group & ~labels]
            signs = np.sign(positives[:, None] - negatives[None, :])
            merged = (signs == 0) & (scores[group & labels][:, None] != scores[group & ~labels])
            auc = Fraction(1, 2) + Fraction(int(signs.sum()), 2 * signs.size)
            least, most = (float(each.sum() / (2 * signs.size)) for each in (merged, signs == 0))
            found.append((auc, least, most, len(positives), len(negatives)))
    return found


def judged(roles: Iterable[Party[Evaluation]], counted: Sequence[PartyData], analysis: Analysis = PLAIN) -> str:
    """Return the worst that these parties make of their results, in the belief that these rows count.

    That is `PASSED`, the name of an error with which one refuses, or `HARMLESS`. All rows together have both classes:
    "undefined" is wrong, too.
    """
    expected = right(counted, analysis)

    def is_right(role: Party[Evaluation]) -> bool:
        estimates = role.result().estimates
        return all(
            (each.fraction, each.positives, each.negatives) == (auc, *rows)
            and merged <= (each.binning_error or 0) <= ties
            for each, (auc, merged, ties, *rows) in zip(estimates, expected, strict=True)
        )

    def refused(error: FheAucError) -> str:
        return PASSED if isinstance(error, UndefinedAucError) else type(error).__name__

    found = {verdict(partial(is_right, role), refused) for role in roles}
    return PASSED if PASSED in found else min(found - {HARMLESS}, default=HARMLESS)


def answering(aggregator: Aggregator, roles: Sequence[Party[Any]]) -> Callable[[bytes], Iterator[tuple[str, bytes]]]:
    """Return the exchange, for `conduct`, in which all answer who are asked."""

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        for role in roles:
            if role.name in aggregator.asked:
                yield role.name, role.respond(message)

    return exchange


def _play(
    keys: SealedPadsSession,
    strategy: ExactStrategy,
    generator: np.random.Generator,
    earlier: LyingPaddedAggregator | None = None,
) -> tuple[LyingPaddedAggregator, str]:
    """Play a session under these keys; return its aggregator, and what comes of it (`judged`)."""
    plugin = PROTOCOLS[keys.manifest.protocol]()
    manifest = msgspec.structs.replace(keys.manifest, session=generator.bytes(SESSION_BYTES))
    mode = cast("SealedPads", plugin.modes["sealed"])
    session = mode.drawn(manifest, keys.aggregator_material, keys.party_material, keys.loaded)
    public, sites = cast("bfv.PublicContext", keys.loaded), made_up_sites(generator)
    material = session.delivery().parties
    roles = [plugin.party(manifest, material[each.name], each) for each in sites]
    kept = earlier.kept if earlier else ()
    liar = Liar(ExactPaddedComputation(manifest).plan, strategy, generator, earlier=kept, guess=guess_of(sites))
    _, opening = public_context(session.aggregator_material)
    aggregator = LyingPaddedAggregator(manifest, public, opening, liar, earlier)
    conduct(aggregator, answering(aggregator, roles))
    return aggregator, judged(roles, sites)


def run(name: str, protocol: str, trials: int, seed: int, backend: str | None = None) -> AttackOutcome:
    """Play one of `STRATEGIES` that is not on lists in so many sessions; rows and choices follow from the seed."""
    keys = cast("SealedPadsSession", PROTOCOLS[protocol]().prepare(request_for(backend)))
    strategy, generator = STRATEGIES[name], np.random.default_rng(seed)
    earlier = _play(keys, STRATEGIES["swap-parties"], generator)[0] if strategy.staged else None
    verdicts = Counter(_play(keys, strategy, generator, earlier)[1] for _ in range(trials))
    return AttackOutcome.counted(verdicts, changed=trials)
