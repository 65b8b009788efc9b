"""Strategies played on ciphertexts, by an aggregator that holds what every aggregator holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from fhe_auc import bfv
from fhe_auc.base.errors import EvaluationError, InputError, UndefinedAucError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES, KeyStream
from fhe_auc.base.serialise import decode, encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Attacks, Request
from fhe_auc.sums.monomials import coefficients
from fhe_auc.sums.opening import Opening
from fhe_auc.sums.residues import unpack
from fhe_auc.sums.terms import Factor, Term
from fhe_auc_benchmarks.attacks.exact_auc import strategies
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, ExactStrategy, ExactView, OpeningName
from fhe_auc_benchmarks.attacks.laboratory import PASSED, SITES, AttackOutcome, made_up_sites, strategy_of, verdict
from fhe_auc_keys.bundles.session_keys import SEED_BYTES, public_context
from fhe_auc_keys.roles.helper_opening import OPEN, _SignedBlob
from fhe_auc_keys.roles.helper_roles import HelpedAggregator, HelpedParty
from fhe_auc_keys.roles.padded_roles import PaddedAggregator, PaddedParty
from fhe_auc_protocols.exact_auc.computations import ExactPaddedComputation
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified

PROTOCOLS: dict[str, type[Exact]] = {"exact": Exact, "verified": Verified}
_GRID = thresholds.uniform(8)


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
        self, public: bfv.PublicContext, openings: Mapping[OpeningName, Opening], kept: Sequence[Sequence[Residues]]
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
                weighted = _LyingOpening(public, each.release, opening._layout, opening._ciphertexts)
                computed.append(weighted._evaluated(each.pooled, which))
            total = public.add_values(computed[0], constants) if computed else public.encrypt(constants, which)
            for summand in computed[1:]:
                public.add_in_place(total, summand)
            if self.strategy.tamper is not None:
                total = self.strategy.tamper(public, total, generator)
            made.append(public.dump_result(public.flood(total), self.plan.kept))
        return encode(tuple(made))


class _LyingOpening(Opening):
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
    """Keeps what parties send, and returns what a `Liar` makes of it. `openings` are those that it has by name."""

    def __init__(
        self, manifest: Manifest, public: bfv.PublicContext, openings: Mapping[OpeningName, Opening], liar: Liar
    ) -> None:
        echo = PROTOCOLS[manifest.protocol].modes["sealed"].echo
        super().__init__(manifest, ExactPaddedComputation(manifest), public, b"", echo)
        self._public, self.openings = public, openings
        self._liar = liar
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
        made = self._liar.result(self._public, self.openings, self.kept)
        claimed = some(self._liar.strategy.claimed, len(self.manifest.parties))
        self._count(tuple(self.counted[each] for each in claimed))
        return encode(Result(self.counted, made))


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
        self.opening: Opening | None = None

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
        openings: dict[OpeningName, Opening] = {"own": self.opening}
        if self._earlier and self._earlier.opening:
            openings["earlier"] = self._earlier.opening
        return encode(Result(self.counted, self._liar.result(self._keys._public, openings, self.kept)))

    def _close(self) -> bytes:
        if self.round == OPEN:
            self._name(self._liar.strategy.claimed)
            return self.encrypted_result()
        if self.round < OPEN:
            self._name(self._liar.strategy.opened)
        return super()._close()

    def _name(self, parties: tuple[int, ...]) -> None:
        names = self.manifest.parties
        self._count(tuple(names[each] for each in some(parties, len(names))))


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``, and lies of a party."""

    descriptions = strategies.DESCRIPTIONS
    of_parties: ClassVar[Mapping[str, str]] = {name: lie.description for name, lie in LIES.items()}

    def aggregator(
        self, attack: str, manifest: Manifest, material: bytes, *, rows: int
    ) -> LyingPaddedAggregator | LyingHelpedAggregator:
        """Return an aggregator that plays a strategy; one that is staged cannot be played on a session alone."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys or a helper")
        strategy, plan = strategy_of(attack, STRATEGIES), ExactPaddedComputation(manifest).plan
        if strategy.staged:
            raise InputError(f"attack {attack!r} takes more than this session; play it with fhe-auc attack")
        if strategy.on_tags and not plan.authenticated:
            raise InputError(f"attack {attack!r} is on tags, and protocol {manifest.protocol!r} has none")
        may_miss = manifest.keys != "helper" and manifest.min_parties < len(manifest.parties)
        if min(manifest.min_parties, plan.thresholds) < 2 or may_miss:
            raise InputError("attacks are played with two thresholds and two parties at least, none of which may miss")
        if manifest.keys == "helper":
            return LyingHelpedAggregator(manifest, strategy, np.random.default_rng())
        context, opening = public_context(material)
        public = bfv.load_public(context)
        openings: dict[OpeningName, Opening] = {"own": Opening.load(public, plan.computed, opening)}
        return LyingPaddedAggregator(manifest, public, openings, Liar(plan, strategy, np.random.default_rng()))

    def party(
        self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int
    ) -> HelpedParty[Evaluation]:
        """Return a party that tells a lie of `LIES`."""
        lie = strategy_of(attack, LIES)
        lie.check(attack, manifest.decoded_plan(ExactPlan))
        return lying_party(manifest, material, data, lie, rows)


class Sites(NamedTuple):
    """The rows of a session's parties, and their counts."""

    data: list[PartyData]
    counts: list[Counts]

    @classmethod
    def made_up(cls, generator: np.random.Generator) -> Sites:
        """Return those of three sites."""
        data = made_up_sites(generator)
        return cls(data, [count(each, _GRID) for each in data])

    @property
    def guess(self) -> int:
        """What liars guess right: the positives in the first bin."""
        return int(sum(each.bin_positives[0] for each in self.counts))

    def verdict(self, party: Party[Evaluation], counted: Sequence[int]) -> str:
        """Return what a party makes of its result, in the belief that these count: `verdict`, by errors' names."""
        pooled = sum((self.counts[each] for each in counted[1:]), self.counts[counted[0]])
        right = trapezoid(pooled)
        expected = right.fraction, Fraction(right.tie, right.den), pooled.positives, pooled.negatives

        def is_right() -> bool:
            found = party.result()
            return expected == (found.fraction, found.binning_error_fraction, found.positives, found.negatives)

        # All rows together have both classes.
        return verdict(is_right, lambda error: PASSED if isinstance(error, UndefinedAucError) else type(error).__name__)


