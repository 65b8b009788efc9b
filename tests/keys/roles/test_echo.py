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


@pytest.mark.parametrize("made_up", [False, True], ids=["each another result", "one's echo for all"])
def test_of_several_results_none_is_read_though_each_alone_is_right(roles: Play, made_up: bool) -> None:
    """The aggregator cannot make up an echo, nor pass on another party's."""
    given = results(roles)
    assert len(set(given)) == len(PARTIES)
    for party, message in zip(roles.parties, [given[0]] * 4 + given[1:2] if made_up else given, strict=True):
        roles.aggregator.receive(party.name, party.respond(message))
    last = roles.aggregator.finish_round()
    if made_up:
        last = with_payload(last, lambda echoes: echoes[:1] * len(echoes))
    for party in roles.parties:
        assert payload_of(party.respond(last)) == b""
        with pytest.raises(VerificationError, match="was given another result") as caught:
            party.result()
        assert caught.value.check == "echo"


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
