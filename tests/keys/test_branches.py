"""Branches of an aggregator: their sums add up to the very sum of one aggregator, and nobody is counted twice."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import thresholds
from fhe_auc.counts import PartyData, count
from fhe_auc.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.messages import Message
from fhe_auc.protocol import Request, Session
from fhe_auc.trapezoid import trapezoid
from fhe_auc_keys import branches
from fhe_auc_keys.partial_sums import PartialSum
from fhe_auc_keys.sealed_roles import Branch, SealedAggregator, SealedParty
from fhe_auc_protocols.blinded_auc.malicious import Malicious
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from fhe_auc_protocols.dpauc.protocol import DpaucLaplace
from fhe_auc_protocols.histograms.protocols import HistogramFederated
from tests.support import exact_sessions
from tests.support.wire import Kept

pytestmark = pytest.mark.backends("one")  # sums of submissions are added up without the library

GRID = np.linspace(0, 1, 16)
NAMES = tuple(f"site {number}" for number in range(9))
LIMIT = 10**7


def rows(name: str) -> PartyData:
    rng = np.random.default_rng(list(name.encode()))
    return PartyData.from_arrays(name, rng.random(30) < 0.4, rng.random(30))


@dataclass
class Play:
    """A session of nine sites, with keys for everybody."""

    plugin: Any
    session: Session
    parties: dict[str, SealedParty[Any]]
    submissions: dict[str, bytes]

    @classmethod
    def of(cls, plugin: Any, backend: str, **changes: Any) -> Play:
        session = plugin.prepare(Request(parties=NAMES, thresholds=GRID, backend=backend, **changes))
        delivery = plugin.local_delivery(session)
        parties = {name: plugin.party(session.manifest, delivery.parties[name], rows(name)) for name in NAMES}
        opening = plugin.aggregator(session.manifest, session.aggregator_material).start()
        return cls(plugin, session, parties, {name: role.respond(opening) for name, role in parties.items()})

    def root(self) -> SealedAggregator:
        aggregator = self.plugin.aggregator(self.session.manifest, self.session.aggregator_material)
        aggregator.start()
        return aggregator

    def branch(self, *names: str) -> Branch:
        return self.plugin.branch(self.session.manifest, self.session.aggregator_material, names)

    def fed(self, role: SealedAggregator, *names: str) -> Any:
        for name in names:
            role.receive(name, self.submissions[name])
        return role

    def partial(self, *names: str) -> bytes:
        return self.fed(self.branch(*names), *names).partial()


@pytest.fixture(scope="module")
def play(backend: str) -> Play:
    return Play.of(SemiHonest(), backend, min_parties=2)


def read(data: bytes) -> PartialSum:
    return PartialSum.from_bytes(data, limit=LIMIT, signatures=None)


def changed(data: bytes, **values: Any) -> bytes:
    return msgspec.structs.replace(read(data), **values).to_bytes(None)


@pytest.mark.parametrize("plugin", [SemiHonest, Malicious, HistogramFederated])
def test_the_sum_of_branches_is_the_sum_of_one_aggregator_to_the_bit(backend: str, plugin: Any) -> None:
    play = Play.of(plugin(), backend)
    alone = play.fed(play.root(), *NAMES)
    root = play.fed(play.root(), NAMES[0])  # takes some itself
    inner = play.branch(*NAMES[3:])
    for names in (NAMES[3:5], NAMES[5:6]):
        assert inner.receive_partial(play.partial(*names)) == names
    play.fed(inner, *NAMES[6:])
    root.receive_partial(play.partial(*NAMES[1:3]))
    root.receive_partial(inner.partial())
    assert root._sum.partial() == alone._sum.partial()
    while (message := root.finish_round()) is not None:
        for name, role in play.parties.items():
            root.receive(name, role.respond(message))
    assert root.result().counted == NAMES
    pooled = trapezoid(sum((count(rows(name), GRID) for name in NAMES[1:]), count(rows(NAMES[0]), GRID)))
    for role in play.parties.values():
        assert role.result().auc == pytest.approx(pooled.auc, abs=1e-6)


def test_a_padded_sum_is_longer_than_a_submission_and_no_honest_one_is_refused(backend: str) -> None:
    """A submission takes 42 bits a residue, a sum whole bytes: six."""
    grid, names = thresholds.uniform(8000), NAMES[:4]
    play = exact_sessions.Play("verified", [rows(name) for name in names], grid, backend=backend)
    submissions = play.answers(play.aggregator.start())
    partials = []
    for share in (names[:2], names[2:]):
        branch = play.plugin.branch(play.manifest, play.session.aggregator_material, share)
        for name in share:
            branch.receive(name, submissions[name])
        partials.append(branch.partial())
    assert min(map(len, partials)) > play.plan.submission_bytes + 10_000
    for share, partial in zip((names[:2], names[2:]), partials, strict=True):
        assert play.aggregator.receive_partial(partial) == share
    found = play.read(play.aggregator.finish_round())
    assert [exact_sessions.found_in(each) for each in found] == [exact_sessions.pairs_of(play.sites, grid)] * 4


def test_no_party_is_counted_twice_and_a_refused_sum_changes_nothing(play: Play) -> None:
    root = play.fed(play.root(), NAMES[0])
    first = play.partial(*NAMES[1:4])
    root.receive_partial(first)
    before = root._sum.partial()
    for twice, culprit in (
        (first, NAMES[1]),  # the same again
        (play.partial(*NAMES[3:6]), NAMES[3]),  # overlaps with another branch
        (play.partial(NAMES[0], NAMES[8]), NAMES[0]),  # overlaps with what the root took itself
    ):
        with pytest.raises(MessageError, match=f"'{culprit}': has been counted already") as caught:
            root.receive_partial(twice)
        assert caught.value.field == "sender"
    with pytest.raises(MessageError, match="already submitted"):
        root.receive(NAMES[2], play.submissions[NAMES[2]])
    assert root._sum.partial() == before
    assert list(root._answered) == list(NAMES[:4])


def test_a_branch_takes_its_own_parties_once_and_nobody_elses(play: Play) -> None:
    branch = play.fed(play.branch(*NAMES[:2]), NAMES[0])
    for name, message in ((NAMES[0], "already submitted"), (NAMES[5], "not a party of this branch")):
        with pytest.raises(MessageError, match=message):
            branch.receive(name, play.submissions[name])
    with pytest.raises(MessageError, match="not a party of this branch"):
        branch.receive_partial(play.partial(NAMES[1], NAMES[2]))
    with pytest.raises(InputError, match="'elsewhere' is not one of the session's"):
        play.branch(NAMES[0], "elsewhere")
    assert read(branch.partial()).parties(play.session.manifest) == NAMES[:1]


def test_a_branch_hands_on_once_and_has_no_result_of_its_own(play: Play) -> None:
    branch = play.fed(play.branch(*NAMES[:2]), NAMES[0])
    with pytest.raises(EvaluationError, match="no result of its own"):
        branch.finish_round()
    branch.partial()
    with pytest.raises(EvaluationError, match="no result of its own"):
        branch.result()
    with pytest.raises(EvaluationError, match="hands its sum on once"):
        branch.partial()
    with pytest.raises(MessageError, match="not open"):
        branch.receive(NAMES[1], play.submissions[NAMES[1]])


def test_who_is_missing_in_all_branches_is_missing_in_the_session(play: Play) -> None:
    root = play.root()
    root.receive_partial(play.partial(*NAMES[:1]))
    with pytest.raises(TooFewPartiesError, match="1 of 9 parties submitted"):
        root.finish_round()
    root.receive_partial(play.partial(*NAMES[1:4]))
    root.receive_partial(play.branch(*NAMES[4:]).partial())  # nobody answered there
    assert root.finish_round() is not None
    assert root.counted == NAMES[:4]


def test_partial_sums_come_in_the_first_round_only(play: Play) -> None:
    late = play.partial(NAMES[0])
    root = play.plugin.aggregator(play.session.manifest, play.session.aggregator_material)
    with pytest.raises(MessageError, match="not open for submissions"):
        root.receive_partial(late)
    root.start()
    play.fed(root, *NAMES[1:3]).finish_round()
    with pytest.raises(MessageError, match="not open for submissions"):
        root.receive_partial(late)


DAMAGES = {
    "a flipped bit": (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "checksum"),
    "truncated": (lambda data: data[:-1], "checksum"),
    "nothing": (lambda data: None, "format"),
    "something else": (lambda data: b"fheamsg" + data[7:], "format"),
    "too long": (lambda data: data + bytes(LIMIT), "length"),
    "another session": (lambda data: changed(data, manifest=bytes(32)), "manifest"),
    "too few parties": (lambda data: changed(data, counted=b"\1"), "counted"),
    "a party beyond the last": (lambda data: changed(data, counted=b"\0\2"), "counted"),
    "a block more": (lambda data: changed(data, sums=(b"", b"")), "payload"),
    "no block": (lambda data: changed(data, sums=()), "payload"),
    "a coefficient too large": (lambda data: changed(data, sums=(b"\xff" * len(sums_of(data)),)), "payload"),
    "cut coefficients": (lambda data: changed(data, sums=(sums_of(data)[:-1],)), "payload"),
}


def sums_of(data: bytes) -> bytes:
    (sums,) = read(data).sums
    return sums


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_partial_sums_are_refused_and_change_nothing(play: Play, damage: str) -> None:
    change, field = DAMAGES[damage]
    root = play.fed(play.root(), NAMES[0])
    before = root._sum.partial()
    with pytest.raises(MessageError, match="partial sum refused") as caught:
        root.receive_partial(change(play.partial(*NAMES[1:3])))
    assert caught.value.field == field
    assert root._sum.partial() == before
    assert list(root._answered) == [NAMES[0]]


def test_processes_ingest_inboxes_and_the_record_names_what_they_refused(play: Play) -> None:
    bad = msgspec.structs.replace(Message.from_bytes(play.submissions[NAMES[4]], limit=LIMIT), payload=b"").to_bytes()
    sent = {**play.submissions, NAMES[4]: bad}
    inboxes = [branches.Inbox(names, Kept(*((name, sent[name]) for name in names))) for names in (NAMES[:3], NAMES[3:])]
    root = play.root()
    branches.ingest(root, play.session.aggregator_material, inboxes, processes=2)
    assert set(root._answered) == set(NAMES) - {NAMES[4]}
    assert root._refused.keys() == {NAMES[4]}
    assert "malformed submission" in root._refused[NAMES[4]]
    assert root.finish_round() is not None  # and goes on, as the session's policy says


def inbox_of(play: Play, *names: str) -> branches.Inbox:
    return branches.Inbox(names, Kept(*((name, play.submissions[name]) for name in names)))


@pytest.mark.parametrize("shares", [[NAMES[:2], NAMES[1:3]], [(NAMES[1], NAMES[1])]])
def test_a_party_in_two_inboxes_is_named_before_anything_is_read(play: Play, shares: list[tuple[str, ...]]) -> None:
    root = play.root()
    with pytest.raises(InputError, match=f"'{NAMES[1]}' is in two inboxes"):
        branches.ingest(root, play.session.aggregator_material, [inbox_of(play, *share) for share in shares])
    assert not root._answered


def test_ingest_takes_an_inbox_and_a_process(play: Play) -> None:
    root = play.root()
    for inboxes, processes in (([], None), ([inbox_of(play, NAMES[0])], 0), ([inbox_of(play, NAMES[0])], -1)):
        with pytest.raises(InputError, match="an inbox and a process at least"):
            branches.ingest(root, play.session.aggregator_material, inboxes, processes=processes)
    assert not root._answered


class Deadly:
    """An inbox whose process ends, as by the kernel when memory runs out."""

    def __call__(self) -> Iterator[tuple[str, bytes]]:
        os._exit(9)


def test_a_branch_that_dies_is_an_error_and_the_rest_can_be_ingested_again(play: Play) -> None:
    root, material = play.root(), play.session.aggregator_material
    inboxes = [inbox_of(play, *NAMES[:3]), branches.Inbox(NAMES[3:], Deadly())]
    with pytest.raises(EvaluationError, match="process of a branch died"):
        branches.ingest(root, material, inboxes, processes=1)
    assert list(root._answered) == list(NAMES[:3])
    branches.ingest(root, material, [inbox_of(play, *NAMES[3:])])
    assert root.finish_round() is not None
    assert root.counted == NAMES


def test_protocols_without_sums_have_no_branches() -> None:
    request = Request(parties=NAMES, thresholds=GRID, options={"epsilon": 1.0})
    session = DpaucLaplace().prepare(request)
    with pytest.raises(InputError, match="cannot be aggregated in branches"):
        DpaucLaplace().branch(session.manifest, b"", NAMES)


@pytest.mark.openfhe
def test_joint_sessions_have_no_branches() -> None:
    session = SemiHonest().prepare(Request(parties=NAMES, thresholds=GRID, keys="joint"))
    with pytest.raises(InputError, match="joint keys cannot be aggregated in branches"):
        SemiHonest().branch(session.manifest, b"", NAMES)
