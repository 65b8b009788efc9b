"""Parties of `malicious` with sealed keys compare the result that each was given before any of them reads it."""

from typing import Any

import pytest

from fhe_auc.base.errors import MessageError, VerificationError
from fhe_auc.session.computation import Result
from tests.support.exact_sessions import with_payload
from tests.support.malicious_sessions import BACKENDS, CLOSE, Roles, engine, exact, sites
from tests.support.wire import changed, payload_of, with_fields

PARTIES = sites(5)


@pytest.fixture(params=BACKENDS)
def roles(request: pytest.FixtureRequest) -> Roles:
    """A session in which all have submitted."""
    made = engine(request.param).roles(PARTIES)
    made.broadcast(made.aggregator.start())
    return made


def results(roles: Roles) -> list[bytes]:
    """As many honest results as there are parties: the same AUC, blinded and flooded anew."""
    aggregator: Any = roles.aggregator
    first = aggregator.finish_round()
    others = (aggregator._side.aggregate(aggregator._side.total.totals) for _ in PARTIES[1:])
    return [first] + [with_fields(first, Result, content=content) for content in others]


def echoed(roles: Roles, given: list[bytes]) -> bytes:
    """What the aggregator passes on once each party has answered the result it was given."""
    for party, message in zip(roles.parties, given, strict=True):
        roles.aggregator.receive(party.name, party.respond(message))
    return roles.aggregator.finish_round()


def failed_checks(roles: Roles, last: bytes) -> list[str]:
    found = []
    for party in roles.parties:
        assert payload_of(party.respond(last)) == b""
        with pytest.raises(VerificationError, match="was given another result") as caught:
            party.result()
        found.append(str(caught.value.check))
    return found


def test_of_as_many_results_as_parties_none_is_read_though_each_alone_is_right(roles: Roles) -> None:
    given = results(roles)
    assert len(set(given)) == len(PARTIES)
    assert failed_checks(roles, echoed(roles, given)) == ["echo"] * len(PARTIES)


def test_the_same_result_for_all_is_read_once_every_echo_is_there(roles: Roles) -> None:
    same, *_ = results(roles)
    first, *others = roles.parties
    echo = first.respond(same)
    assert len(payload_of(echo)) == 32
    with pytest.raises(MessageError, match=r"'site 0'.*expected an echo of 32 bytes, got 31"):
        roles.aggregator.receive(first.name, changed(echo, payload=payload_of(echo)[:-1]))
    roles.aggregator.receive(first.name, echo)
    with pytest.raises(MessageError, match="duplicate"):
        roles.aggregator.receive(first.name, echo)
    for party in others:
        roles.aggregator.receive(party.name, party.respond(same))
    last = roles.aggregator.finish_round()
    cut = with_payload(last, lambda echoes: echoes[:-1])
    with pytest.raises(MessageError, match="echoes of 4 parties, of 5"):
        first.respond(cut)
    truth = exact(PARTIES, [each / 15 for each in range(16)]).auc
    for party in roles.parties:
        party.respond(last)
        assert party.result().auc == pytest.approx(truth, abs=CLOSE)
        assert party.result().rounds == 3


def test_the_aggregator_cannot_make_up_an_echo_nor_pass_on_another_partys(roles: Roles) -> None:
    same, other, *_ = results(roles)
    last = echoed(roles, [same] * 4 + [other])
    one_for_all = with_payload(last, lambda echoes: echoes[:1] * len(echoes))
    assert failed_checks(roles, one_for_all) == ["echo"] * len(PARTIES)
