"""The blinded AUC without rounds and messages: counts, and the circuit on submissions that are there already."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fhe_auc import ckks
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rows.counts import Counts
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan, Plan
from fhe_auc_keys.bundles.session_keys import party_secrets
from fhe_auc_protocols.blinded_auc import semi_honest
from fhe_auc_protocols.blinded_auc.blinded_plan import AucPlan, Workload, smallest_plan
from fhe_auc_protocols.blinded_auc.blinded_protocol import trapezoid_computation
from fhe_auc_protocols.blinded_auc.blinding import RandomBits
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import blinded_sums, packed
from fhe_auc_protocols.blinded_auc.masked_shares import Run, runs
from fhe_auc_protocols.blinded_auc.result_check import Recovered, Totals, accept, recover
from tests.support.exact_sessions import Play
from tests.support.wire import payload_of


def largest_multiplier(bits: int) -> int:
    """Random bits, pinned: the multiplier comes out as the largest that there is."""
    return 0


def smallest_multiplier(bits: int) -> int:
    """As the smallest."""
    return 2**bits - 1


def counts_of(bin_positives: Any, bin_negatives: Any) -> Counts:
    """Counts from rows per bin."""
    return Counts(*(np.cumsum(np.asarray(side, np.int64)[::-1])[::-1] for side in (bin_positives, bin_negatives)))


def encoded(plan: Plan) -> EncodedPlan:
    """The plan as it stands in a manifest."""
    return EncodedPlan(plan.kind, encode(plan))


def manifest_with(content: EncodedPlan, *, thresholds: int = 16, parties: int = 2, **changes: Any) -> Manifest:
    """A manifest without keys."""
    values = {
        "protocol": "semi-honest",
        "session": bytes(16),
        "parties": tuple(f"site {number}" for number in range(parties)),
        "grid": np.linspace(0, 1, thresholds).tobytes(),
        "min_parties": parties,
        "keys": "sealed",
        "context": bytes(32),
        "plan": content,
    }
    return Manifest(**{**values, **changes})


def blocks(plan: AucPlan, counts: Counts, runs: Sequence[Run] = ()) -> list[ckks.Slots]:
    """What a party with these counts encrypts."""
    vectors = [run.vectors(counts) for run in runs] or [semi_honest.vectors(counts, plan.positions)]
    return packed(plan, vectors)


class Algebra:
    """One context and either protocol's algebra on it, without rounds: for sweeps over many counts."""

    def __init__(self, backend: Any, **workload: Any) -> None:
        self.plan: AucPlan = smallest_plan(Workload(**{"thresholds": 100, "parties": 100, **workload}), backend)
        self.keys = ckks.generate(self.plan.parameters)
        self.runs = runs(secrets.token_bytes(32), bytes(32), self.plan) if self.plan.split else []

    def submission(self, counts: Counts) -> tuple[bytes, ...]:
        """What a party submits, without envelope and mask."""
        return tuple(map(self.keys.secret.encrypt, blocks(self.plan, counts, self.runs)))

    def result(
        self, submissions: Iterable[Sequence[bytes]], draw: RandomBits = secrets.randbits, extra: Any = None
    ) -> bytes:
        """What the aggregator makes of submissions, and of `extra` ciphertexts that were added up before."""
        total = running_sum(self.keys.public, self.plan.blocks)
        for each in submissions:
            total.add(each)
        for words, more in zip(total.totals, extra or (), strict=extra is not None):
            self.keys.public.ciphertext_shape.add_in_place(words, more)
        return blinded_sums(self.plan, self.keys.public, total.totals, draw=draw)

    def totals(self, parties: Iterable[Counts], draw: RandomBits = secrets.randbits, extra: Any = None) -> Totals:
        """The decrypted class totals of parties with these counts."""
        submissions = [self.submission(counts) for counts in parties]
        return self.keys.secret.decrypt_sums(self.result(submissions, draw, extra), self.plan.squares)

    def recover(self, parties: Iterable[Counts], draw: RandomBits = secrets.randbits, extra: Any = None) -> Recovered:
        return self.read(self.totals(parties, draw, extra))

    def read(self, totals: Totals, plan: AucPlan | None = None) -> Recovered:
        """What a party reads off class totals, by the rules of another `plan` if there is one."""
        chosen = plan or self.plan
        return accept(totals, chosen, self.runs) if chosen.split else recover(totals, chosen)

    def errors(self, parties: int) -> list[Words]:
        """The sum of so many submissions without rows: no signal, all the encryptions' errors."""
        nothing = counts_of(*np.zeros((2, self.plan.thresholds)))
        total = running_sum(self.keys.public, self.plan.blocks)
        for _ in range(parties):
            total.add(self.submission(nothing))
        return total.totals


def session_sums(parties: Sequence[PartyData], tamper: Any = None, **asked: Any) -> Any:
    """Play a session of `semi-honest`; return what all parties tell, and the AUC and binning error that they read.

    `tamper(aggregator, submissions)` makes the result of an aggregator that deviates.
    """
    play = Play("semi-honest", parties, asked.pop("thresholds"), **{"max_rows": 10**6, **asked})
    sent = play.answers(play.aggregator.start())
    if tamper:
        content = tamper(play.aggregator, {name: payload_of(each) for name, each in sent.items()})
        play.aggregator._side.aggregate = lambda _: content
    message = play.deliver(sent)
    assert message is not None
    result, told = decode(payload_of(message), Result, "result").content, play.read(message)
    secrets_of = party_secrets(play.material[parties[0].name], play.manifest)
    computation = trapezoid_computation(play.manifest)
    return told, recover(
        computation.decrypt(computation.secret(secrets_of.context), result), play.manifest.decoded_plan(AucPlan)
    )
