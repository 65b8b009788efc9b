"""Attacks on real ciphertexts: an aggregator that lies, against parties that follow the protocol.

The liar holds what every aggregator holds: the public key, and what parties send. It has neither the secret key nor the
common secret. A strategy gets these things (`aggregator_view`) and returns the result.

To give attacks their best chance, liars know about how many rows there are, and choose the blinding multiplier as large
as the modulus allows: weights are rounded to integer polynomials, and so become as exact as they can be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError, FheAucError, ResultCheckError, UndefinedAucError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.serialise import decode, encode
from fhe_auc.ckks import PublicContext, Slots
from fhe_auc.ckks.parameters import PRODUCTS
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import count
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.attacks import Attacks
from fhe_auc.session.ckks_computation import Sums
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.blinded_auc.aggregator_view import BlindedView, Earlier, Submission
from fhe_auc_benchmarks.attacks.blinded_auc.strategies import NEED_EARLIER, STRATEGIES, Lie
from fhe_auc_benchmarks.attacks.laboratory import HARM, SITES, AttackOutcome, made_up_sites, strategy_of, verdict
from fhe_auc_keys.roles.sealed import SealedAggregator
from fhe_auc_protocols.blinded_auc.malicious import Malicious, MaliciousTask
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.protocol import BlindedAuc, trapezoid_computation
from fhe_auc_protocols.blinded_auc.result_check import accept, recover
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest

PROTOCOLS: dict[str, type[BlindedAuc]] = {"semi-honest": SemiHonest, "malicious": Malicious}
"""Protocols that can be attacked, by name."""

_RESULT_ROUND = 2
_THRESHOLDS = 16
_CHANGES = 0.002, 0.02  # relative; the least that does harm is the likeliest to pass
_SHOWN_CHANGE = 0.07
_SAME = 1e-9  # honest totals agree better with the exact ones, even at 100 rows


class LyingSealedSide(AggregatorSide):
    """What an aggregator sends that plays one attack, with what every aggregator holds.

    Echoes are the honest ones: it passes them on as they came.
    """

    def __init__(self, honest: SealedAggregator, context: PublicContext, lie: Callable[[], bytes]) -> None:
        self.rounds = honest.rounds
        self._honest, self._context, self._lie = honest, context, lie
        self.submissions: dict[str, Submission] = {}

    def limit(self, number: int) -> int:
        """Return that of an honest one."""
        return self._honest.limit(number)

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Keep what a party sends."""
        self._honest.accept(number, party, payload)
        if number == 1:
            blocks = decode(payload, tuple[bytes, ...], "submission")
            self.submissions[party] = [self._context.read_submission(block) for block in blocks]

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return what the lie makes a result."""
        return self._honest.close(number, counted, keep) if number > 1 else encode(Result(counted, self._lie()))


class LyingSealedAggregator(Aggregator):
    """An aggregator that plays one attack, and may tamper with the message that carries it.

    `earlier` is what is left of an earlier session. `change` is that of the `BlindedView`; None: drawn anew, small,
    which is the likeliest to pass. `rows` is about how many all parties have; the generator is for the attack's
    choices.
    """

    def __init__(
        self,
        manifest: Manifest,
        context: PublicContext,
        lie: Lie,
        *,
        generator: np.random.Generator,
        rows: int,
        earlier: Earlier | None = None,
        change: float | None = None,
    ) -> None:
        computation, plan = trapezoid_computation(manifest), manifest.decoded_plan(AucPlan)
        total, aggregate = computation.running_sum(context), partial(computation.aggregate, context)
        honest = SealedAggregator(total, aggregate, computation.payload_limit, echo=plan.split)
        self._lies = LyingSealedSide(honest, context, self._made)
        super().__init__(manifest, self._lies)
        if change is None:
            change = float(np.exp(generator.uniform(*np.log(_CHANGES))))
        self._lie = lie
        self._view = BlindedView(context, plan, self._lies.submissions, generator, rows, change, earlier)
        self._content = self._tampered = b""

    @property
    def kept(self) -> Earlier:
        """What this session leaves behind for a later one."""
        return Earlier(self._lies.submissions, self._content, self._tampered)

    def _made(self) -> bytes:
        self._content = self._lie(self._view)
        return self._content

    def finish_round(self) -> bytes | None:
        """Close the round as an honest aggregator does, and tamper with the message."""
        message = super().finish_round()
        if message is None or self.round > _RESULT_ROUND:
            return message
        self._tampered = self._view.tamper(message)
        return self._tampered


class BlindedAucAttacks(Attacks):
    """Strategies against ``semi-honest`` and ``malicious``, to be seen: they change more than they need."""

    descriptions = MappingProxyType({name: strategy.description for name, strategy in STRATEGIES.items()})

    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> LyingSealedAggregator:
        """Return an aggregator that plays a strategy; raise `InputError` for another name."""
        context, lie = ckks.load_public(material), strategy_of(attack, STRATEGIES).lie
        generator = np.random.default_rng(0)
        return LyingSealedAggregator(manifest, context, lie, generator=generator, rows=rows, change=_SHOWN_CHANGE)


class SharedKeys(NamedTuple):
    """A manifest and the keys that it names, for as many sessions as one likes."""

    protocol: BlindedAuc
    manifest: Manifest
    public: PublicContext
    secret: ckks.SecretContext


@lru_cache(maxsize=4)
def shared_keys(protocol: str, backend: ckks.BackendName) -> SharedKeys:
    """Return keys for three parties; the same ones when asked again."""
    plugin = PROTOCOLS[protocol]()
    grid = thresholds.uniform(_THRESHOLDS)
    session: Any = plugin.prepare(Request(parties=SITES, thresholds=grid, backend=backend))
    public, secret = ckks.load_public(session.aggregator_material), ckks.load_secret(session.common.context)
    return SharedKeys(plugin, session.manifest, public, secret)


class HonestParties:
    """Parties of one session, with rows, a session id and a common secret made up for it; the CKKS keys are reused."""

    def __init__(self, keys: SharedKeys, generator: np.random.Generator) -> None:
        self._keys = keys
        self.manifest = msgspec.structs.replace(keys.manifest, session=generator.bytes(SESSION_BYTES))
        self.plan = self.manifest.decoded_plan(AucPlan)
        self._common_secret = secret = generator.bytes(COMMON_SECRET_BYTES)
        sites = made_up_sites(generator)
        self._tasks = [keys.protocol.task(self.manifest, data) for data in sites]
        kind = keys.protocol.sealed_keys()
        shared = self.manifest, kind.computation(self.manifest), keys.secret
        self._parties = [kind.with_keys(*shared, task, secret) for task in self._tasks]
        first, *others = (count(data, self.manifest.thresholds) for data in sites)
        pooled = sum(others, start=first)
        self.rows = pooled.positives + pooled.negatives
        exact = trapezoid(pooled)
        self.auc, self.den = exact.auc, exact.den

    def play(self, aggregator: LyingSealedAggregator) -> bytes:
        """Play the session up to the message that carries the result."""
        self._aggregator = aggregator
        return self._round(aggregator.start())

    def read(self, message: bytes) -> float:
        """Return the AUC that parties accept, before they round it, or raise `FheAucError`; one reads it for all."""
        self._parties[0].respond(self.last(message))
        self._parties[0].result()
        return self.unrounded(message)

    def unrounded(self, message: bytes) -> float:
        """Return the AUC in a result with all digits; errors as `read`."""
        totals, task = self._sums(message), self._tasks[0]
        if isinstance(task, MaliciousTask):
            return accept(totals, self.plan, task.runs(self._common_secret)).auc
        return recover(totals, self.plan).auc

    def _sums(self, message: bytes) -> Sums:
        payload = Message.from_bytes(message, limit=len(message)).payload
        return self._keys.secret.decrypt_sums(decode(payload, Result, "result").content, self.plan.squares)

    def last(self, message: bytes) -> bytes:
        """Return the last round's message: parties may compare results before they read the one in `message`."""
        if not self.plan.split:
            return message
        return self._round(message)

    def _round(self, message: bytes) -> bytes:
        for name, answer in [(party.name, party.respond(message)) for party in self._parties]:
            self._aggregator.receive(name, answer)
        return self._aggregator.finish_round() or b""

    def verdict(self, message: bytes) -> str:
        """Return what parties make of a result: `PASSED`, `HARMLESS`, or the name of the check that refuses it."""
        return verdict(lambda: abs(self.read(message) - self.auc) < HARM, check_of)

    def says_the_same(self, message: bytes) -> bool:
        """Tell whether the result holds the honest class totals, up to a factor common to all; with the secret key."""
        try:
            found = self._sums(message)
        except FheAucError:
            return False
        z = np.array(self.summed())
        z = z.reshape(self.plan.squares, -1, *z.shape[1:]).swapaxes(1, 2).reshape(self.plan.squares, z.shape[1], -1)
        triples = np.array(PRODUCTS[z.shape[1]])
        exact = 2 * (z[:, triples[:, :1]] * z[:, triples[:, 1:]]).sum(axis=-1).reshape(self.plan.runs, -1)
        factor = (np.vdot(exact, found) / np.vdot(exact, exact)).real
        return bool(np.abs(found - factor * exact).max() <= _SAME * factor * np.abs(exact).max())

    def summed(self) -> list[Slots]:
        """Return what all parties encrypt, summed up, block by block."""
        encoded = (task.encode(self._common_secret) for task in self._tasks)
        return [sum(blocks[1:], start=blocks[0]) for blocks in zip(*encoded, strict=True)]


