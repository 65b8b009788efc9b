"""Lies told on real pad keys, and what parties make of a result.

Of an aggregator, with sealed keys or a helper; of the helper, which returns other sums; and of parties with a helper.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UndefinedAucError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv import SecretContext
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation, Outcome
from fhe_auc.rlwe.modular import Residues, add, multiply, total
from fhe_auc.rows.counts import count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request
from fhe_auc.sums.expansion import coefficients
from fhe_auc.sums.pads import PadKey
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, Computed, Strategy, View, honest
from fhe_auc_benchmarks.attacks.laboratory import (
    HARMLESS,
    PASSED,
    SITES,
    LyingSide,
    answering,
    known,
    made_up_sites,
    refused_by,
)
from fhe_auc_keys.bundles.session_keys import public_context
from fhe_auc_keys.roles.helped import HelpedAggregator
from fhe_auc_keys.roles.helper import PAD_KEY_ROUND, Helper, HelperMaterial
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.exact_auc.computations import ExactComputation
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import Exact, Verified

PROTOCOLS: dict[str, type[Exact]] = {"exact": Exact, "verified": Verified}
GRID = thresholds.uniform(8)
HONEST = Strategy("", honest)
THE_AGGREGATOR, THE_HELPER = "the aggregator", "the helper"  # who names a party that lies
PARTIES = (*SITES, "west")
TOLD_BY = 2  # who lies where one party does
LEFT_OUT = "left out"
_CAP = 90  # of each party; none has so many rows
FORGED = "forge-difference", "forge-at-1", "guess-point", "chosen-values", "plausible-values", "zeros"
"""Strategies that add constants to the sums, or return constants alone."""


def lying_side(
    manifest: Manifest, strategy: Strategy, generator: np.random.Generator, *, pad_key: bytes = b"", guess: int = 0
) -> LyingSide:
    """Return what an aggregator sends that returns what a strategy makes of padded sketches and pad keys.

    `pad_key` is what it has been given; with a helper it asks for one. Generator and `guess` are for choices.
    """
    computation = ExactComputation(manifest)
    helped = HelpedAggregator(manifest, computation) if manifest.keys == "helper" else None

    def sketches(sent: Mapping[str, bytes]) -> list[list[Residues]]:
        """Return each party's padded sketches, one for each prime."""
        found = []
        for party in manifest.parties:
            only = computation.running_sum()
            parts = helped.submissions[party].parts if helped else decode(sent[party], tuple[bytes, ...], "submission")
            only.add(parts)
            found.append(computation.sketches(only.totals))
        return found

    def made(sent: Mapping[str, bytes], counted: tuple[str, ...]) -> bytes:
        """Return the encrypted result, flooded as honest ones are."""
        keys: PadKey | None = helped.keys if helped else computation.keys(*public_context(pad_key))
        if keys is None:
            raise EvaluationError("the helper has not answered, or made no pad key")
        plan, seed, results, own = computation.plan, generator.integers(2**63), list[bytes](), sketches(sent)
        for which, prime in enumerate(plan.parameters.plain_moduli):
            choices = np.random.default_rng(seed)  # the same for every prime
            view = View(plan.computed[which], prime, [each[which] for each in own], guess, choices)
            claim, public, layout = strategy.tell(view), keys.public, plan.layouts[which]
            for layer in range(layout.layers):
                masks = [layout.mask(KeyStream(choices.bytes(32)), claim.constants(view), prime, layer)]
                factors: list[Residues] = []
                for each in claim.computed:
                    own_factors, mask = evaluated(keys, which, each, layer)
                    factors.extend(own_factors)
                    masks.append(mask)
                ciphertexts = [*keys.ciphertexts[which]] * len(claim.computed)
                found = public.sum_of_products(which, ciphertexts, factors)
                results.append(
                    public.dump_result(public.flood(found, total(np.array(masks), prime, axis=0)), plan.kept)
                )
        return encode(Result(counted, encode(tuple(results))))

    if helped:
        return LyingSide(helped, PAD_KEY_ROUND, made)
    limit, echo = computation.payload_limit, computation.plan.authenticated
    return LyingSide(SealedAggregator(computation.running_sum(), bytes, limit, echo=echo), 1, made)  # never summed


