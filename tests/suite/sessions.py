"""A session as the suite plays it: what it is of (`Case`), and everybody in it (`World`).

Roles are met in three ways. "memory": objects in this process, which say what sites say. "signed": the same, with keys
that sign and seal, as between machines. By any other name, a carrier of ours: each answer comes out of a key store,
through what runs at a site, so that a site is killed and restored between any two questions.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, EvaluationError, FheAucError, InputError, MessageError
from fhe_auc.base.names import HELPER
from fhe_auc.base.serialise import decode, encode
from fhe_auc.exchange.exchange import Exchange
from fhe_auc.exchange.remote import open_exchange
from fhe_auc.machines import file_transport, outcomes, site_role
from fhe_auc.machines.answers import _FORMAT
from fhe_auc.machines.site_state import Joined, site_storage
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.question.weights import Weights
from fhe_auc.rows.party_data import PartyData
from fhe_auc.rows.party_files import write_rows
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Protocol, Request
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material, public_context
from nothing_protocol import Nothing
from tests.support.exchanges import Below
from tests.support.machines import Attendant
from tests.support.several import SEX, made
from tests.support.wire import flipped

NAMES = ("north", "south", "east", "west", "centre", "coast")
GRID = np.linspace(0, 1, 9)
EXCHANGES: dict[str, str] = {}
"""Where those are through which roles in key stores meet, by the kind."""

SEEDS = 20
"""Of rows; those of the last seed are of one label, and those of the first site often."""

ANALYSES: Mapping[str, Analysis] = {
    "groups": Analysis(by=(SEX,), min_cell=1),
    "models": Analysis(models=("old", "new")),
    "sites": Analysis(heterogeneity=True),
    "clusters": Analysis(cluster="patient"),
    "weights": Analysis(weights=Weights("w", 50, 10)),
    "times": Analysis(follow_up=FollowUp(time="days", event="status", horizons=(3.0, 7.0), step=2.0)),
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "boundaries-distributed-dp": {"bins": 4, "epsilon": 30.0},
    "boundaries-federated": {"bins": np.int64(4)},  # numpy's numbers are as good as Python's
    "boundaries-local-dp": {"bins": 4, "epsilon": 30.0, "height": 4},
    "dpauc-gaussian": {"epsilon": 30.0, "delta": 1e-5},
    "dpauc-laplace": {"epsilon": 30.0},
    "dpauc-rr": {"epsilon": 30.0},
    "histogram-distributed-dp": {"epsilon": 30.0},
    "histogram-local-dp": {"epsilon": 30.0},
    "replicates-federated": {"replicates": 100},
    "ustat-hierarchy": {"epsilon": 30.0},
    "ustat-krr": {"epsilon": 30.0, "bins": 8},
    "ustat-pairs": {"epsilon": 30.0, "pairings": 2},
}
"""Budgets are so large that there is next to no noise: the right result is known. Other tests are about noise."""


@dataclass(frozen=True)
class Case:
    """What a session is of."""

    protocol: str
    keys: str = "none"
    least: int = 4  # parties that are enough
    part: str = ""  # of `ANALYSES`; "proofs"; "epsilon"; or "earlier", where the helper had a list of all before
    way: str = "memory"  # in which roles are met

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.protocol, self.keys, f"from {self.least}", self.part, self.way)))

    @property
    def parties(self) -> tuple[str, ...]:
        return NAMES[: 6 if self.part == "sites" else 4]

    @property
    def analysis(self) -> Analysis:
        return ANALYSES.get(self.part, PLAIN)

    @property
    def exact(self) -> bool:
        return self.protocol in ("exact", "verified") and self.part != "epsilon"

    @property
    def echoes(self) -> bool:
        """Whether parties take part in more than one round: then nobody who counts may leave before the last round."""
        return (self.keys == "sealed" and self.protocol in ("verified", "malicious")) or self.protocol == "ustat-pairs"

    def plugin(self) -> Protocol[Any]:
        return Nothing() if self.protocol == "nothing" else registry.load(self.protocol)

    def request(self, sites: Mapping[str, PartyData]) -> Request:
        return Request(
            parties=self.parties,
            thresholds=GRID,
            min_parties=self.least,
            max_rows=1000,
            min_rows=10,
            options={"epsilon": 30.0} if self.part == "epsilon" else OPTIONS.get(self.protocol, {}),
            analysis=self.analysis,
            interval=0.95 if self.exact else None,
            row_caps={name: data.rows for name, data in sites.items()} if self.part in ("proofs", "epsilon") else None,
            keys="sealed" if self.keys == "none" else self.keys,
        )

    def rows(self, seed: int) -> dict[str, PartyData]:
        """What each site has."""
        sites, read = {}, PLAIN if self.part in ("weights", "times") else self.analysis
        for name, data in zip(self.parties, made(read, len(self.parties), seed), strict=True):
            alone = seed == SEEDS - 1 or (seed % 3 == 0 and name == self.parties[0])
            labels = np.ones_like(data.labels) if alone else data.labels
            labels.flags.writeable = False
            patients = np.arange(data.rows, dtype=np.int32) // 2 if self.part == "clusters" else None
            weights = np.arange(data.rows) % 50 + 1 if self.part == "weights" else None
            times = np.arange(data.rows) % 10 / 1.0 if self.part == "times" else None
            sites[name] = replace(data, name=name, labels=labels, clusters=patients, weights=weights, times=times)
        return sites


class SiteInMemory:
    """Who answers, a party or the helper: an object that is saved and restored."""

    def __init__(self, make: Callable[[], Party[Any]]) -> None:
        self._make, self.role = make, make()
        self._gone = False  # whether the process is that had the result

    def respond(self, message: bytes) -> bytes:
        with pytest.raises(EvaluationError, match="has no result"):
            self.role.result()
        return self.role.respond(message)

    def ask_again(self, message: bytes, answer: bytes) -> None:
        """Ask what has been answered so: there is no other answer."""
        self.refuse(message)

    def refuse(self, message: bytes) -> None:
        """Ask what must not be answered, and must leave no trace."""
        before = self.role.saved()
        with pytest.raises(MessageError):
            self.role.respond(message)
        assert self.role.saved() == before

    def restart(self, other: Any) -> None:
        """Kill it, and go on from what it has saved; what another one has saved does not fit."""
        killed, role = self.role, self._make()
        state = killed.saved()
        assert not killed.ended or len(state) < 400  # nothing of what it kept is needed any more
        for wrong in (state[:-1], flipped(state, len(state) // 2), *([] if other is self else [other.role.saved()])):
            with pytest.raises(DeserialisationError):
                role.restore(wrong)
        role.restore(state)
        assert role.saved() == state
        assert (role.ended, role.next_round) == (killed.ended, killed.next_round)
        if killed.name in killed.manifest.parties and killed.next_round > 1:
            with pytest.raises(EvaluationError, match="has begun already"):
                role.restore(state)
        self._gone = self._gone or role.ended
        self.role = role

    def outcome(self) -> Any:
        """Return what the session has yielded here, None where that is gone with a process; else raise why not."""
        if not self._gone:
            return self.role.result()
        with pytest.raises(EvaluationError, match="the process that ended the session had it"):
            self.role.result()
        return None


class SiteInStore:
    """The same, a key store; what serves answers, through an exchange."""

    def __init__(self, config: Mapping[str, Any], exchange: Exchange, session: bytes) -> None:
        self.config, self.exchange, self._role = config, exchange, Attendant(config, exchange, session)

    def respond(self, message: bytes) -> bytes:
        number, meeting = parsed(message).round, self._role.meeting
        name = file_transport.message_name(number, to_helper=self._role.name == meeting.helper)
        self.exchange.put(meeting.place(meeting.aggregator) + name, message)
        session = self._role.look()
        if session.wrong and session.outcome is None:
            raise EvaluationError(session.wrong)
        return self._role.said(number)

    def ask_again(self, message: bytes, answer: bytes) -> None:
        assert self.respond(message) == answer

    def refuse(self, message: bytes) -> None:
        with pytest.raises(FheAucError):
            site_role.answer(self.config, message)

    def restart(self, other: Any) -> None:
        """Another process answers each question."""

    def outcome(self) -> Any:
        files = list(Path(self.config["results"]).glob("*.json"))
        if not files:
            raise EvaluationError("there is no result")
        with site_storage().site(self.config) as kept:
            (session,) = [bytes.fromhex(file.stem.split("-")[-1]) for file in files]
            state = kept.state(session)
            with pytest.raises(FheAucError):  # it is closed: what it took is gone
                kept.session(session)
        (file,) = files
        told = _FORMAT.unframe(state or b"").outcome
        failure = json.loads(file.read_text(encoding="utf-8")).get("error", {})
        assert told == failure.get("type", "result")
        return outcomes.read(file)


class World:
    """All roles of one session, and what they have said."""

    def __init__(self, case: Case, seed: int) -> None:
        self.case, self.plugin, self.data = case, case.plugin(), case.rows(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="any session "))
        self.session = self.plugin.prepare(case.request(self.data))
        if case.way == "memory":
            self.manifest, delivery = self.session.manifest, self.session.delivery()
            self.materials, self._material = delivery.parties, delivery.aggregator
            self._aggregator = lambda: self.plugin.aggregator(self.manifest, delivery.aggregator)
            self.sites: dict[str, Any] = {
                name: SiteInMemory(self._party(name, delivery.parties[name])) for name in case.parties
            }
            if delivery.helper is not None:
                self.sites[HELPER] = SiteInMemory(self._helper(delivery.helper))
        else:
            self._between_machines()
        self.journal = Journal(self.folder / "journal")
        self.aggregator = self._begun()
        self.message: bytes | None = self.aggregator.start()  # the question of this round; None: the session is over
        self.asked: list[bytes] = [self.message]  # all questions
        self.said: dict[tuple[int, str], bytes] = {}  # answers, by round and name

    def _party(self, name: str, material: bytes) -> Callable[[], Party[Any]]:
        return lambda: self.plugin.party(self.manifest, material, self.data[name])

    def _helper(self, material: bytes) -> Callable[[], Party[Any]]:
        def made() -> Party[Any]:
            helper = self.plugin.helper(self.manifest, material)
            helper.who.earlier = (self.case.parties,) if self.case.part == "earlier" else ()
            return helper

        return made

    def _between_machines(self) -> None:
        places = self.folder / "sites"
        places.mkdir(mode=0o700)
        local = site_storage().local_sites(self.session, places)
        joined = site_storage().aggregator(local.aggregator, local.files)
        self.manifest, self._aggregator = joined.manifest, joined.aggregator
        if self.case.way == "signed":
            self.sites = {name: SiteInMemory(self._signed(name, config)) for name, config in local.sites.items()}
            return
        self.sites = {}
        for name, config in local.sites.items():
            own: dict[str, Any] = dict(config)
            if name != HELPER:
                own |= {"data": str(self.folder / f"{name}.npz"), "results": str(self.folder / f"results of {name}")}
                write_rows(Path(own["data"]), self.data[name], self.case.analysis)
            exchange = Below(open_exchange(EXCHANGES[self.case.way]), f"{self.folder.name}/exchange of {name}/")
            self.sites[name] = SiteInStore(own, exchange, self.manifest.session)

    def _signed(self, name: str, config: Mapping[str, Any]) -> Callable[[], Party[Any]]:
        with site_storage().site(config) as store:
            joined: Joined = store.session(self.session.manifest.session)
        return lambda: joined.helper() if name == HELPER else joined.party(self.data[name])

    def _begun(self) -> Aggregator:
        made = self._aggregator()
        made.journal = self.journal
        return made

    def refuse_other_keys(self, name: str) -> None:
        """Give a party the secret key of another session with its own secrets, or the aggregator half a pad key."""
        own, other = (decode(each, PartySecrets, "") for each in (self.materials[name], other_material(self.case)))
        if other.context:
            mixed = encode(msgspec.structs.replace(own, context=other.context))
            with pytest.raises(InputError, match="keys are not those of"):
                self.plugin.party(self.manifest, mixed, self.data[name])

        context, pad_key = public_context(self._material)
        if pad_key:
            with pytest.raises(FheAucError):
                self.plugin.aggregator(self.manifest, aggregator_material(context, pad_key[:-1]))

    def restart_aggregator(self) -> None:
        """Kill it: the next one says what it said, and has what it had."""
        before, number = self.aggregator, self.aggregator.round
        self.journal.close()
        self.journal = Journal(self.folder / "journal")
        self.aggregator = self._begun()
        assert self.aggregator.start() == self.message
        assert (self.aggregator.round, self.aggregator.asked, self.aggregator.counted) == (
            *(number, before.asked, before.counted),
        )
        for name in before.asked:
            assert self.aggregator.has_accepted(name) == before.has_accepted(name)

    def end(self) -> None:
        self.journal.close()
        shutil.rmtree(self.folder)


def parsed(data: bytes) -> Message:
    return Message.from_bytes(data, limit=len(data))


@cache
def other_material(case: Case) -> bytes:
    """Return a party's material in another session of the same kind."""
    world = World(case, 0)
    world.end()
    return world.materials[case.parties[0]]


@cache
def other_session(case: Case) -> tuple[bytes, dict[str, bytes]]:
    """Return the first question of another session of the same kind, and its answers."""
    world = World(case if case.way == "memory" else replace(case, way="signed"), 0)
    assert world.message is not None
    answers = {name: world.sites[name].respond(world.message) for name in case.parties}
    world.end()
    return world.message, answers
