"""Between machines an echo bears a MAC in place of a signature: nobody's junk takes its place, and no MAC another's."""

import hashlib
import hmac
from typing import Any

import pytest

from fhe_auc.base.errors import MessageError, VerificationError
from fhe_auc.base.names import AGGREGATOR
from fhe_auc.machines.answers import said
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import MAC_KEY_BYTES, Message, Rounds
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.message_signatures import SessionProtection
from tests.support.exact_sessions import Play
from tests.support.wire import LIMIT, changed, payload_of


class Signed(Play):
    """A session of `verified` with sealed keys, as between machines."""

    def __init__(self, sites: list[PartyData]) -> None:
        super().__init__("verified", sites)
        roles = {AGGREGATOR: self.aggregator, **{party.name: party for party in self.parties}}
        identities = {name: Identity.create(f"the {name}") for name in roles}
        signing = {name: identity.signing_key for name, identity in identities.items()}
        sealing = {AGGREGATOR: identities[AGGREGATOR].encryption_key}
        for name, role in roles.items():
            role.protection = SessionProtection(self.manifest.digest, signing, sealing, identities[name])

    def key(self, party: str) -> bytes:
        """By what a party's echo is made a MAC, as the aggregator knows it."""
        return bytes(self.aggregator._mac_keys[party])

    def refused(self, submission: bytes) -> str | None:
        """The field for which the aggregator refuses what comes as north's."""
        with pytest.raises(MessageError) as caught:
            self.aggregator.receive("north", submission)
        assert not self.aggregator.has_accepted("north")
        assert not self.aggregator.refusals  # of which north has sent nothing
        return caught.value.field


@pytest.fixture
def play(site_rows: list[PartyData]) -> Signed:
    return Signed(site_rows)


def parsed(message: bytes) -> Message:
    return Message.from_bytes(message, limit=LIMIT)


def with_mac(message: bytes, key: bytes) -> bytes:
    return changed(message, signature=hmac.new(key, parsed(message).digest, "sha256").digest())


def signed(message: bytes, by: Any) -> bytes:
    return parsed(message).protected(by.protection).to_bytes()


def test_nothing_but_its_mac_makes_an_echo_count_and_nobody_s_junk_takes_its_place(
    play: Signed, site_rows: list[PartyData]
) -> None:
    """Else one file that somebody puts into a party's place would end the session for all, in that party's name."""
    other = Signed(site_rows)
    elsewhere = other.answers(other.until(2))["north"]
    submissions = play.answers(play.aggregator.start())
    answers = play.answers(play.deliver(submissions))
    echo, junk = answers["north"], changed(answers["north"], payload=bytes(32))
    keys = [play.key(name) for name in answers]
    assert len(set(keys)) == len(keys)
    assert not any(key in sent for key in keys for sent in (*submissions.values(), *answers.values()))
    forgeries = {
        "signed by nobody": (changed(echo, signature=b""), "signature"),
        "altered on the way": (junk, "signature"),
        "of another time": (changed(echo, time=1), "signature"),
        "with a list": (changed(echo, submissions=(("north", bytes(32)),)), "signature"),
        "under a key of zeros": (with_mac(junk, bytes(MAC_KEY_BYTES)), "signature"),
        "under no key": (with_mac(junk, b""), "signature"),
        "under another party's key": (with_mac(junk, play.key("south")), "signature"),
        "signed by its party, too": (signed(echo, play.parties[0]), "signature"),
        "signed by the aggregator": (signed(junk, play.aggregator), "signature"),
        "another party's": (answers["south"], "sender"),
        "another party's in this one's name": (changed(answers["south"], sender="north"), "signature"),
        "of another session": (elsewhere, "session"),
        "of another session in this one's name": (
            changed(echo, payload=payload_of(elsewhere), signature=parsed(elsewhere).signature),
            "signature",
        ),
        "what was submitted": (submissions["north"], "round"),
        "what was submitted, as of this round": (changed(submissions["north"], round=2), "signature"),
    }
    for how, (forged, field) in forgeries.items():
        assert play.refused(forged) == field, how
    play.deliver(play.answers(play.deliver(answers)))
    assert len({party.result().auc for party in play.parties}) == 1


