"""What is measured: one way to the pooled AUC of made-up rows; here our own protocols, with all their roles."""

import secrets
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.base.serialise import encode
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows.counts import Counts, count
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.bundles.sealed_bundles import open_for_aggregator, open_for_party, seal_bundle, seal_to_aggregator
from fhe_auc_keys.bundles.session_keys import DealtSession
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.message_signatures import SessionProtection

_AT_ONCE = 100  # answers that the aggregator takes one after the other, as peers do: parties share no cache with it
_DISTINCT = 20  # parties with rows of their own; party i + 20 has those of party i
_POSITIVE = 0.2

ROLES = ("keys", "party", "aggregator", "helper")
"""Whose time is told apart: "keys" is all that happens before the first round."""


@dataclass(frozen=True)
class BenchmarkProblem:
    """So many parties, thresholds, as by default, and rows in all, made up by seeded generators."""

    parties: int
    thresholds: int
    rows: int

    def __str__(self) -> str:
        return f"{self.parties:,} parties, {self.thresholds:,} thresholds"

    @cached_property
    def points(self) -> NDArray[np.float64]:
        """The thresholds."""
        return thresholds.hybrid(self.thresholds)

    def data(self, party: int) -> PartyData:
        """Return a party's rows."""
        rng = np.random.default_rng(party % _DISTINCT)
        y_true = rng.random(self.rows // self.parties + (party < self.rows % self.parties)) < _POSITIVE
        y_score = np.clip(rng.normal(0.4 + 0.2 * y_true, 0.2), 0, 1)
        return PartyData.from_arrays(f"site {party}", y_true, y_score)

    def counts(self, party: int) -> Counts:
        """Return a party's counts."""
        return count(self.data(party), self.points)

    @cached_property
    def total(self) -> Counts:
        """The counts of all parties together."""
        return reduce(add, map(self.counts, range(self.parties)))

    @cached_property
    def auc(self) -> float:
        """What is right: the AUC of the pooled counts, in exact integers."""
        return trapezoid(self.total).auc


class Played(NamedTuple):
    """What a contender gave and cost.

    Of a session: CPU seconds by role, and the bytes of the party that has most. "party" is the first that is asked in
    each round, which finds in no cache what others have computed before; "helper" has the key; "aggregator" ends with
    its last message, without the answers to that, 0.15 ms each. "before_bytes" is the bundle, or the session's file,
    that a party gets before.
    """

    auc: float
    costs: dict[str, float]


@contextmanager
def timed(cpu: defaultdict[str, float], role: str) -> Iterator[None]:
    """Add the CPU seconds that what is inside takes to this role's: what a thing costs on a machine that is shared."""
    started = time.process_time()
    yield
    cpu[role] += time.process_time() - started


class Contender(ABC):
    """One way to get the pooled AUC of a problem, which may be off by `tolerance`."""

    name: str
    problem: BenchmarkProblem
    tolerance = 1e-6

    @abstractmethod
    def play(self) -> Played:
        """Do all of it once, to the AUC in one party's hand."""


class OurProtocol(Contender):
    """An installed protocol through its real roles, messages signed; `keys` and `options` as of `Request`."""

    def __init__(self, problem: BenchmarkProblem, protocol: str, *, keys: str = "sealed", **options: Any) -> None:
        self.problem = problem
        self.name = f"{protocol}, {options.get('backend') or f'{keys} keys'}"
        self._plugin = registry.load(protocol)
        self._names = tuple(f"site {party}" for party in range(problem.parties))
        self._request = Request(parties=self._names, thresholds=problem.points, keys=keys, **options)
        self._before_bytes = 0

    def play(self) -> Played:
        """Play one session; the first party does all of its work, and only its time counts."""
        plugin, cpu, sent, received = self._plugin, defaultdict[str, float](float), Counter[str](), Counter[str]()
        with timed(cpu, "keys"):
            session = plugin.prepare(self._request)
            delivery = session.delivery()
            if isinstance(session, DealtSession) and session.manifest.keys == "sealed":
                self._before_bytes = _sealed_and_opened(session)
        manifest = session.manifest
        with timed(cpu, "aggregator"):
            aggregator = plugin.aggregator(manifest, delivery.aggregator)
        first, parties, roles = self._names[0], frozenset(self._names), dict[str, Any]()
        for number, name in enumerate(self._names):
            data = self.problem.data(number)
            with timed(cpu, "keys"):
                material = delivery.parties[name]
            with timed(cpu, "party" if name == first else "others"):
                roles[name] = plugin.party(manifest, material, data)
        if delivery.helper is not None:
            with timed(cpu, "helper"):
                roles[HELPER] = plugin.helper(manifest, delivery.helper)
        identities = {name: Identity.create(f"role {number}") for number, name in enumerate((*roles, AGGREGATOR))}
        signing = {name: identity.signing_key for name, identity in identities.items()}
        encryption = {name: identity.encryption_key for name, identity in identities.items()}
        aggregator.fix_list = lambda _: secrets.token_bytes(32)  # kept nowhere: it runs once
        for name, role in (*roles.items(), (AGGREGATOR, aggregator)):
            role.protection = SessionProtection(manifest.digest, signing, encryption, identities[name])

        message: bytes | None = aggregator.start()
        while message is not None:
            # Peers end where the result is sent; what parties answer to that says only that they have it.
            role = "aggregator" if aggregator.round < aggregator.rounds else "afterwards"
            asked = aggregator.asked
            for start in range(0, len(asked), _AT_ONCE):
                answers = dict[str, bytes]()
                for name in asked[start : start + _AT_ONCE]:
                    with timed(cpu, "party" if name == first else "others" if name in parties else "helper"):
                        answers[name] = roles[name].respond(message)
                    sent[name] += len(answers[name])
                    received[name] += len(message)
                with timed(cpu, role):
                    for name, answer in answers.items():
                        aggregator.receive(name, answer)
            with timed(cpu, "aggregator"):
                message = aggregator.finish_round()
        found = roles[first].result()
        rounded = 0.0 if found.decimals is None else 0.5 * 10**-found.decimals
        self.tolerance = rounded + type(self).tolerance
        self._before_bytes = self._before_bytes or _before_bytes(session, first)
        most_sent, most_received = (max(each[name] for name in parties) for each in (sent, received))
        sizes = {"upload_bytes": most_sent, "download_bytes": most_received, "before_bytes": self._before_bytes}
        return Played(found.auc, {role: cpu[role] for role in ROLES} | sizes)


def _before_bytes(session: Session, party: str) -> int:
    """Return the size of what a party is sent before a session of which nobody makes the keys beforehand."""
    manifest, consortium = session.manifest, Consortium(session.manifest.parties)
    announcement = consortium.convene(manifest)
    if manifest.keys == "helper":
        return len(announcement) + len(consortium.seal(session).parties[party])
    return len(announcement)


def _sealed_and_opened(session: DealtSession) -> int:
    """Seal the keys to an aggregator and parties, which open them; return the size of a bundle.

    One after the other, as all bundles of a large session would fill the memory.
    """
    manifest, consortium = session.manifest, Consortium(session.manifest.parties)
    identities, members, at = consortium.identities, consortium.members, consortium.at
    announcement = consortium.convene(manifest)
    announced = open_announcement(announcement, members, at=at)
    signer = identities[consortium.holder]
    bundle = seal_to_aggregator(signer, session, announced)
    open_for_aggregator(bundle, announced, identities[consortium.aggregator], members, at=at)
    for name in manifest.parties:
        bundle = seal_bundle(signer, announced.parties[name], encode(session.secrets_of(name)), announced)
        open_for_party(bundle, announced, identities[name], members, at=at)
    return len(announcement) + len(bundle)
