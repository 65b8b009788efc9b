"""Parties of `malicious` with sealed keys compare the result that each was given before any of them reads it."""

from typing import Any

import pytest

from fhe_auc.base.errors import MessageError, VerificationError
from fhe_auc.session.computation import Result
from tests.support.exact_sessions import BACKENDS, Play, with_payload
from tests.support.malicious_sessions import sites
from tests.support.wire import changed, payload_of, with_fields

PARTIES = sites(5)


@pytest.fixture(params=BACKENDS)
def roles(request: pytest.FixtureRequest) -> Play:
    """A session in which all have submitted."""
    made = Play("malicious", PARTIES, backend=request.param)
    for name, submission in made.answers(made.aggregator.start()).items():
        made.aggregator.receive(name, submission)
    return made


def results(roles: Play) -> list[bytes]:
    """As many honest results as there are parties: the same AUC, blinded and flooded anew."""
    aggregator: Any = roles.aggregator
    first = aggregator.finish_round()
    others = (aggregator._side.aggregate(aggregator._side.total.totals) for _ in PARTIES[1:])
    return [first] + [with_fields(first, Result, content=content) for content in others]


def echoed(roles: Play, given: list[bytes]) -> bytes:
    """What the aggregator passes on once each party has answered the result it was given."""
    for party, message in zip(roles.parties, given, strict=True):
        roles.aggregator.receive(party.name, party.respond(message))
    return roles.aggregator.finish_round()


def failed_checks(roles: Play, last: bytes) -> list[str]:
    found = []
    for party in roles.parties:
        assert payload_of(party.respond(last)) == b""
        with pytest.raises(VerificationError, match="was given another result") as caught:
            party.result()
        found.append(str(caught.value.check))
    return found


def test_of_as_many_results_as_parties_none_is_read_though_each_alone_is_right(roles: Play) -> None:
    given = results(roles)
    assert len(set(given)) == len(PARTIES)
    assert failed_checks(roles, echoed(roles, given)) == ["echo"] * len(PARTIES)


def test_an_echo_of_another_length_is_refused_and_so_are_too_few(roles: Play) -> None:
    same, *_ = results(roles)
    first, *others = roles.parties
    echo = first.respond(same)
    with pytest.raises(MessageError, match=r"'site 0'.*expected an echo of 32 bytes, got 31"):
        roles.aggregator.receive(first.name, changed(echo, payload=payload_of(echo)[:-1]))
    roles.aggregator.receive(first.name, echo)
    for party in others:
        roles.aggregator.receive(party.name, party.respond(same))
    last = roles.aggregator.finish_round()
    with pytest.raises(MessageError, match="echoes of 4 parties, of 5"):
        first.respond(with_payload(last, lambda echoes: echoes[:-1]))
    first.respond(last)
    assert first.result().rounds == 3


def test_the_aggregator_cannot_make_up_an_echo_nor_pass_on_another_partys(roles: Play) -> None:
    same, other, *_ = results(roles)
    last = echoed(roles, [same] * 4 + [other])
    one_for_all = with_payload(last, lambda echoes: echoes[:1] * len(echoes))
    assert failed_checks(roles, one_for_all) == ["echo"] * len(PARTIES)