def run(name: str, protocol: str, trials: int, seed: int, *, backend: str | None = None) -> AttackOutcome:
    """Play a strategy against honest parties of "semi-honest" or "malicious", once a trial.

    Every trial is a session of its own, with its own id, rows and common secret. The CKKS keys are those of all trials,
    which takes nothing from the liar, and gives it earlier sessions under the same keys. Rows and the liar's choices
    follow from the seed; keys do not, and with them neither noise nor what the common secret derives.
    """
    lie = strategy_of(name, STRATEGIES).lie
    keys = shared_keys(protocol, ckks.choose_backend(backend))
    verdicts: Counter[str] = Counter()
    changed = 0
    for trial in range(trials):
        generator = np.random.default_rng([seed, trial])
        earlier = _earlier(keys, generator) if name in NEED_EARLIER else None
        parties = HonestParties(keys, generator)
        liar = LyingSealedAggregator(
            parties.manifest, keys.public, lie, generator=generator, rows=parties.rows, earlier=earlier
        )
        message = parties.play(liar)
        changed += not parties.says_the_same(message)
        verdicts[parties.verdict(message)] += 1
    return AttackOutcome.counted(verdicts, changed=changed)


def check_of(error: FheAucError) -> str:
    """Return the name of the check that has refused a result: "message" for what does not get as far as a check."""
    if isinstance(error, ResultCheckError):
        return str(error.check)
    if isinstance(error, UndefinedAucError):
        return "undefined"
    return "message" if isinstance(error, DeserialisationError) else type(error).__name__


def _earlier(keys: SharedKeys, generator: np.random.Generator) -> Earlier:
    """Return what an honest session under the same keys has left behind."""
    parties, honest = HonestParties(keys, generator), BlindedView.result
    aggregator = LyingSealedAggregator(parties.manifest, keys.public, honest, generator=generator, rows=parties.rows)
    parties.play(aggregator)
    return aggregator.kept
