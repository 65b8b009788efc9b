"""A session's helper as a node of Flower: it answers the rounds between, and nobody else in its place."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from flwr.app import Message

from fhe_auc.base.errors import InputError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.machines.flower.client_app import packed, unpacked
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message as Envelope
from tests.support.fake_grid import GridSession, Node

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


def test_a_session_with_a_helper_node_gives_every_site_the_exact_fraction(consortium: GridSession) -> None:
    grid = consortium.grid()
    record = consortium.run(grid, nodes=NAMED, ask_again=False)
    assert record.counted == record.delivered == ("north", "south", "east")
    consortium.check()
    asked = [message.metadata.dst_node_id for message in grid.pushed]
    assert asked == [1, 2, 3, 4, 4, 1, 2, 3]  # the helper alone in the rounds between, and only there


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


@pytest.mark.parametrize(("least", "number", "why"), [(2, 4, ""), (3, 2, ": leave it out, or .* a helper")])
def test_a_number_to_close_at_that_cannot_be_is_refused(
    least: int, number: int, why: str, new: Callable[..., GridSession]
) -> None:
    with pytest.raises(InputError, match=f"close-at: submissions close with {least} to 3 of them, not {number}{why}"):
        new(min_parties=least).run(nodes=NAMED, close_at=number)
