"""The interface of what is measured, and our own protocols behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, cast

import msgspec

from fhe_auc import registry
from fhe_auc.messages import Message
from fhe_auc.protocol import Request
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_benchmarks.stopwatch import Stopwatch
from fhe_auc_keys.sealed_roles import SealedAggregator
from fhe_auc_keys.session_keys import party_secrets
from fhe_auc_protocols.exact_auc.derived_secrets import CommonSecrets
from fhe_auc_protocols.exact_auc.party_task import exact_plan


class Contender(ABC):
    """One way to get the pooled AUC, with keys made and every party's submission in hand.

    After `begin`, which is not timed, come `submit`, `ingest`, `circuit` and `recover`, in this order; then again from
    `begin` on. `keys` is what making keys took, in seconds; one party sends and receives so many bytes.
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

    @abstractmethod
    def recover(self) -> float:
        """Do one party's work on the result, and return the AUC."""

    def close(self) -> None:  # noqa: B027
        """Give back what the process shares."""


class OurProtocol(Contender):
    """An installed protocol that encrypts, through its real roles: every byte and every check of a session.

    With `resend`, the problem's distinct rows are encrypted once each, and those ciphertexts sent again under the names
    of the other parties, which have the same rows. That takes less time to make, and nothing that is timed can tell. It
    does not go where every party has a mask of its own: with `min_parties` fewer than all, sums of counts have none.
    What every party has sent is in `submissions`, by name; `material` is what the session's aggregators are made from.
    """

    def __init__(
        self,
        problem: Problem,
        protocol: str,
        backend: str,
        *,
        resend: bool = False,
        min_parties: int | None = None,
        **options: Any,
    ) -> None:
        self.problem = problem
        self.name = f"{protocol} ({backend})"
        self.backend = backend
        self._plugin = registry.load(protocol)
        names = tuple(f"site {party}" for party in range(problem.parties))
        request = Request(
            parties=names, thresholds=problem.points, backend=backend, min_parties=min_parties, options=options
        )
        self._plugin.prepare(request)  # the library's context, which is made once in a process
        with Stopwatch() as self.keys:
            self._session = self._plugin.prepare(request)
        self.material = self._session.aggregator_material
        self.begin()
        distinct = problem.distinct if resend else problem.parties
        made = [self._party(party).respond(self._opening) for party in range(distinct)]
        made += [renamed(made[at % distinct], names[at]) for at in range(distinct, problem.parties)]
        self.submissions = dict(zip(names, made, strict=True))
        self.upload_bytes = max(map(len, made))

    def begin(self) -> None:
        """Make a fresh aggregator of the session, and a fresh party, with their keys loaded."""
        self.aggregator = cast(SealedAggregator, self._plugin.aggregator(self._session.manifest, self.material))
        self._opening = self.aggregator.start()
        self._fresh = self._party(0)

    def submit(self) -> None:
        """Count, encrypt, put into an envelope, as party 0."""
        self._fresh.respond(self._opening)

    def ingest(self) -> None:
        """Receive all submissions."""
        for name, message in self.submissions.items():
            self.aggregator.receive(name, message)

    def circuit(self) -> None:
        """Close the round: circuit, blinding, flooding; or just the sum, by protocol."""
        self._message = self.aggregator.finish_round() or b""
        self.download_bytes = len(self._opening) + len(self._message)

    def recover(self) -> float:
        """Check, decrypt and divide, as a party that has submitted."""
        self._fresh.respond(self._message)
        return float(self._fresh.result().auc)

    def _party(self, party: int) -> Any:
        session = self._session
        return self._plugin.party(session.manifest, session.party_material, self.problem.data(party))


class OurVerified(OurProtocol):
    """Protocol ``verified``, where parties tell each other which result they were given before they decrypt it.

    What the other parties tell is made and passed on as part of `recover`, which so takes a little too long.
    """

    def __init__(self, problem: Problem, backend: str) -> None:
        super().__init__(problem, "verified", backend)

    def recover(self) -> float:
        """Do one party's work in the last two rounds."""
        manifest = self._session.manifest
        secret = party_secrets(self._session.party_material, manifest.context).common_secret
        plan = exact_plan(manifest)
        common = CommonSecrets(secret, manifest.digest, plan.packing, plan.parameters.plain_moduli)
        result = Message.from_bytes(self._message, limit=len(self._message)).payload
        mine = Message.from_bytes(self._fresh.respond(self._message), limit=1024)
        names = manifest.parties
        for name, echo in zip(names, common.echoes(len(names), result), strict=True):
            self.aggregator.receive(name, msgspec.structs.replace(mine, sender=name, payload=echo).to_bytes())
        self._fresh.respond(self.aggregator.finish_round())
        found = self._fresh.result()
        self.download_bytes = found.download_bytes_per_party
        return float(found.auc)


def renamed(submission: bytes, name: str) -> bytes:
    """Return the same submission, sent by another party."""
    message = Message.from_bytes(submission, limit=len(submission))
    return msgspec.structs.replace(message, sender=name).to_bytes()
