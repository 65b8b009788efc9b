"""A session's helper as a node of Flower: it answers the rounds between, and whoever vanishes, the others go on."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from flwr.app import Message

from fhe_auc.base.errors import InputError, TooFewPartiesError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.machines.flower.client_app import packed, unpacked
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message as Envelope
from tests.support.exact_sessions import both_protocols
from tests.support.fake_grid import GridSession, Node
from tests.support.lying_parties import lying

pytestmark = pytest.mark.usefixtures("in_a_run", "impatient")

NAMED = "north:1, south:2, east:3, helper-1:4"


@pytest.fixture
def new(site_rows: list[PartyData], tmp_path: Path) -> Callable[..., GridSession]:
    asked = {"max_rows": 20_000, "min_parties": 2, "keys": "helper"}
    return lambda protocol="exact", **more: GridSession(site_rows, tmp_path / "session", protocol, **{**asked, **more})


@pytest.fixture
def consortium(new: Callable[..., GridSession]) -> GridSession:
    """One of `exact`, whose sessions go on with two sites of three."""
    return new()


@both_protocols
@pytest.mark.parametrize("nodes", ["", NAMED])
def test_a_session_with_a_helper_node_gives_every_site_the_exact_fraction(
    nodes: str, protocol: str, new: Callable[..., GridSession]
) -> None:
    consortium = new(protocol)
    grid = consortium.grid()
    record = consortium.run(grid, nodes=nodes, ask_again=False)
    assert record.counted == record.delivered == ("north", "south", "east")
    consortium.check()
    if nodes:
        asked = [message.metadata.dst_node_id for message in grid.pushed]
        assert asked == [1, 2, 3, 4, 4, 1, 2, 3]  # the helper alone in the rounds between, and only there


def test_a_site_whose_proof_does_not_hold_is_left_out_and_named_and_the_others_have_the_exact_fraction(
    site_rows: list[PartyData], new: Callable[..., GridSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    lying(monkeypatch).add("south")
    consortium = new(row_caps={data.name: data.rows for data in site_rows})
    record = consortium.run(consortium.grid(), ask_again=False)
    assert (record.counted, record.missing) == (("north", "east"), ("south",))
    assert "its proof did not hold" in dict(record.refused)["south"]
    consortium.check("north", "east")
    assert [consortium.outcome(name).unproved_parties for name in record.counted] == [("south",)] * 2


def test_a_node_not_admitted_as_the_helper_ends_the_session_with_the_helpers_name(consortium: GridSession) -> None:
    """It has a site's key store."""
    grid = consortium.grid(helper_1=consortium.node("south"))
    with pytest.raises(TooFewPartiesError, match=r"missing: 'helper-1'.*helper-1: it could not answer .*MessageError"):
        consortium.run(grid, nodes=NAMED, ask_again=False)


def signing_as_the_helper(consortium: GridSession, name: str) -> Node:
    """A node that answers the helper's rounds in the helper's name, with a site's key."""

    def answer(message: Message) -> Message:
        asked = Envelope.from_bytes(unpacked(message), limit=2**31)
        with site_storage().site(consortium.roles[name]) as site:
            protection = site.session(asked.session).protection
        forged = Envelope(asked.protocol, asked.session, asked.round, HELPER, asked.manifest, b"", (), b"")
        forged = forged.protected(protection, AGGREGATOR)
        return Message(packed(forged.to_bytes()), reply_to=message)

    return Node(answer)


def test_a_node_that_claims_to_be_the_helper_is_refused_and_the_helper_takes_its_place(
    consortium: GridSession, caplog: pytest.LogCaptureFixture
) -> None:
    grid = consortium.grid()
    grid.nodes[0] = signing_as_the_helper(consortium, "south")  # asked before the helper
    record = consortium.run(grid)
    assert any("submission of party 'helper-1' refused" in line and "sign" in line for line in caplog.messages)
    assert record.delivered == ("north", "south", "east")
    consortium.check()


def test_a_helper_that_is_asked_in_the_sites_round_ends_it_for_nobody(consortium: GridSession) -> None:
    """Where no nodes are named it is asked, and refuses; a site that connects after that still counts."""
    helper, east = consortium.node(HELPER), consortium.node("east", joins_at=1e9)

    def answer(message: Message) -> Message | None:
        east.joins_at = 0.0
        return helper.answer(message)

    grid = consortium.grid(helper_1=Node(answer), east=east)
    record = consortium.run(grid, ask_again=False)
    assert [message.metadata.dst_node_id for message in grid.pushed][:4] == [1, 2, 4, 3]
    assert record.counted == record.delivered == ("north", "south", "east")


@pytest.mark.parametrize(("least", "number", "why"), [(2, 1, ""), (2, 4, ""), (3, 2, ": leave it out, or .* a helper")])
def test_a_number_to_close_at_that_cannot_be_is_refused(
    least: int, number: int, why: str, new: Callable[..., GridSession]
) -> None:
    with pytest.raises(InputError, match=f"close-at: submissions close with {least} to 3 of them, not {number}{why}"):
        new(min_parties=least).run(nodes=NAMED, close_at=number)


def test_nodes_without_the_helper_are_refused(consortium: GridSession) -> None:
    with pytest.raises(InputError, match="'helper-1' has no node"):
        consortium.run(nodes="north:1, south:2, east:3")


def test_a_session_that_closed_with_too_few_goes_on_once_the_missing_is_there(new: Callable[..., GridSession]) -> None:
    """Nothing was opened, and no site submits anew."""
    consortium = new(min_parties=3)
    nobody = Node(lambda message: None)
    with pytest.raises(TooFewPartiesError, match=r"missing: 'east'.*east: no answer within 1 s"):
        consortium.run(consortium.grid(east=nobody), nodes=NAMED, round_timeout=1.0)
    assert not consortium.sent(2).exists()
    before = consortium.sent(1).read_bytes()
    grid = consortium.grid()
    record = consortium.run(grid, nodes=NAMED)
    assert record.delivered == ("north", "south", "east")
    assert consortium.sent(1).read_bytes() == before
    assert [message.metadata.dst_node_id for message in grid.pushed] == [3, 4, 4, 1, 2, 3]
    consortium.check()


@pytest.mark.parametrize("asked", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_a_helper_that_falls_silent_is_asked_the_same_again_by_the_next_run(
    asked: int, consortium: GridSession
) -> None:
    helper = consortium.node(HELPER)
    answers: list[bytes] = []

    def answer(message: Message) -> Message | None:
        question = Envelope.from_bytes(unpacked(message), limit=2**31)
        reply = helper.answer(message)
        assert reply is not None
        if question.round == asked:
            answers.append(unpacked(reply))  # it has answered, and that is lost on its way
            return reply if len(answers) > 1 else None
        return reply

    with pytest.raises(TooFewPartiesError, match=r"missing: 'helper-1'.*helper-1: no answer within 1 s"):
        consortium.run(consortium.grid(helper_1=Node(answer)), nodes=NAMED, round_timeout=1.0)
    question = consortium.sent(asked).read_bytes()
    record = consortium.run(consortium.grid(helper_1=Node(answer)), nodes=NAMED)
    assert consortium.sent(asked).read_bytes() == question
    assert answers[0] == answers[1]
    assert record.delivered == ("north", "south", "east")
    consortium.check()