def evaluated(pad_key: PadKey, which: int, of: Computed, layer: int) -> tuple[Residues, Residues]:
    """Return what ciphertexts are multiplied by, and a mask, of a layer's sums of one prime, each times its weight."""
    release, prime = pad_key.releases[which], pad_key.public.parameters.plain_moduli[which]
    at, clear, hidden = release.evaluate(of.pooled, prime), list[Residues](), list[list[Residues]]()
    for index, own in enumerate(release.sums):
        weight, (first, others) = np.uint64(of.weights.get(index, 1) % prime), coefficients(own, at, prime)
        clear.append(multiply(first, weight, prime))
        hidden.append([multiply(vector, weight, prime) for vector in others])
    mask = pad_key.layouts[which].mask(KeyStream(secrets.token_bytes(32)), np.concatenate(clear), prime, layer)
    return pad_key.layouts[which].coefficients(hidden, layer), mask


class ExactAucAttacks(Attacks):
    """Strategies against ``exact`` and ``verified``, and lies of a party."""

    descriptions: ClassVar[Mapping[str, str]] = {name: strategy.what for name, strategy in STRATEGIES.items()}
    of_parties: ClassVar[Mapping[str, str]] = {name: lie.what for name, lie in LIES.items()}

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy; one that is staged cannot be played on a session alone."""
        known(attack, STRATEGIES)
        strategy, plan = STRATEGIES[attack], manifest.decoded_plan(ExactPlan)
        if strategy.staged:
            raise InputError(f"attack {attack!r} takes more than this session; play it with fhe-auc attack")
        if strategy.on_tags and not plan.authenticated:
            raise InputError(f"attack {attack!r} is on tags, and protocol {manifest.protocol!r} has none")
        if min(manifest.min_parties, plan.thresholds) < 2:
            raise InputError("attacks are played with two thresholds and two parties at least")
        return Aggregator(manifest, lying_side(manifest, strategy, np.random.default_rng(), pad_key=material))

    def party(
        self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int
    ) -> Party[Evaluation]:
        """Return a party that tells a lie of `LIES`."""
        known(attack, LIES)
        LIES[attack].check(attack, manifest.decoded_plan(ExactPlan))
        return lying_party(manifest, material, data, LIES[attack], rows)


def request_for(**changes: Any) -> Request:
    """Return a request for sessions of three sites, or others."""
    return Request(**{"parties": SITES, "thresholds": GRID, "max_rows": 1_000, **changes})


def right(parties: Sequence[PartyData]) -> tuple[Fraction, float, float, int, int]:
    """Return AUC, least and largest binning error, P and N, pair by pair of rows: merged pairs, and all ties."""
    labels = np.concatenate([data.y_true for data in parties])
    scores = np.concatenate([data.y_score for data in parties])
    bins = np.searchsorted(GRID, scores, side="right")
    signs = np.sign(bins[labels][:, None] - bins[~labels][None, :])
    merged = (signs == 0) & (scores[labels][:, None] != scores[~labels])
    auc = Fraction(1, 2) + Fraction(int(signs.sum()), 2 * signs.size)
    least, most = (float(each.sum() / (2 * signs.size)) for each in (merged, signs == 0))
    return auc, least, most, int(labels.sum()), int((~labels).sum())


def judged(roles: Sequence[Party[Evaluation]], counted: Sequence[PartyData]) -> str:
    """Return the worst that these parties make of their results, in the belief that these rows count.

    That is `PASSED`, the name of the check with which one refuses, or `HARMLESS`. All rows together have both classes:
    "undefined" is wrong, too.
    """
    found, (auc, merged, ties, *rows) = set[str](), right(counted)
    for role in roles:
        try:
            told = role.result()
            fits = (told.fraction, told.positives, told.negatives) == (auc, *rows)
            found.add(HARMLESS if fits and merged <= told.binning_error <= ties else PASSED)
        except UndefinedAucError:
            found.add(PASSED)
        except FheAucError as error:
            found.add(refused_by(error))
    return PASSED if PASSED in found else min(found - {HARMLESS}, default=HARMLESS)


def play(
    strategy: Strategy,
    keys: str,
    protocol: str,
    generator: np.random.Generator,
    helper: Callable[[Manifest, bytes], Party[Any]] | None = None,
) -> str:
    """Play a session in which the aggregator plays a strategy, by default with an honest helper, if any: `judged`."""
    plugin = PROTOCOLS[protocol]()
    session = plugin.prepare(request_for(keys=keys))
    manifest, delivery, sites = session.manifest, session.delivery(), made_up_sites(generator)
    guess = sum(int(count(each, GRID).bin_positives[0]) for each in sites)
    roles = [plugin.party(manifest, delivery.parties[site.name], site) for site in sites]
    side = lying_side(manifest, strategy, generator, pad_key=delivery.aggregator, guess=guess)
    aggregator, everybody = Aggregator(manifest, side), list[Party[Any]](roles)
    if delivery.helper is not None:
        everybody.append((helper or plugin.helper)(manifest, delivery.helper))
    conduct(aggregator, answering(aggregator, everybody))
    return judged(roles, sites)


class _Forging(ExactComputation):
    """Decrypts, and plays a strategy on the sums."""

    def __init__(self, manifest: Manifest, strategy: Strategy, generator: np.random.Generator) -> None:
        super().__init__(manifest)
        self._strategy, self._generator = strategy, generator

    def decrypt(self, secret: SecretContext, result: bytes) -> list[Residues]:
        """Return other sums than the result's."""
        seed, found = self._generator.integers(2**63), []  # the same choices for every prime
        of_primes = zip(super().decrypt(secret, result), self.plan.computed, self.primes, strict=True)
        for totals, computed, prime in of_primes:
            unseen = [np.zeros(computed.sketch.size, np.uint64)]
            view = View(computed, prime, unseen, 0, np.random.default_rng(seed))
            claim = self._strategy.tell(view)
            found.append(add(totals if claim.computed else np.zeros_like(totals), claim.constants(view), prime))
        return found