@pytest.mark.parametrize("whose", ["of another session", "another party's"])
def test_an_echo_that_the_aggregator_passes_off_as_a_partys_is_wrong_by_its_value(
    play: Signed, site_rows: list[PartyData], whose: str
) -> None:
    """It can make the MAC; and yet nobody who knows the common secret reads a number."""
    answers, other = play.answers(play.until(2)), Signed(site_rows)
    odd = other.answers(other.until(2))["north"] if whose == "of another session" else answers["south"]
    lie = with_mac(changed(answers["north"], payload=payload_of(odd)), play.key("north"))
    play.deliver(play.answers(play.deliver({**answers, "north": lie})))
    for party in play.parties:
        with pytest.raises(VerificationError, match="'north' was given another result than this one, or its word was"):
            party.result()


def test_in_no_other_round_does_a_mac_stand_for_a_signature(play: Signed) -> None:
    """Not even the aggregator, which knows the keys of MACs, makes an answer that a party has not signed."""
    north = play.parties[0]
    for number, message in enumerate(play.messages(), 1):
        key = play.key("north") if number > 1 else bytes(MAC_KEY_BYTES)
        for forged in (changed(message, signature=b""), with_mac(message, key)):
            with pytest.raises(MessageError) as caught:
                north.respond(forged)
            assert caught.value.field == "signature"
        made_up = changed(message, sender="north", payload=b"", submissions=())
        if number != play.aggregator.rounds - 1:
            assert {play.refused(forged) for forged in (made_up, with_mac(made_up, key))} == {"signature"}


def test_what_the_aggregator_can_make_up_in_a_site_s_place_closes_nothing_there(play: Signed) -> None:
    """A site takes for its own what it has signed alone: else that would make it erase the keys of all sessions."""
    submissions = play.answers(play.aggregator.start())
    echo = play.answers(play.deliver(submissions))["north"]
    forged = with_mac(changed(echo, round=3, payload=b""), play.key("north"))
    rounds = [
        said(data, play.manifest.session, "north", play.parties[0].protection)
        for data in (submissions["north"], echo, forged)
    ]
    assert rounds == [1, 0, 0]


def test_no_role_hashes_the_same_bytes_twice(play: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[bytes] = []
    sha256 = hashlib.sha256

    def noted(data: bytes = b"") -> Any:
        if len(data) > 1000:  # not names, keys or digests
            hashed.append(bytes(data))
        return sha256(data)

    monkeypatch.setattr(hashlib, "sha256", noted)
    by_role: dict[str, list[bytes]] = {AGGREGATOR: [], **{party.name: [] for party in play.parties}}

    def of(role: str, said: Any) -> Any:
        by_role[role] += hashed
        hashed.clear()
        return said

    message = of(AGGREGATOR, play.aggregator.start())
    while message is not None:
        answers = {party.name: of(party.name, party.respond(message)) for party in play.parties}
        message = of(AGGREGATOR, play.deliver(answers))
    assert all(len(set(each)) == len(each) > 0 for each in by_role.values())


@pytest.mark.parametrize(
    ("rounds", "echo"),
    [
        (Rounds(1), 0),
        (Rounds(2), 0),
        (Rounds(3), 0),
        (Rounds(3, unsealed=2), 2),
        (Rounds(3, unsealed=3), 0),  # nothing is sealed that could carry the key
        (Rounds(4, unsealed=3), 2),
        (Rounds(4, range(2, 4)), 0),
        (Rounds(5, range(2, 4), unsealed=2), 0),
    ],
)
def test_an_echo_is_the_first_answer_that_is_not_sealed_but_for_the_last(rounds: Rounds, echo: int) -> None:
    assert rounds.echo == echo
