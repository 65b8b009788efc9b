"""Strategies played on ciphertexts, by an aggregator that holds what every aggregator holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec
import numpy as np

from fhe_auc import bfv, thresholds
from fhe_auc.attacks import Attacks
from fhe_auc.computation import Result
from fhe_auc.counts import Counts, PartyData, count
from fhe_auc.errors import FheAucError, InputError, UndefinedAucError
from fhe_auc.evaluation import Evaluation
from fhe_auc.keystream import COMMON_SECRET_BYTES, KeyStream
from fhe_auc.manifest import SESSION_BYTES, Manifest
from fhe_auc.protocol import Request
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rounds import Party, conduct
from fhe_auc.serialise import decode, encode
from fhe_auc.sums.opening import Opening
from fhe_auc.sums.residues import unpack
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.attacks.exact_auc import strategies
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, OpeningName, Strategy, View
from fhe_auc_benchmarks.attacks.outcome import HARMLESS, PASSED, Outcome
from fhe_auc_keys.sealed_roles import SealedAggregator, SealedParty
from fhe_auc_keys.session_keys import SEED_BYTES, PartySecrets, public_context
from fhe_auc_protocols.exact_auc.padded_computation import AggregatorKeys, PaddedComputation, PartyKeys
from fhe_auc_protocols.exact_auc.party_task import ExactTask
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified

_SITES = ("north", "south", "east")
_SITE_ROWS = (20, 61)
_THRESHOLDS = 8
_POSITIVES = 0.4
_MAX_ROWS = 1_000


class LyingAggregator(SealedAggregator):
    """Keeps what parties send, and returns what a strategy makes of it, flooded as honest results are.

    `openings` are those that it has by name, and `earlier` what the same parties have sent in an earlier session, if
    they have. Generator and `guess` are for its choices.
    """

    def __init__(
        self,
        manifest: Manifest,
        public: bfv.PublicContext,
        openings: Mapping[OpeningName, Opening],
        strategy: Strategy,
        generator: np.random.Generator,
        *,
        earlier: Sequence[Sequence[Residues]] = (),
        guess: int = 0,
    ) -> None:
        computation = PaddedComputation(manifest)
        super().__init__(manifest, computation, AggregatorKeys(public, openings["own"]))
        self.openings = openings
        self._plan, self._public, self._strategy = computation.plan, public, strategy
        self._generator, self._earlier, self._guess = generator, earlier, guess
        self._kept: dict[str, list[Residues]] = {}

    @property
    def kept(self) -> list[list[Residues]]:
        """Each party's padded sketches, one for each prime."""
        return [self._kept[party] for party in self.manifest.parties]

    def _accept(self, party: str, payload: bytes) -> None:
        super()._accept(party, payload)
        if self.round == 1:
            size, primes = self._plan.computed.sketch.size, self._plan.parameters.plain_moduli
            parts = zip(decode(payload, tuple[bytes, ...], "submission"), primes, strict=True)
            self._kept[party] = [unpack(part, size, prime) for part, prime in parts]

    def _close(self) -> bytes:
        if self.round > 1:
            return super()._close()
        seed = self._generator.integers(2**63)  # the same choices for every prime
        made = tuple(self._returned(which, np.random.default_rng(seed)) for which in range(self._plan.primes))
        self._counted = tuple(self.counted[each] for each in self._some(self._strategy.claimed))
        return encode(Result(self.counted, encode(made)))

    def _returned(self, which: int, generator: np.random.Generator) -> bytes:
        own, earlier = ([each[which] for each in kept] for kept in (self.kept, self._earlier))
        prime, opened = self._plan.parameters.plain_moduli[which], self._some(self._strategy.opened)
        view = View(self._plan.computed, prime, own, earlier, opened, self._guess, generator)
        claim = self._strategy.play(view)
        constants = self._plan.layout.mask(KeyStream(generator.bytes(32)), claim.added, prime)
        computed = []
        for each in claim.computed:
            opening = self.openings[each.opening]
            weighted = Opening(self._public, each.release, opening._layout, opening._ciphertexts)
            computed.append(weighted._evaluated(each.pooled, which))
        total = self._public.add_values(computed[0], constants) if computed else self._public.encrypt(constants, which)
        for summand in computed[1:]:
            self._public.add_in_place(total, summand)
        if self._strategy.tamper is not None:
            total = self._strategy.tamper(self._public, total, generator)
        return self._public.dump_result(self._public.flood(total), self._plan.kept)

    def _some(self, parties: tuple[int, ...]) -> Sequence[int]:
        """Return who these are where there may be other than three parties."""
        return range(len(self.manifest.parties)) if parties == strategies.ALL else parties


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``."""

    descriptions = strategies.DESCRIPTIONS

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> LyingAggregator:
        """Return an aggregator that plays a strategy; one that is staged cannot be played on a session alone."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys only")
        strategy = STRATEGIES.get(attack)
        if strategy is None:
            raise InputError(f"there is no attack {attack!r}; known are {', '.join(STRATEGIES)}")
        plan = PaddedComputation(manifest).plan
        if strategy.staged:
            raise InputError(f"attack {attack!r} takes more than this session; play it with fhe-auc attack")
        if strategy.on_tags and not plan.authenticated:
            raise InputError(f"attack {attack!r} is on tags, and protocol {manifest.protocol!r} has none")
        if min(manifest.min_parties, plan.thresholds) < 2 or manifest.min_parties < len(manifest.parties):
            raise InputError("attacks are played with two thresholds and two parties at least, none of which may miss")
        context, opening = public_context(material)
        public = bfv.load_public(context)
        openings: dict[OpeningName, Opening] = {"own": Opening.load(public, plan.computed, opening)}
        return LyingAggregator(manifest, public, openings, strategy, np.random.default_rng())


