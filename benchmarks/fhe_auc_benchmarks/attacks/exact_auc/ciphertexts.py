"""Strategies played on ciphertexts, by an aggregator that holds what every aggregator holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from fhe_auc import bfv, thresholds
from fhe_auc.attacks import Attacks
from fhe_auc.bfv import Ciphertext
from fhe_auc.counts import Counts, PartyData, count
from fhe_auc.errors import FheAucError, InputError, UndefinedAucError
from fhe_auc.evaluation import Evaluation
from fhe_auc.manifest import SESSION_BYTES, Manifest
from fhe_auc.protocol import Request
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rounds import Aggregator, Party, conduct
from fhe_auc.serialise import decode, encode
from fhe_auc.trapezoid import trapezoid
from fhe_auc_benchmarks.attacks.exact_auc.strategies import DESCRIPTIONS, STRATEGIES, Lie, Ring, Vector, View
from fhe_auc_benchmarks.attacks.outcome import HARMLESS, PASSED, Outcome
from fhe_auc_keys.session_keys import PartySecrets
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import Exact, Verified
from fhe_auc_protocols.exact_auc.roles import ExactAggregator, VerifiedAggregator

Submissions: TypeAlias = "Mapping[str, Sequence[Words]]"
"""Of each party: left and right ciphertext for each prime."""

_SITES = ("north", "south", "east")
_SITE_ROWS = (20, 61)
_THRESHOLDS = 8
_POSITIVES = 0.4
_MAX_ROWS = 1_000


class CiphertextRing(Ring):
    """The same arithmetic under encryption; no operation changes what it is given."""

    def __init__(self, plan: ExactPlan, context: bfv.PublicContext, which: int) -> None:
        super().__init__(plan.packing, plan.parameters.plain_moduli[which])
        self._context = context
        self._which = which

    def sum(self, vectors: Sequence[Vector]) -> Vector:
        """Return the sum of ciphertexts."""
        total = self.zero()
        for each in vectors:
            self._context.add_in_place(total, each)
        return total

    def times(self, x: Vector, y: Vector) -> Vector:
        """Return the product of two ciphertexts."""
        return self._context.multiply(x, y)

    def zero(self, like: Vector = None) -> Vector:
        """Return a fresh encryption of zeros."""
        return self._context.encrypt(np.zeros(self.packing.slots, np.uint64), self._which)

    def scaled(self, x: Vector, weights: Residues) -> Vector:
        """Return a ciphertext times known weights, which are not all zero."""
        return self._context.multiply_values(x, weights)

    def shifted(self, x: Vector, constants: Residues) -> Vector:
        """Return a ciphertext plus known constants."""
        return self._context.add_values(x, constants)


class LyingAggregator(ExactAggregator):
    """Keeps what parties send, and returns what a strategy makes of it, blinded and flooded as honest results are.

    The generator is for its choices; `earlier` is what the same parties have sent in an earlier session, if they have.
    """

    def __init__(
        self,
        manifest: Manifest,
        context: bfv.PublicContext,
        lie: Lie,
        generator: np.random.Generator,
        earlier: Submissions | None,
    ) -> None:
        super().__init__(manifest, context)
        self._lie, self._generator, self._earlier = lie, generator, earlier
        self.kept: dict[str, Sequence[Words]] = {}

    def _accept(self, party: str, payload: bytes) -> None:
        super()._accept(party, payload)
        if self.round == 1:
            self.kept[party] = self.aggregation.read(decode(payload, tuple[bytes, ...], "submission"))

    def _results(self) -> tuple[bytes, ...]:
        plan, context = self.aggregation.plan, self.aggregation.context
        seed = self._generator.integers(2**63)  # the same choices for every prime
        made = []
        for which in range(len(plan.parameters.plain_moduli)):
            own = self._sides(self.kept, which)
            earlier = own if self._earlier is None else self._sides(self._earlier, which)
            view = View(CiphertextRing(plan, context, which), *own, earlier, np.random.default_rng(seed))
            made.append(context.dump_result(self.aggregation.blinded(self._lie(view), which)))
        return tuple(made)

    def _sides(self, submissions: Submissions, which: int) -> tuple[list[Ciphertext], list[Ciphertext]]:
        context = self.aggregation.context
        left, right = (
            [context.ciphertext(submissions[party][2 * which + side], which) for party in self.manifest.parties]
            for side in range(2)
        )
        return left, right


class LyingVerifiedAggregator(LyingAggregator, VerifiedAggregator):
    """The same in a session with authenticators."""


def lying_aggregator(
    attack: str,
    manifest: Manifest,
    context: bfv.PublicContext,
    *,
    generator: np.random.Generator | None = None,
    earlier: Submissions | None = None,
) -> LyingAggregator:
    """Return an aggregator that plays a strategy; without a generator it draws its choices anew.

    Raises `InputError`: there is no such strategy, it needs rotation keys or an earlier session, or the session has
    several pairs of ciphertexts.
    """
    strategy = STRATEGIES.get(attack)
    if strategy is None:
        raise InputError(f"there is no attack {attack!r}; known are {', '.join(STRATEGIES)}")
    if strategy.rotates:
        raise InputError(f"attack {attack!r} takes rotation keys, which there are none of")
    if strategy.needs_earlier and earlier is None:
        raise InputError(f"attack {attack!r} needs an earlier session; play it with fhe-auc attack")
    plan = manifest.decoded_plan(ExactPlan)
    if plan.packing.pairs > 1:
        raise InputError("attacks are played on sessions with one pair of ciphertexts: take fewer thresholds")
    kind = LyingVerifiedAggregator if plan.packing.authenticated else LyingAggregator
    return kind(manifest, context, strategy.play, generator or np.random.default_rng(), earlier)


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``."""

    descriptions = DESCRIPTIONS

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> LyingAggregator:
        """Return an aggregator that plays a strategy."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys only")
        return lying_aggregator(attack, manifest, bfv.load_public(material))


def run(name: str, protocol: str, trials: int, seed: int, backend: str | None = None) -> Outcome:
    """Play one of `STRATEGIES` in so many sessions of "exact" or "verified", and count what a party accepts.

    Sessions have three parties with 20 to 60 rows each, all under one set of keys; rows and the liar's choices follow
    from the seed. Errors as `lying_aggregator`.
    """
    plugin: Exact = {"exact": Exact, "verified": Verified}[protocol]()
    generator = np.random.default_rng(seed)
    grid = thresholds.uniform(_THRESHOLDS)
    session = plugin.prepare(Request(parties=_SITES, thresholds=grid, backend=backend, max_rows=_MAX_ROWS))
    context = bfv.load_public(session.aggregator_material)
    earlier: Submissions | None = None
    verdicts: Counter[str] = Counter()
    for _ in range(1 + trials):
        data = [_rows(site, generator) for site in _SITES]
        manifest = msgspec.structs.replace(session.manifest, session=generator.bytes(SESSION_BYTES))
        secrets = decode(session.party_material, PartySecrets, "secrets")
        material = encode(msgspec.structs.replace(secrets, common_secret=generator.bytes(32)))
        roles = [plugin.party(manifest, material, each) for each in data]
        attack = "scale-all" if earlier is None else name  # the first session only serves to have been there
        aggregator = lying_aggregator(attack, manifest, context, generator=generator, earlier=earlier)
        _play(aggregator, roles)
        if earlier is None:
            earlier = aggregator.kept
        else:
            verdicts[_verdict(roles[0], [count(each, grid) for each in data])] += 1
    return Outcome.counted(verdicts, changed=trials)


def _play(aggregator: Aggregator, parties: Sequence[Party[Evaluation]]) -> None:
    conduct(aggregator, lambda message: ((party.name, party.respond(message)) for party in parties))


def _verdict(party: Party[Evaluation], counts: Sequence[Counts]) -> str:
    """Return what a party makes of its result: `PASSED`, `HARMLESS`, or the name of the error."""
    try:
        found = party.result().fraction
    except UndefinedAucError:  # all rows together have both classes
        return PASSED
    except FheAucError as error:
        return type(error).__name__
    return HARMLESS if found == trapezoid(sum(counts[1:], counts[0])).fraction else PASSED


def _rows(site: str, generator: np.random.Generator) -> PartyData:
    labels = generator.random(int(generator.integers(*_SITE_ROWS))) < _POSITIVES
    labels[:2] = True, False
    return PartyData.from_arrays(site, labels, generator.random(len(labels)))
