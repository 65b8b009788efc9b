"""Attacks on sessions with a helper, by the real roles: of the aggregator, of the helper, of both together, of parties.

The aggregator has the strategies that it has with sealed keys, and asks the helper for what it should not. The helper,
alone or with the aggregator, adds to the sums that it decrypts, or returns others. Together they see everything in the
clear but the parties' common secret: then no more is left to try than with `simulated`, where any lie is played a
million times. Parties tell the lies of `lying_parties`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.errors import EvaluationError, MessageError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv import SecretContext
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.results.evaluation import Evaluation, Outcome
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.session.aggregator import Aggregator, conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party, PartySide, WhoCounts
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import (
    PROTOCOLS,
    LyingHelpedSide,
    answering,
    guess_of,
    judged,
    request_for,
)
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES, ExactStrategy, ExactView
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, SITES, AttackOutcome, made_up_sites
from fhe_auc_keys.roles.helped import Told
from fhe_auc_keys.roles.helper import DECRYPT, PAD_KEY_ROUND, Blobs, Helper, HelperMaterial, Response, SignedBlob
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_protocols.exact_auc.computations import ExactComputation

AGGREGATOR_LIES, HELPER_LIES, BOTH_LIE = "aggregator", "helper", "both"
THE_AGGREGATOR, THE_HELPER, NOBODY = "the aggregator", "the helper", "nobody"  # who refused, before any party could
PARTIES = (*SITES, "west")
TOLD_BY = 2  # who lies where one party does
SEVERAL = Analysis(
    models=("a", "b"), by=(Variable("sex", ("f", "m")), Variable("age", ("young", "middle", "old"))), min_cell=1
)
LEFT_OUT = "left out"
_CAP = 90  # of each party; none has so many rows
_HONEST = STRATEGIES["swap-parties"]
_FORGED = (  # strategies that add constants to the sums, or return constants alone
    *("forge-difference", "forge-positives", "forge-all-z", "forge-at-1", "forge-at-2", "guess-point"),
    *("chosen-values", "plausible-values", "zeros"),
)

Signed = Sequence[SignedBlob]


class HelpedAttack(NamedTuple):
    """One way of lying: who lies, and what is done.

    `strategy` is the aggregator's, and `forged` one that the helper plays on the sums; where it is `apart`, each party
    is given other sums. `blobs` makes of this session's blobs and an earlier one's what the helper is given, and
    `again` is the round whose question it is asked twice, in two ways.
    """

    description: str
    who: str
    strategy: ExactStrategy = _HONEST
    forged: ExactStrategy | None = None
    apart: bool = False
    blobs: Callable[[Signed, Signed], Signed] | None = None
    again: int = 0

    @property
    def on_tags(self) -> bool:
        """Whether it makes sense with authenticators only."""
        return self.strategy.on_tags or (self.forged is not None and self.forged.on_tags)


def _made_up(blobs: Signed, earlier: Signed) -> Signed:
    """Keep one party's blob; sign the others with a key that is nobody's, as the aggregator has no party's."""
    stranger, replace = Identity.create("stranger"), msgspec.structs.replace
    return blobs[0], *(replace(each, signature=stranger.sign(b"", each.blob)) for each in blobs[1:])


def _renamed(blobs: Signed, earlier: Signed) -> Signed:
    return tuple(msgspec.structs.replace(blobs[0], party=each.party) for each in blobs)


ATTACKS: dict[str, HelpedAttack] = {
    **{name: HelpedAttack(strategy.description, AGGREGATOR_LIES, strategy) for name, strategy in STRATEGIES.items()},
    "two-lists": HelpedAttack("have a pad key made for all, then for two", AGGREGATOR_LIES, again=PAD_KEY_ROUND),
    "two-results": HelpedAttack("have two results decrypted", AGGREGATOR_LIES, again=DECRYPT),
    "made-up-parties": HelpedAttack(
        "have a pad key made for one party, among made-up ones", AGGREGATOR_LIES, blobs=_made_up
    ),
    "renamed-blobs": HelpedAttack("hand in one party's blob in all names", AGGREGATOR_LIES, blobs=_renamed),
    "replay-blobs": HelpedAttack("hand in an earlier session's blobs", AGGREGATOR_LIES, blobs=lambda _, old: old),
    **{
        f"helper-{name}": HelpedAttack(STRATEGIES[name].description, HELPER_LIES, forged=STRATEGIES[name])
        for name in _FORGED
    },
    **{
        f"both-{name}": HelpedAttack(
            f"to each party of its own: {STRATEGIES[name].description}", BOTH_LIE, forged=STRATEGIES[name], apart=True
        )
        for name in ("forge-difference", "guess-point", "plausible-values")
    },
}
"""By name."""