def play_forged(strategy: Strategy, protocol: str, generator: np.random.Generator) -> str:
    """Play a session in which the helper forges the sums."""

    def forging(manifest: Manifest, material: bytes) -> Party[Outcome]:
        own = decode(material, HelperMaterial, "material")
        return Party(manifest, HELPER, Helper(manifest, _Forging(manifest, strategy, generator), own))

    return play(HONEST, "helper", protocol, generator, helper=forging)


class Trial(NamedTuple):
    """What came of a session.

    came : as of `judged`, by the honest parties; `LEFT_OUT` where no liar counts and it is right
    named_by : who names each party that is left out, `THE_AGGREGATOR` or `THE_HELPER`
    """

    came: str
    named_by: Mapping[str, str]


def play_parties(
    lies: Mapping[int, Lie], protocol: str, generator: np.random.Generator, *, proofs: bool = True
) -> Trial:
    """Play a session in which the parties of these indices lie; `proofs`: whether parties prove their row caps."""
    plugin, sites = PROTOCOLS[protocol](), made_up_sites(generator, PARTIES)
    caps = _CAP if proofs else None
    session = plugin.prepare(request_for(parties=PARTIES, min_parties=2, keys="helper", row_caps=caps))
    manifest, delivery = session.manifest, session.delivery()
    aggregator, helper = plugin.aggregator(manifest, b""), plugin.helper(manifest, delivery.helper or b"")
    rows, roles = sum(data.rows for data in sites), list[Party[Evaluation]]()
    for index, data in enumerate(sites):
        lying = partial(lying_party, lie=lies[index], rows=rows) if index in lies else plugin.party
        roles.append(lying(manifest, delivery.parties[data.name], data))
    try:
        conduct(aggregator, answering(aggregator, [*roles, helper]), refused=lambda error: None)
    except EvaluationError as error:
        return Trial(refused_by(error), {})
    counted, named = aggregator.counted, aggregator.refusals
    named_by = {party: THE_HELPER if party in helper.who.unproved else THE_AGGREGATOR for party in named}
    honest = [role for index, role in enumerate(roles) if index not in lies]
    came = judged(honest, [data for data in sites if data.name in counted])
    left_out = came == HARMLESS and not any(PARTIES[index] in counted for index in lies)
    return Trial(LEFT_OUT if left_out else came, named_by)


def play_party(name: str, proofs: bool, protocol: str, generator: np.random.Generator) -> str:
    """Play a session in which one party tells one of `LIES`; return what came of it, or who names the liar."""
    told = play_parties({TOLD_BY: LIES[name]}, protocol, generator, proofs=proofs)
    return f"{told.named_by[PARTIES[TOLD_BY]]} names it" if told.came == LEFT_OUT else told.came