def request_for(backend: str | None, **changes: Any) -> Request:
    """Return a request for sessions of three sites."""
    return Request(parties=SITES, thresholds=_GRID, backend=backend, max_rows=1_000, **changes)


class SharedKeys(NamedTuple):
    """A manifest and the keys that it names, for as many sessions as one likes, counted with two parties at least."""

    manifest: Manifest
    material: bytes
    public: bfv.PublicContext
    secret: bfv.SecretContext


@lru_cache(maxsize=4)
def shared_keys(protocol: str, backend: str | None) -> SharedKeys:
    """Return keys for three parties; the same ones when asked again."""
    session: Any = PROTOCOLS[protocol]().prepare(request_for(backend))
    manifest, material = msgspec.structs.replace(session.manifest, min_parties=2), session.common.context
    public = bfv.load_public(public_context(session.aggregator_material)[0])
    return SharedKeys(manifest, material, public, bfv.load_secret(material))


def _play(
    keys: SharedKeys, strategy: ExactStrategy, generator: np.random.Generator, earlier: LyingPaddedAggregator | None
) -> tuple[LyingPaddedAggregator, str]:
    """Play a session; return its aggregator and what comes of it for the first party (`Sites.verdict`)."""
    common_secret = generator.bytes(COMMON_SECRET_BYTES)
    manifest = msgspec.structs.replace(keys.manifest, session=generator.bytes(SESSION_BYTES))
    computation, echo = ExactPaddedComputation(manifest), PROTOCOLS[manifest.protocol].modes["sealed"].echo
    seeds = {site: generator.bytes(SEED_BYTES) for site in SITES}
    sites = Sites.made_up(generator)
    roles: list[PaddedParty[Evaluation]] = []
    for each in sites.data:
        made = manifest, computation, keys.secret, ExactTask(manifest, each), echo
        roles.append(PaddedParty(*made, seed=seeds[each.name], common_secret=common_secret))

    def opening(parties: Sequence[int]) -> Opening:
        made = computation.opening(keys.material, {SITES[each]: seeds[SITES[each]] for each in parties})
        return Opening.load(keys.public, computation.plan.computed, made)

    openings: dict[OpeningName, Opening] = {"own": opening(strategy.opened)}
    if earlier is not None:
        openings |= {"earlier": earlier.openings["own"], "of two": opening(strategies.FIRST_TWO)}
    kept = earlier.kept if earlier else ()
    liar = Liar(computation.plan, strategy, generator, earlier=kept, guess=sites.guess)
    aggregator = LyingPaddedAggregator(manifest, keys.public, openings, liar)

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        """Have those answer who count; in the last round the first alone, as that is who is looked at."""
        for role in roles[: 1 if aggregator.round == aggregator.rounds else None]:
            if role.name in aggregator.counted:
                yield role.name, role.respond(message)

    conduct(aggregator, exchange)
    return aggregator, sites.verdict(roles[0], strategy.claimed)


def run(name: str, protocol: str, trials: int, seed: int, backend: str | None = None) -> AttackOutcome:
    """Play one of `STRATEGIES` in so many sessions of "exact" or "verified"; rows and choices follow from the seed."""
    keys, strategy, generator = shared_keys(protocol, backend), STRATEGIES[name], np.random.default_rng(seed)
    earlier = _play(keys, STRATEGIES["swap-parties"], generator, None)[0] if strategy.staged else None
    verdicts = Counter(_play(keys, strategy, generator, earlier)[1] for _ in range(trials))
    return AttackOutcome.counted(verdicts, changed=trials)
