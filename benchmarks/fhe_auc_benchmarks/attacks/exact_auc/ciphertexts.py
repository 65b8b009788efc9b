"""Strategies played on ciphertexts, by an aggregator that holds what every aggregator holds."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeAlias

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
from fhe_auc.session.aggregator import Aggregator, AggregatorSide, conduct
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc.sums.pads import PadKey, unpack
from fhe_auc.sums.terms import Factor, Term, coefficients
from fhe_auc_benchmarks.attacks.exact_auc import strategies
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, ExactStrategy, ExactView, PadKeyName
from fhe_auc_benchmarks.attacks.laboratory import (
    HARMLESS,
    PASSED,
    SITES,
    AttackOutcome,
    made_up_sites,
    strategy_of,
    verdict,
)
from fhe_auc_keys.bundles.session_keys import SEED_BYTES, DealtSession, public_context
from fhe_auc_keys.roles.helped import HelpedAggregator
from fhe_auc_keys.roles.helper import PAD_KEY_ROUND, SignedBlob
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.exact_auc.computations import ExactComputation
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified

PROTOCOLS: dict[str, type[Exact]] = {"exact": Exact, "verified": Verified}
GRID = thresholds.uniform(8)
Numbers: TypeAlias = tuple[Fraction, float, float, int, int]
"""An AUC, its binning error, its positives and its negatives."""


class Liar:
    """What a strategy makes of padded sketches and pad keys, flooded as honest results are.

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
        self, public: bfv.PublicContext, pad_keys: Mapping[PadKeyName, PadKey], kept: Sequence[Sequence[Residues]]
    ) -> bytes:
        """Return the encrypted result, from each party's padded sketches and the pad keys that there are, by name."""
        seed, made = self._generator.integers(2**63), []  # the same choices for every prime
        for which, prime in enumerate(self.plan.parameters.plain_moduli):
            generator = np.random.default_rng(seed)
            own, earlier = ([each[which] for each in sketches] for sketches in (kept, self._earlier))
            unpadded = some(self.strategy.unpadded, len(kept))
            view = ExactView(self.plan.computed, prime, own, earlier, unpadded, self._guess, generator)
            claim = self.strategy.play(view)
            constants = self.plan.layout.mask(KeyStream(generator.bytes(32)), claim.added, prime)
            computed = []
            for each in claim.computed:
                pad_key = pad_keys[each.pad_key]
                weighted = _LyingPadKey(public, each.release, pad_key.layout, pad_key.ciphertexts)
                computed.append(weighted.evaluated(each.pooled, which))
            total = public.add_values(computed[0], constants) if computed else public.encrypt(constants, which)
            for summand in computed[1:]:
                public.add_in_place(total, summand)
            if self.strategy.tamper is not None:
                total = self.strategy.tamper(public, total, generator)
            made.append(public.dump_result(public.flood(total), self.plan.kept))
        return encode(tuple(made))


