"""The interface of what is measured, and our own protocols behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import msgspec

from fhe_auc import registry
from fhe_auc.counts import PartyData
from fhe_auc.messages import Message
from fhe_auc.protocol import Protocol, Request, Session
from fhe_auc.serialise import encode
from fhe_auc.signatures import Signatures
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_benchmarks.stopwatch import Stopwatch
from fhe_auc_keys.announcement import open_announcement
from fhe_auc_keys.local_consortium import Consortium
from fhe_auc_keys.sealed_roles import SealedAggregator, SealedParty
from fhe_auc_keys.session_keys import party_secrets

SIGNED = ", signed"
"""In the name of a contender whose messages are signed."""


class Contender(ABC):
    """One way to get the pooled AUC, with keys made and every party's submission in hand.

    After `begin`, which is not timed, come `submit`, `ingest`, `circuit`, `echo`, `others`, `relay` and `recover`, in
    this order; then again from `begin` on. `keys` is what making keys took, in seconds; one party sends and receives so
    many bytes.
    """

    name: str
    problem: Problem
    keys = Stopwatch()
    upload_bytes: int = 0
    download_bytes: int = 0
    once = False
    """Whether to time it once only: it takes seconds."""

    tolerance = 1e-6
    """By how much `recover` may differ from `expected`."""

    @property
    def expected(self) -> float:
        """The right AUC: of exact integers, at the problem's thresholds."""
        return self.problem.auc

    def begin(self) -> None:  # noqa: B027 - most have nothing to do
        """Make ready to aggregate anew; not timed."""

    @abstractmethod
    def submit(self) -> None:
        """Do one party's work: count, encrypt, serialise."""

    @abstractmethod
    def ingest(self) -> None:
        """Take what all parties sent: parse, check, add up."""

    @abstractmethod
    def circuit(self) -> None:
        """Do the rest of the aggregator's work, up to the bytes that parties get."""

    def echo(self) -> None:  # noqa: B027
        """Do one party's work between two rounds of the result, where there are two."""

    def others(self) -> None:  # noqa: B027
        """Do the same for all others; not timed."""

    def relay(self) -> None:  # noqa: B027
        """Do the aggregator's work between these rounds."""

    @abstractmethod
    def recover(self) -> float:
        """Do the rest of one party's work on the result, and return the AUC."""

    def close(self) -> None:  # noqa: B027
        """Give back what the process shares."""


