"""Sessions between machines: who is not certified for a session cannot add to it, and nobody can make up its result."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import EvaluationError, MessageError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.base.serialise import decode, encode
from fhe_auc.machines.site_state import site_storage
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.messages import Message
from fhe_auc_keys.trust.identity import Identity
from tests.support.stored_sites import Consortium
from tests.support.wire import LIMIT, changed, flipped, payload_of

PROTOCOL = "histogram-federated"  # what is signed and sealed are bytes, whatever they say


@pytest.fixture
def consortium(site_rows: list[PartyData], tmp_path: Path) -> Consortium:
    return Consortium(site_rows, tmp_path / "consortium", PROTOCOL)


@pytest.fixture(scope="module")
def computed(site_rows: list[PartyData], tmp_path_factory: pytest.TempPathFactory) -> tuple[Consortium, bytes]:
    """A session whose parties are about to get the result, with the message; in it nobody but south answers."""
    consortium = Consortium(site_rows, tmp_path_factory.mktemp("computed") / "c", PROTOCOL)
    return consortium, resulting(consortium)


def resulting(consortium: Consortium) -> bytes:
    """The message with the result, of an honest session."""
    aggregator = consortium.aggregator()
    return consortium.deliver(aggregator, aggregator.start())


def refused_by_party(consortium: Consortium, message: bytes) -> MessageError:
    with pytest.raises(MessageError) as caught:
        consortium.answer("north", message)
    assert "north" not in consortium.results
    return caught.value


def resigned(consortium: Consortium, message: bytes, by: Identity | str = "", session: bytes | None = None) -> bytes:
    """The message signed by somebody, or a site; else by the aggregator, who may say anything."""
    protection: Any = consortium.aggregator().protection
    if isinstance(by, str) and by:
        with site_storage().site(consortium.made.sites[by]) as site:
            by = site._identity  # type: ignore[attr-defined]
    if by:
        protection = dataclasses.replace(protection, binding=session or protection.binding, identity=by)
    return Message.from_bytes(message, limit=LIMIT).protected(protection).to_bytes()


def test_what_a_party_has_not_signed_is_not_even_parsed(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    aggregator = consortium.aggregator()
    genuine = dict(consortium.exchange(aggregator.start()))["north"]
    message, protection = Message.from_bytes(genuine, limit=LIMIT), aggregator.protection
    more = msgspec.structs.replace(message, payload=flipped(message.unseal(protection, AGGREGATOR), -9))
    sealed_again = msgspec.structs.replace(more.protected(protection, AGGREGATOR), signature=message.signature)
    forgeries = {
        "changed by who can read it, and sealed again": sealed_again.to_bytes(),
        "no signature": changed(genuine, signature=b""),
        "changed payload": changed(genuine, payload=b"x"),
        "a list": changed(genuine, submissions=(("north", bytes(32)),)),
        "another party's": resigned(consortium, genuine, "south"),
        "a stranger's": resigned(consortium, genuine, Identity.create("north")),
        "the aggregator's": resigned(consortium, genuine),
        "of another session": resigned(consortium, genuine, "north", bytes(32)),
    }
    with monkeypatch.context() as patch:
        patch.setattr(type(aggregator._side), "accept", lambda *_: pytest.fail("parsed"))
        for how, forged in forgeries.items():
            with pytest.raises(MessageError) as caught:
                aggregator.receive("north", forged)
            assert (caught.value.field, aggregator.has_accepted("north")) == ("signature", False), how
    assert not aggregator.refusals  # of which north has sent nothing
    aggregator.receive("north", genuine)  # the refusals have changed nothing


def test_what_the_aggregator_has_not_signed_is_not_even_parsed(
    computed: tuple[Consortium, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    consortium, genuine = computed
    with monkeypatch.context() as patch:
        patch.setattr("fhe_auc_keys.roles.sealed.SealedParty.read", lambda *_: pytest.fail("parsed"))
        for forged in (
            changed(genuine, signature=b""),
            changed(genuine, payload=b"x"),
            changed(genuine, submissions=Message.from_bytes(genuine, limit=LIMIT).submissions[:2]),
            resigned(consortium, genuine, "south"),
            resigned(consortium, genuine, Identity.create("aggregator of its own")),
        ):
            assert refused_by_party(consortium, forged).field == "signature"
    consortium.answer("south", genuine)
    assert consortium.results["south"].settings["signed"] is True


def test_a_result_of_others_than_the_list_of_submissions_names_is_refused(
    site_rows: list[PartyData], tmp_path: Path
) -> None:
    consortium = Consortium(site_rows, tmp_path / "c", "semi-honest", min_parties=2)
    genuine = resulting(consortium)
    result = decode(payload_of(genuine), Result, "")
    lie = changed(genuine, payload=encode(msgspec.structs.replace(result, counted=result.counted[:2])))
    error = refused_by_party(consortium, resigned(consortium, lie))
    assert "not those whose submissions the aggregator has listed" in str(error)


def test_roles_of_a_session_between_machines_do_nothing_without_a_key_to_sign_with(consortium: Consortium) -> None:
    aggregator, own = consortium.aggregator(), encode(consortium.session.common)
    opening, protection = aggregator.start(), aggregator.protection
    party = registry.load(PROTOCOL).party(aggregator.manifest, own, consortium.sites["north"])
    aggregator = consortium.aggregator()
    aggregator.protection = None
    for attempt in (aggregator.start, lambda: party.respond(opening)):
        with pytest.raises(EvaluationError, match="no keys to do so"):
            attempt()
    assert "identity" not in repr(protection)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(protection)


def test_a_session_in_one_process_says_that_it_is_not_signed(site_rows: list[PartyData]) -> None:
    from fhe_auc import federated_auc

    found = federated_auc(site_rows, thresholds="uniform:16", protocol="dpauc-laplace", epsilon=4.0)
    assert found.settings["signed"] is False