class _Forging(ExactComputation):
    """Decrypts, and plays a strategy on the sums."""

    def __init__(self, manifest: Manifest, strategy: ExactStrategy, generator: np.random.Generator) -> None:
        super().__init__(manifest)
        self._strategy, self._generator = strategy, generator

    def decrypt(self, secret: SecretContext, result: bytes) -> list[Residues]:
        """Return other sums than the result's."""
        seed = self._generator.integers(2**63)  # the same choices for every prime
        found = []
        for totals, prime in zip(super().decrypt(secret, result), self.primes, strict=True):
            unseen = [np.zeros(self.size, np.uint64)]
            view = ExactView(self.plan.computed, prime, unseen, (), (0,), 0, np.random.default_rng(seed))
            claim = self._strategy.play(view)
            found.append(modular.add(totals, claim.added, prime) if claim.computed else claim.added)
        return found


class LyingHelper(PartySide[Outcome]):
    """Returns what its computation makes of the sums; as many `responses` as it makes, the last in its answer."""

    def __init__(self, manifest: Manifest, computation: _Forging, own: HelperMaterial, *, responses: int) -> None:
        self._honest = Helper(manifest, computation, own)
        self.rounds, self.download_limit = self._honest.rounds, self._honest.download_limit
        self._number_of_responses = responses
        self.responses: list[Response] = []

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return what an honest one answers, but for the sums."""
        kept, answer = self._honest.kept(), b""
        for _ in range(1 if number == PAD_KEY_ROUND else self._number_of_responses):
            self._honest.restore(kept)
            answer = self._honest.answer(number, payload, who)
            if number == DECRYPT:
                self.responses.append(decode(answer, Response, "response"))
        self.failure = self._honest.failure
        return answer

    def read(self, payload: bytes, who: WhoCounts) -> Outcome:
        """Read nothing, as an honest one."""
        return self._honest.read(payload, who)


def run(
    name: str, protocol: str, trials: int, seed: int, backend: str | None = None, *, proofs: bool = True
) -> AttackOutcome:
    """Play one of `ATTACKS` or `LIES` in so many sessions, by the seed.

    It passes where any party accepts a wrong result. Where a party lies, refusals go by who names it.
    """
    generator = np.random.default_rng(seed)
    if name in LIES:
        found = Counter[str]()
        for _ in range(trials):
            told = play({TOLD_BY: LIES[name]}, protocol, generator, proofs=proofs, backend=backend)
            found[told.named_by.get(PARTIES[TOLD_BY], NOBODY) if told.verdict == LEFT_OUT else told.verdict] += 1
        return AttackOutcome.counted(found, changed=trials)
    attack, earlier = ATTACKS[name], None
    if attack.strategy.staged or attack.blobs is not None:
        earlier, _ = _play(HelpedAttack("", AGGREGATOR_LIES), protocol, backend, generator, None)
    verdicts = (_play(attack, protocol, backend, generator, earlier)[1] for _ in range(trials))
    return AttackOutcome.counted(Counter(verdicts), changed=trials)


def _play(
    attack: HelpedAttack,
    protocol: str,
    backend: str | None,
    generator: np.random.Generator,
    earlier: LyingHelpedSide | None,
) -> tuple[LyingHelpedSide, str]:
    """Play a session; return what its aggregator was, and what comes of it: `judged`, or that `THE_HELPER` refused."""
    plugin = PROTOCOLS[protocol]()
    session = plugin.prepare(request_for(backend, min_parties=2, keys="helper"))
    manifest, delivery, sites = session.manifest, session.delivery(), made_up_sites(generator)
    side = LyingHelpedSide(manifest, attack.strategy, generator, earlier=earlier, guess=guess_of(sites))
    aggregator = Aggregator(manifest, side)
    roles = [plugin.party(manifest, delivery.parties[site.name], site) for site in sites]
    material, liar = delivery.helper or b"", None
    helper = plugin.helper(manifest, material)
    if attack.forged is not None:
        computation = _Forging(manifest, attack.forged, generator)
        own = decode(material, HelperMaterial, "material")
        liar = LyingHelper(manifest, computation, own, responses=len(roles) if attack.apart else 1)
        helper = Party(manifest, HELPER, liar)

    def exchange(message: bytes) -> Iterator[tuple[str, bytes]]:
        if attack.blobs is not None and aggregator.round == PAD_KEY_ROUND:
            given = attack.blobs(side.blobs(), earlier.blobs() if earlier else ())
            message = _with(message, encode(Blobs(tuple(given))))
        if attack.apart and aggregator.round == aggregator.rounds and liar is not None:
            for role, response in zip(roles, liar.responses, strict=True):
                own = encode(Told(side.honest.word, encode(response)))
                yield role.name, role.respond(_with(message, own))
            return
        yield from answering(aggregator, [*roles, helper])(message)
        if attack.again == aggregator.round:
            other = encode(Blobs(side.blobs()[:2])) if attack.again == PAD_KEY_ROUND else side.encrypted_result()
            helper.respond(_with(message, other))

    try:
        conduct(aggregator, exchange)
    except (EvaluationError, MessageError):
        return side, THE_HELPER
    claimed = [number for number, role in enumerate(roles) if role.name in aggregator.counted]
    return side, judged([roles[number] for number in claimed], [sites[number] for number in claimed])


def _with(message: bytes, payload: bytes) -> bytes:
    found = Message.from_bytes(message, limit=len(message))
    return msgspec.structs.replace(found, payload=payload).to_bytes()


class Trial(NamedTuple):
    """What came of a session.

    verdict : `PASSED` where an honest party accepts a wrong number, `HARMLESS` where what all accept is right though a
        liar counts, `LEFT_OUT` where no liar counts and it is right; or the name of the error with which they refuse
    named_by : who names each party that is left out, `THE_AGGREGATOR` or `THE_HELPER`
    """

    verdict: str
    named_by: Mapping[str, str]


def play(
    lies: Mapping[int, Lie],
    protocol: str,
    generator: np.random.Generator,
    *,
    proofs: bool = True,
    backend: str | None = None,
) -> Trial:
    """Play a session in which the parties of these indices lie; `proofs`: whether parties prove their row caps.

    Rows have groups and two models where a lie takes them.
    """
    analysis = SEVERAL if any(lie.columns or lie.models > 1 for lie in lies.values()) else PLAIN
    plugin = PROTOCOLS[protocol]()
    caps = _CAP if proofs else None
    request = request_for(backend, parties=PARTIES, min_parties=2, keys="helper", row_caps=caps, analysis=analysis)
    session, sites = plugin.prepare(request), made_up_sites(generator, PARTIES, analysis)
    manifest, delivery = session.manifest, session.delivery()
    aggregator, helper = plugin.aggregator(manifest, b""), plugin.helper(manifest, delivery.helper or b"")
    rows = sum(data.rows for data in sites)
    roles: list[Party[Evaluation]] = []
    for index, data in enumerate(sites):
        material = delivery.parties[data.name]
        if index in lies:
            roles.append(lying_party(manifest, material, data, lies[index], rows))
        else:
            roles.append(plugin.party(manifest, material, data))

    try:
        conduct(aggregator, answering(aggregator, [*roles, helper]), refused=lambda error: None)
    except EvaluationError as error:
        return Trial(type(error).__name__, {})
    counted, named = aggregator.counted, aggregator.refusals
    named_by = {party: THE_HELPER if party in helper.who.unproved else THE_AGGREGATOR for party in named}
    honest = [role for index, role in enumerate(roles) if index not in lies]
    worst = judged(honest, [data for data in sites if data.name in counted], analysis)
    if worst == HARMLESS and not any(PARTIES[index] in counted for index in lies):
        worst = LEFT_OUT
    return Trial(worst, named_by)