class _Laboratory:
    """Sessions of three parties with 20 to 60 rows each, counted with two at least, all under one set of keys."""

    def __init__(self, protocol: str, backend: str | None, generator: np.random.Generator) -> None:
        plugin: Exact = {"exact": Exact, "verified": Verified}[protocol]()
        self._grid = thresholds.uniform(_THRESHOLDS)
        session = plugin.prepare(Request(parties=_SITES, thresholds=self._grid, backend=backend, max_rows=_MAX_ROWS))
        self._manifest = msgspec.structs.replace(session.manifest, min_parties=2)
        self._material = decode(session.party_material, PartySecrets, "secrets").context
        self._secret = bfv.load_secret(self._material)
        self._public = bfv.load_public(public_context(session.aggregator_material)[0])
        self._generator = generator

    def play(self, strategy: Strategy, earlier: LyingAggregator | None) -> tuple[LyingAggregator, str]:
        """Play a session; return its aggregator and what comes of it for the first party (`_verdict`)."""
        generator = self._generator
        common_secret = generator.bytes(COMMON_SECRET_BYTES)
        manifest = msgspec.structs.replace(self._manifest, session=generator.bytes(SESSION_BYTES))
        computation = PaddedComputation(manifest)
        seeds = {site: generator.bytes(SEED_BYTES) for site in _SITES}
        data = [_rows(site, generator) for site in _SITES]
        counts = [count(each, self._grid) for each in data]
        roles = []
        for each in data:
            keys, task = PartyKeys(self._secret, seeds[each.name]), ExactTask(manifest, each)
            roles.append(SealedParty(manifest, computation, keys, task, common_secret=common_secret))

        def opening(parties: Sequence[int]) -> Opening:
            made = computation.opening(self._material, {_SITES[each]: seeds[_SITES[each]] for each in parties})
            return Opening.load(self._public, computation.plan.computed, made)

        openings: dict[OpeningName, Opening] = {"own": opening(strategy.opened)}
        if strategy.staged and earlier is not None:
            openings |= {"earlier": earlier.openings["own"], "of two": opening(strategies.FIRST_TWO)}
        aggregator = LyingAggregator(
            manifest,
            self._public,
            openings,
            strategy,
            generator,
            earlier=earlier.kept if earlier else (),
            guess=int(sum(each.bin_positives[0] for each in counts)),
        )

        def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
            """Have those answer who count; in the last round the first alone, as that is who is looked at."""
            for role in roles[: 1 if aggregator.round == aggregator.rounds else None]:
                if role.name in aggregator.counted:
                    yield role.name, role.respond(message)

        conduct(aggregator, exchange)
        return aggregator, _verdict(roles[0], [counts[each] for each in strategy.claimed])


def run(name: str, protocol: str, trials: int, seed: int, backend: str | None = None) -> Outcome:
    """Play one of `STRATEGIES` in so many sessions of "exact" or "verified", and count what a party accepts.

    Rows and the liar's choices follow from the seed.
    """
    laboratory = _Laboratory(protocol, backend, np.random.default_rng(seed))
    earlier, _ = laboratory.play(STRATEGIES["swap-parties"], None)
    verdicts: Counter[str] = Counter()
    for _ in range(trials):
        earlier, verdict = laboratory.play(STRATEGIES[name], earlier)
        verdicts[verdict] += 1
    return Outcome.counted(verdicts, changed=trials)


def _verdict(party: Party[Evaluation], counts: Sequence[Counts]) -> str:
    """Return what a party makes of its result: `PASSED`, `HARMLESS`, or the name of the error."""
    try:
        found = party.result()
    except UndefinedAucError:  # all rows together have both classes
        return PASSED
    except FheAucError as error:
        return type(error).__name__
    pooled = sum(counts[1:], counts[0])
    right = trapezoid(pooled)
    expected = right.fraction, Fraction(right.tie, right.den), pooled.positives, pooled.negatives
    told = found.fraction, found.binning_error_fraction, found.positives, found.negatives
    return HARMLESS if told == expected else PASSED


def _rows(site: str, generator: np.random.Generator) -> PartyData:
    labels = generator.random(int(generator.integers(*_SITE_ROWS))) < _POSITIVES
    labels[:2] = True, False
    return PartyData.from_arrays(site, labels, generator.random(len(labels)))