class _LyingPadKey(PadKey):
    """The honest pad key, from which the sums of another release are computed, as far as that is possible.

    An honest release's last coefficients are in the sums that the pad key holds. `ExactView.weighted` has put a weight
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


class LyingPaddedSide(AggregatorSide):
    """Keeps what parties send, and returns what a `Liar` makes of it. `pad_keys` are those that it has by name."""

    def __init__(
        self,
        manifest: Manifest,
        public: bfv.PublicContext,
        pad_keys: Mapping[PadKeyName, PadKey],
        liar: Liar,
    ) -> None:
        computation = ExactComputation(manifest)
        # The honest sum is never asked for; what is checked, and echoes, are as an honest aggregator has them.
        self._honest = SealedAggregator(
            computation.running_sum(), lambda _: b"", computation.payload_limit, echo=computation.plan.authenticated
        )
        self.rounds = self._honest.rounds
        self._manifest, self._public, self.pad_keys, self._liar = manifest, public, pad_keys, liar
        self._kept: dict[str, list[Residues]] = {}

    @property
    def kept(self) -> list[list[Residues]]:
        """Each party's padded sketches, one for each prime."""
        return [self._kept[party] for party in self._manifest.parties]

    def limit(self, number: int) -> int:
        """Return that of an honest one."""
        return self._honest.limit(number)

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Keep what a party sends."""
        self._honest.accept(number, party, payload)
        if number == 1:
            self._kept[party] = self._liar.unpacked(decode(payload, tuple[bytes, ...], "submission"))

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return whom it claims to count."""
        claimed = some(self._liar.strategy.claimed, len(self._manifest.parties))
        return parties if number > 1 else tuple(parties[index] for index in claimed)

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return what the strategy makes."""
        if number > 1:
            return self._honest.close(number, counted, keep)
        return encode(Result(counted, self._liar.result(self._public, self.pad_keys, self.kept)))


class LyingHelpedSide(AggregatorSide):
    """The same with a helper, which makes the pad key; `earlier` is the side of an earlier session, if any."""

    def __init__(
        self,
        manifest: Manifest,
        strategy: ExactStrategy,
        generator: np.random.Generator,
        *,
        earlier: LyingHelpedSide | None = None,
        guess: int = 0,
    ) -> None:
        computation = ExactComputation(manifest)
        self.honest = HelpedAggregator(manifest, computation)
        self.rounds, self._manifest, self._computation = self.honest.rounds, manifest, computation
        kept = earlier.kept if earlier else ()
        self._liar = Liar(computation.plan, strategy, generator, earlier=kept, guess=guess)
        self._earlier = earlier
        self._counted: tuple[str, ...] = ()

    @property
    def kept(self) -> list[list[Residues]]:
        """Each party's padded sketches, one for each prime."""
        found = []
        for party in self._manifest.parties:
            only = self._computation.running_sum()
            only.add(self.honest.submissions[party].parts)
            found.append(self._computation.sketches(only.totals))
        return found

    def blobs(self) -> tuple[SignedBlob, ...]:
        """Return what the parties that count have sent for the helper."""
        sent = self.honest.submissions
        return tuple(SignedBlob(party, sent[party].blob, sent[party].signature) for party in self._counted)

    def encrypted_result(self) -> bytes:
        """Return what the helper is to decrypt; raise `EvaluationError` where it has made no pad key yet."""
        own = self.honest.keys
        if own is None:
            raise EvaluationError("the helper has not answered, or made no pad key")
        pad_keys: dict[PadKeyName, PadKey] = {"own": own}
        if self._earlier and self._earlier.honest.keys:
            pad_keys["earlier"] = self._earlier.honest.keys
        return encode(Result(self._counted, self._liar.result(own.public, pad_keys, self.kept)))

    def limit(self, number: int) -> int:
        """Return that of an honest one."""
        return self.honest.limit(number)

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Take what an honest one takes."""
        self.honest.accept(number, party, payload)

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return whom it has the pads taken off, then whom it claims to count."""
        names, strategy = self._manifest.parties, self._liar.strategy
        named = {1: strategy.unpadded, PAD_KEY_ROUND: strategy.claimed}.get(number)
        self._counted = parties if named is None else tuple(names[index] for index in some(named, len(names)))
        self.honest.counts(number, self._counted)
        return self._counted

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return what the strategy makes, where an honest one returns the result."""
        return self.encrypted_result() if number == PAD_KEY_ROUND else self.honest.close(number, counted, keep)


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``, and lies of a party."""

    descriptions = strategies.DESCRIPTIONS
    of_parties: ClassVar[Mapping[str, str]] = {name: lie.description for name, lie in LIES.items()}

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy; one that is staged cannot be played on a session alone."""
        strategy, plan = strategy_of(attack, STRATEGIES), manifest.decoded_plan(ExactPlan)
        if strategy.staged:
            raise InputError(f"attack {attack!r} takes more than this session; play it with fhe-auc attack")
        if strategy.on_tags and not plan.authenticated:
            raise InputError(f"attack {attack!r} is on tags, and protocol {manifest.protocol!r} has none")
        if min(manifest.min_parties, plan.thresholds) < 2:
            raise InputError("attacks are played with two thresholds and two parties at least")
        if manifest.keys == "helper":
            return Aggregator(manifest, LyingHelpedSide(manifest, strategy, np.random.default_rng()))
        context, pad_key = public_context(material)
        public = bfv.load_public(context)
        pad_keys: dict[PadKeyName, PadKey] = {"own": PadKey.load(public, plan.computed, pad_key)}
        liar = Liar(plan, strategy, np.random.default_rng())
        return Aggregator(manifest, LyingPaddedSide(manifest, public, pad_keys, liar))

    def party(
        self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int
    ) -> Party[Evaluation]:
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
    keys: DealtSession,
    strategy: ExactStrategy,
    generator: np.random.Generator,
    earlier: LyingPaddedSide | None = None,
) -> tuple[LyingPaddedSide, str]:
    """Play a session under these keys; return what its aggregator was, and what comes of it (`judged`)."""
    plugin = PROTOCOLS[keys.manifest.protocol]()
    manifest = msgspec.structs.replace(keys.manifest, session=generator.bytes(SESSION_BYTES))
    session = replace(keys, manifest=manifest, seeds={name: secrets.token_bytes(SEED_BYTES) for name in SITES})
    sites, computation, material = made_up_sites(generator), ExactComputation(manifest), session.delivery().parties
    roles = [plugin.party(manifest, material[site.name], site) for site in sites]
    (context, _), secret = public_context(session.aggregator_material), computation.secret(session.common.context)
    pads = computation.sum_of_pads(enumerate(session.seeds.values()))
    pad_keys: dict[PadKeyName, PadKey] = {"own": computation.keys(context, computation.pad_key(secret, pads))}
    if earlier is not None:
        pad_keys["earlier"] = earlier.pad_keys["own"]
    kept = earlier.kept if earlier else ()
    liar = Liar(computation.plan, strategy, generator, earlier=kept, guess=guess_of(sites))
    side = LyingPaddedSide(manifest, pad_keys["own"].public, pad_keys, liar)
    aggregator = Aggregator(manifest, side)
    conduct(aggregator, answering(aggregator, roles))
    claimed = strategy.claimed
    return side, judged([roles[index] for index in claimed], [sites[index] for index in claimed])


def run(name: str, protocol: str, trials: int, seed: int, backend: str | None = None) -> AttackOutcome:
    """Play one of `STRATEGIES` in so many sessions of "exact" or "verified"; rows and choices follow from the seed."""
    keys = PROTOCOLS[protocol]().prepare(request_for(backend))
    if not isinstance(keys, DealtSession):
        raise TypeError("a session with sealed keys deals secrets")
    strategy, generator = STRATEGIES[name], np.random.default_rng(seed)
    earlier = _play(keys, STRATEGIES["swap-parties"], generator)[0] if strategy.staged else None
    verdicts = Counter(_play(keys, strategy, generator, earlier)[1] for _ in range(trials))
    return AttackOutcome.counted(verdicts, changed=trials)