class OurProtocol(Contender):
    """An installed protocol that encrypts, through its real roles: every byte and every check of a session.

    With `resend`, the problem's distinct rows are encrypted once each, and those ciphertexts sent again under the names
    of the other parties, which have the same rows. That takes less time to make, and nothing that is timed can tell. It
    does not go where every party has a mask or a pad of its own; with `min_parties` fewer than all, sums of counts have
    none. With `signed`, parties and aggregator are certified and sign, as between machines.

    What every party has sent is in `submissions`, by name; `material` is what the session's aggregators are made from.
    """

    def __init__(
        self,
        problem: Problem,
        protocol: str,
        backend: str,
        *,
        resend: bool = False,
        signed: bool = False,
        min_parties: int | None = None,
        **options: Any,
    ) -> None:
        self.problem = problem
        self.name = f"{protocol}{SIGNED if signed else ''} ({backend})"
        self.backend = backend
        plugin = registry.load(protocol)
        names = tuple(f"site {party}" for party in range(problem.parties))
        request = Request(
            parties=names, thresholds=problem.points, backend=backend, min_parties=min_parties, options=options
        )
        plugin.prepare(request)  # the library's context, which is made once in a process
        with Stopwatch() as self.keys:
            session = plugin.prepare(request)
        self._roles = Roles(plugin, session, signed=signed)
        self.material = session.aggregator_material
        self.begin()
        distinct = problem.distinct if resend else problem.parties
        made = [self._roles.party(problem.data(party)).respond(self._opening) for party in range(distinct)]
        made += [renamed(made[at % distinct], names[at]) for at in range(distinct, problem.parties)]
        self.submissions = dict(zip(names, made, strict=True))
        self.upload_bytes = max(map(len, made))  # of the rows' submission: an echo is some 200 bytes

    def begin(self) -> None:
        """Make a fresh aggregator of the session, and a fresh party, with their keys loaded."""
        self.aggregator = self._roles.aggregator()
        self._opening = self.aggregator.start()
        self._fresh = self._roles.party(self.problem.data(0))

    def submit(self) -> None:
        """Count, encrypt, put into an envelope, as party 0."""
        self._submitted = self._fresh.respond(self._opening)

    def ingest(self) -> None:
        """Receive all submissions."""
        for name, message in {**self.submissions, "site 0": self._submitted}.items():
            self.aggregator.receive(name, message)

    def circuit(self) -> None:
        """Close the round: circuit, blinding, flooding; or just the sum, by protocol."""
        self._message = self.aggregator.finish_round() or b""

    def echo(self) -> None:
        """Say which result this party was given, where parties compare that before they decrypt it."""
        if self._compared:
            self._echo = self._fresh.respond(self._message)

    def others(self) -> None:
        """Make the other parties' echoes from the result, which all were given, without running these parties."""
        if not self._compared:
            return
        mine = Message.from_bytes(self._echo, limit=len(self._echo))
        self._echoes = {}
        for name, payload in zip(self.submissions, self._fresh._echoes(*self.submissions), strict=True):
            message = msgspec.structs.replace(mine, sender=name, payload=payload)
            signatures = self._roles.signatures(name)
            self._echoes[name] = (message if signatures is None else message.signed(signatures)).to_bytes()

    def relay(self) -> None:
        """Receive all echoes, and pass them on."""
        if self._compared:
            for name, message in self._echoes.items():
                self.aggregator.receive(name, message)
            self._message = self.aggregator.finish_round() or b""

    @property
    def _compared(self) -> bool:
        return self.aggregator.rounds > 2

    def recover(self) -> float:
        """Check, decrypt and divide, as a party that has submitted."""
        self._fresh.respond(self._message)
        found = self._fresh.result()
        self.download_bytes = found.download_bytes_per_party
        return float(found.auc)


class Roles:
    """Maker of the roles of a session with sealed keys, from what each would get; `signed` ones are certified."""

    def __init__(self, plugin: Protocol[Any], session: Session, *, signed: bool = False) -> None:
        self.manifest = session.manifest
        self._plugin = plugin
        self._session = session
        self._common = party_secrets(session.party_material, session.manifest.context)
        self._consortium: Consortium | None = None
        if signed:
            self._consortium = made = Consortium(session.manifest.parties)
            self._announced = open_announcement(
                made.convene(session.manifest), made.trust, holder=made.holder, at=made.at
            )
            self.manifest = self._announced.manifest

    def aggregator(self) -> SealedAggregator:
        """Return a fresh aggregator."""
        made = cast(SealedAggregator, self._plugin.aggregator(self.manifest, self._session.aggregator_material))
        made.signatures = None if self._consortium is None else self.signatures(self._consortium.aggregator)
        return made

    def party(self, data: PartyData) -> SealedParty[Any]:
        """Return a fresh party with these rows, and the seed that it has every time."""
        own = msgspec.structs.replace(self._common, seed=self._session.seeds.get(data.name, b""))
        made = cast("SealedParty[Any]", self._plugin.party(self.manifest, encode(own), data))
        made.signatures = self.signatures(data.name)
        return made

    def signatures(self, name: str) -> Signatures | None:
        """Return what the role of that name signs with, in a signed session."""
        return None if self._consortium is None else self._announced.signatures(self._consortium.identities[name])


def renamed(submission: bytes, name: str) -> bytes:
    """Return the same submission, sent by another party."""
    message = Message.from_bytes(submission, limit=len(submission))
    return msgspec.structs.replace(message, sender=name).to_bytes()
