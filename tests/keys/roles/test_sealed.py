"""Sealed keys: parties of one process that are given one result read it once, and where a server may lie compare it."""

import gc
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import EvaluationError, MessageError, VerificationError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.ciphertexts import kind_of, unwrap, wrap
from fhe_auc.session.computation import Result
from fhe_auc_keys.bundles.session_keys import GENERATE, PartySecrets
from fhe_auc_keys.roles import sealed
from tests.support.exact_sessions import BACKENDS, Play, with_payload
from tests.support.malicious_sessions import sites
from tests.support.wire import changed, payload_of, with_fields

PARTIES = sites(5)
each_protocol = pytest.mark.parametrize("protocol", ["verified", "malicious", "semi-honest"])


def to_the_last_message(protocol: str) -> tuple[Play, bytes, list[str]]:
    """A session whose result waits to be read, and who has decrypted it."""
    play, read = Play(protocol, PARTIES, backend=BACKENDS[0]), list[str]()
    last = play.until(play.aggregator.rounds)
    for party in play.parties:
        noting(party, read)
    return play, last, read


def noting(party: Any, read: list[str]) -> None:
    decrypt = party._side._decrypt

    def noted(result: bytes) -> Any:
        read.append(party.name)
        return decrypt(result)

    party._side._decrypt = noted


@each_protocol
def test_what_one_reads_for_all_is_what_each_reads_alone(protocol: str) -> None:
    play, last, read = to_the_last_message(protocol)
    digest = play.manifest.digest
    play.answers(last)
    assert read == ["site 0"]
    assert [name for name in sealed._IN_USE if digest in name]
    for party in play.parties:
        shared = party._outcome
        sealed._IN_USE.clear()
        alone = party._side.read(payload_of(last), party.who)
        assert alone is not shared
        assert repr(alone) == repr(shared)
    assert read == ["site 0", *[party.name for party in play.parties]]
    del play, party
    gc.collect()
    assert not [name for name in sealed._IN_USE if digest in name]  # nothing is kept once the parties are gone


@each_protocol
def test_a_party_with_another_key_under_the_same_name_reads_by_its_own(protocol: str) -> None:
    play, last, read = to_the_last_message(protocol)
    own = decode(play.material["site 1"], PartySecrets, "material")
    kind = kind_of(own.context)
    fingerprint, payload = unwrap(kind, own.context)
    parameters: Any = play.parties[0]._side._task.plan.parameters
    other: Any = GENERATE[parameters.scheme](parameters).secret
    digest = decode(payload, type(other).stored_as, kind).public_keys_digest
    context = wrap(kind, fingerprint, encode(msgspec.structs.replace(other._stored, public_keys_digest=digest)))
    play.material["site 1"] = encode(msgspec.structs.replace(own, context=context))
    wrong: Any = play.party(PARTIES[1])
    wrong.restore(play.parties[1].saved())
    noting(wrong, read)
    play.parties[1] = wrong
    play.answers(last)
    assert read == ["site 0", "site 1"]
    assert wrong._side._reading is not play.parties[0]._side._reading is play.parties[2]._side._reading
    with pytest.raises(EvaluationError):
        wrong.result()


def test_another_result_is_read_though_it_says_the_same() -> None:
    play, last, read = to_the_last_message("semi-honest")
    total = play.aggregator._side
    other = with_fields(last, Result, content=total.aggregate(total.total.totals))
    for party, message in zip(play.parties, [last, other, last, other, last], strict=True):
        party.respond(message)
    assert read == ["site 0", "site 1"]


def test_a_refused_result_is_refused_by_each_itself() -> None:
    play = Play("verified", PARTIES, backend=BACKENDS[0])
    play.lie(lambda words: words[0].__setitem__((0, 0), words[0][0, 0] + 1))
    last, read = play.until(play.aggregator.rounds), list[str]()
    for party in play.parties:
        noting(party, read)
    play.answers(last)
    assert read == [party.name for party in play.parties]
    for party in play.parties:
        with pytest.raises(VerificationError):
            party.result()


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
