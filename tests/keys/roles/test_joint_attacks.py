"""Joint keys against the aggregator: parties refuse what it passes on before they answer, and it never decrypts."""

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest
from fhe_auc_keys.roles.contributions import Contribution, Excerpt, digests
from fhe_auc_keys.roles.joint_roles import _commitment
from fhe_auc_keys.trust.group_sealing import seal_to_all

from fhe_auc.base.errors import EvaluationError, MessageError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.ciphertexts import kind_of, unwrap, wrap
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import SessionRecord
from fhe_auc.session.computation import Result
from fhe_auc_keys.trust.identity import Identity
from tests.support.joint_sessions import JointPlay, contribution
from tests.support.reachable import reachable
from tests.support.wire import changed, flipped, payload_of

NAMES = ("north", "south", "east")
RELINEARISATION, SECRET = 1, 2  # what the aggregator passes on of the first round: parts number 1 and 2
SECRET_PURPOSE, PARTIAL_PURPOSE = b"part of a common secret 1", b"partial decryption 1"
NOT_COMMITTED = "'south': the key parts of 'south' are not those that it committed to"


def state(party: Any) -> tuple[Any, ...]:
    encrypted = None if party._share is None else set(party._share._encrypted)
    return {**vars(party), "_seconds": dict(party._seconds)}, encrypted, dict(vars(party._task))


def assert_refuses(party: Any, message: bytes, why: str | None = None, attack: str = "") -> None:
    """A party does not answer, and is afterwards as it was; where it does, pytest shows the `attack`."""
    before = state(party)
    with pytest.raises(MessageError, match=why):
        party.respond(message)
    assert state(party) == before


def carrying(message: bytes, items: Iterable[Any]) -> bytes:
    """The message with other contributions, or excerpts of them."""
    return changed(message, payload=encode(tuple(items)))


# --- First parts of the relinearisation key, and parts of the common secret -------------------------------------------
#
# From a sum of its own choice the aggregator would read the share off the next answer; a common secret made of parts of
# its own choice it would know.

Excerpts = list[Excerpt]
Contributions = list[Contribution]


def passed_on(message: bytes, shape: type[Any]) -> list[Any]:
    """The contributions, or excerpts of them, that the aggregator passes on of all parties."""
    return list(decode(payload_of(message), tuple[shape, ...], ""))  # type: ignore[valid-type]


def in_place(contributions: list[Any], contribution: Contribution | Excerpt) -> list[Any]:
    """With another contribution of south, or excerpt of it."""
    return [contributions[0], contribution, contributions[2]]


def with_parts(excerpts: Excerpts, *parts: tuple[int, bytes]) -> Excerpts:
    """Other parts under south's genuine signature."""
    return in_place(excerpts, msgspec.structs.replace(excerpts[1], parts=parts))


def with_part(excerpts: Excerpts, part: bytes, index: int = RELINEARISATION) -> Excerpts:
    """Another part under south's genuine signature, the other one being genuine."""
    return with_parts(excerpts, *((each, part if each == index else held) for each, held in excerpts[1].parts))


def own_parts(play: JointPlay, name: str, **changes: bytes) -> tuple[bytes, ...]:
    """What a party sent in the first round, one or the other part changed."""
    names = ("public_key", "relinearisation", "secret")
    return tuple({**dict(zip(names, play.contributed(name, 2).parts, strict=True)), **changes}.values())


def signed_by(play: JointPlay, identity: Identity, round_number: int = 2, **changes: bytes) -> Excerpt:
    """South's parts of the first round, one or the other changed, and somebody's signature."""
    parts = own_parts(play, "south", **changes)
    return Contribution.sign(identity, play.signed_binding, round_number, parts).excerpt(RELINEARISATION, SECRET)


def sealed_secret(
    play: JointPlay,
    sender: str,
    plaintext: bytes = bytes(32),
    *,
    to: tuple[str, ...] = NAMES,
    purpose: bytes = SECRET_PURPOSE,
    associated: bytes = b"",
) -> bytes:
    """A part of the common secret as a party would seal it to the others; anybody can, for public keys are public."""
    public = play.roster.encryption_keys
    info = play.parties[sender]._info(purpose, sender)
    return seal_to_all(
        {name: public[name] for name in to if name != sender}, plaintext, info=info, associated=associated
    )


@contextmanager
def signed_secrets(play: JointPlay, sealed: dict[str, bytes]) -> Iterator[Excerpts]:
    """Everybody's key parts, had some committed to these parts of the common secret at first, and signed them."""
    honest = {name: party._state for name, party in play.parties.items()}
    drawn = {name: own_parts(play, name, **({"secret": sealed[name]} if name in sealed else {})) for name in NAMES}
    commitments = tuple(_commitment(play.binding, name, digests(each)) for name, each in drawn.items())
    binding = hashlib.sha256(play.binding + b"".join(commitments)).digest()
    for party in play.parties.values():
        party._state = msgspec.structs.replace(party._state, commitments=commitments)
    try:
        yield [
            Contribution.sign(play.identity(name), binding, 2, each).excerpt(RELINEARISATION, SECRET)
            for name, each in drawn.items()
        ]
    finally:
        for name, party in play.parties.items():
            party._state = honest[name]


CHOSEN_LAST, DRAWN_AGAIN = "chosen once it has seen the others'", "drawn again and signed by the party"
CULPRITS = {
    CHOSEN_LAST: NOT_COMMITTED,
    DRAWN_AGAIN: NOT_COMMITTED,
    "all parts passed on": "bytes, at most",
    "order swapped": "north",
    "the last left out and the first doubled": "north|east",
    "one left out": "2 parties, of 3",
    "one doubled": "4 parties, of 3|bytes, at most",
    "none": "0 parties, of 3",
    "swapped": "north|south",
    "one missing": "2 parties, of 3",
}
"""What the refusal of an attack names; of all others it is south."""


def chosen_last(play: JointPlay) -> Contribution:
    """South's signed parts, such that with the others' they add up to what it likes: H = 2^20, G = 0."""
    _, shape = play.aggregator._computation.setup.key_parts
    wanted = shape.zeros()
    wanted[: len(shape.moduli) // 2] = 2**20
    for name in ("north", "east"):
        shape.subtract_in_place(wanted, shape.unpack(play.contributed(name, 2).parts[RELINEARISATION]))
    parts = own_parts(play, "south", relinearisation=shape.pack(wanted))
    return Contribution.sign(play.identity("south"), play.signed_binding, 2, parts)


def drawn_again(play: JointPlay) -> Contribution:
    """As when south was restarted in mid-session, or its signing key is in somebody else's hands."""
    restarted = play.party(play.sites[1])
    restarted.respond(play.wire[0])
    return Contribution.sign(play.identity("south"), play.signed_binding, 2, restarted._state.key_parts)


def forged_parts(play: JointPlay, other: JointPlay, e: Excerpts) -> dict[str, Excerpts]:
    """What the aggregator may pass on in place of the honest excerpts `e`."""
    _, shape = play.aggregator._computation.setup.key_parts
    zeros, ones = (shape.pack(np.full((len(shape.moduli), shape.ring_dimension), value, np.uint64)) for value in (0, 1))
    south, north, stranger = play.identity("south"), play.identity("north"), Identity.create("south")
    genuine, (part, secret) = play.contributed("south", 2), e[1].parts
    made_up, norths = sealed_secret(play, "south"), sealed_secret(play, "north")

    def with_fields(source: Excerpt = e[1], **fields: Any) -> Excerpts:
        return in_place(e, msgspec.structs.replace(source, **fields))

    def with_digests_that_fit(**changes: bytes) -> Excerpts:
        return with_fields(signed_by(play, stranger, **changes), signature=e[1].signature)

    return {
        "zero": with_part(e, zeros),
        "one everywhere": with_part(e, ones),
        "a bit flipped": with_part(e, flipped(part[1], 1000)),
        "empty": with_part(e, b""),
        "one's part for another's": with_part(e, dict(e[0].parts)[RELINEARISATION]),
        "one's excerpt for another's": in_place(e, e[0]),
        "digests changed to fit": with_digests_that_fit(relinearisation=ones),
        "signed by the aggregator in a party's name": in_place(e, signed_by(play, stranger, relinearisation=ones)),
        "signed by another party": in_place(e, signed_by(play, north)),
        "its own of another session": in_place(e, other.contributed("south", 2).excerpt(RELINEARISATION, SECRET)),
        "signed by the party for another round": in_place(e, signed_by(play, south, 3)),
        "another part of the same contribution": in_place(e, genuine.excerpt(0, SECRET)),
        "another part of the same contribution, its index changed": with_part(e, genuine.parts[0]),
        "its index changed": with_parts(e, (0, part[1]), secret),
        "left out": with_parts(e, secret),
        "nothing passed on": with_parts(e),
        "a part more": with_parts(e, part, secret, (3, b"")),
        "all parts passed on": in_place(e, genuine.excerpt(0, 1, 2)),
        "the two under each other's index": with_parts(e, (RELINEARISATION, secret[1]), (SECRET, part[1])),
        "secret: a bit flipped": with_part(e, flipped(secret[1], 60), SECRET),
        "secret: cut off": with_part(e, secret[1][:-1], SECRET),
        "secret: empty": with_part(e, b"", SECRET),
        "secret: moved into the other part": with_parts(e, (RELINEARISATION, part[1] + secret[1]), (SECRET, b"")),
        "secret: left out": with_parts(e, part),
        "secret: doubled": with_parts(e, part, secret, secret),
        "secret: its index changed": with_parts(e, part, (3, secret[1])),
        "secret: its index counted from the end": with_parts(e, part, (-1, secret[1])),
        "secret: one's for another's": with_part(e, dict(e[0].parts)[SECRET], SECRET),
        "secret: the party's own of another session": with_part(e, own_parts(other, "south")[SECRET], SECRET),
        "secret: the aggregator's own, sealed to the parties": with_part(e, made_up, SECRET),
        "secret: the aggregator's own, digests changed to fit": with_digests_that_fit(secret=made_up),
        "secret: the aggregator's, signed in a name": in_place(e, signed_by(play, stranger, secret=made_up)),
        "secret: another's, signed by another party": in_place(e, signed_by(play, north, secret=norths)),
        "secret: a contribution with no such part": with_fields(digests=e[1].digests[:2]),
        "a contribution with no such part": with_fields(digests=e[1].digests[:1]),
        **{
            attack: in_place(e, signed.excerpt(RELINEARISATION, SECRET))
            for attack, signed in ((CHOSEN_LAST, chosen_last(play)), (DRAWN_AGAIN, drawn_again(play)))
        },
        "order swapped": [e[1], e[0], e[2]],
        "the last left out and the first doubled": [e[0], e[1], e[0]],
        "one left out": e[:2],
        "one doubled": [*e, e[0]],
        "none": [],
    }


@pytest.fixture(scope="module")
def other(site_rows: list[PartyData]) -> JointPlay:
    """Another session of the same parties with the same certified keys, played to its last round."""
    play = JointPlay(site_rows)
    play.until(5)
    return play


@pytest.fixture
def play(site_rows: list[PartyData], other: JointPlay) -> JointPlay:
    """A session that has not begun."""
    return JointPlay(site_rows, delivery=other.delivery)


Attacked = Callable[[int], tuple[JointPlay, bytes]]


@pytest.fixture(scope="module")
def attacked(site_rows: list[PartyData], other: JointPlay) -> Iterator[Attacked]:
    """Sessions that have come to some round, with the message that opens it.

    After all attacks they still end, and the AUC is right.
    """
    made: dict[int, tuple[JointPlay, bytes]] = {}

    def until(round_number: int) -> tuple[JointPlay, bytes]:
        if round_number not in made:
            play = JointPlay(site_rows, delivery=other.delivery)
            made[round_number] = play, play.until(round_number)
        return made[round_number]

    yield until
    for play, message in made.values():
        play.finish(message)
        record = play.aggregator.result()  # which holds no number
        assert record == SessionRecord(play.manifest.session, NAMES, (), NAMES, ())


def test_parts_that_are_not_all_parties_own_of_this_session_are_not_answered(
    attacked: Attacked, other: JointPlay
) -> None:
    play, message = attacked(3)
    for attack, forged in forged_parts(play, other, passed_on(message, Excerpt)).items():
        for party in play.parties.values():
            assert_refuses(party, carrying(message, forged), CULPRITS.get(attack, "south"), attack)


def signed_secrets_of_south(play: JointPlay, other: JointPlay) -> dict[str, bytes]:
    """Parts of the common secret that only those find to be wrong who open them; altered seals: test_roster.py."""
    return {
        "not sealed": bytes(32),
        "another's": own_parts(play, "north")[SECRET],
        "sealed in another's name": sealed_secret(play, "north"),
        "its own of another session": own_parts(other, "south")[SECRET],
        "sealed for another session": sealed_secret(other, "south"),
        "sealed for another purpose": sealed_secret(play, "south", purpose=PARTIAL_PURPOSE),
        "sealed with something else": sealed_secret(play, "south", associated=bytes(32)),
    }


def test_a_part_of_the_common_secret_that_does_not_open_is_not_answered_whoever_signed_it(
    attacked: Attacked, other: JointPlay
) -> None:
    play, message = attacked(3)
    why, readers = "(?!the key parts)", ("north", "east")  # south takes its own part from itself
    attacks = [(attack, why, secret, readers) for attack, secret in signed_secrets_of_south(play, other).items()]
    for favoured, left_out in (readers, readers[::-1]):
        secret = sealed_secret(play, "south", to=(favoured,))
        attacks.append(("sealed to some", f"not sealed to '{left_out}'", secret, (left_out,)))
    for attack, why, secret, readers in attacks:
        with signed_secrets(play, {"south": secret}) as forged:
            for name in readers:
                refusal = f"contribution of party 'south': {why}"
                assert_refuses(play.parties[name], carrying(message, forged), refusal, attack)
                assert play.parties[name]._state.common_secret == b""


# --- Commitments ------------------------------------------------------------------------------------------------------
#
# Whoever sends its parts last, having seen all others', would choose the sum, and read shares off the next answers.


def test_a_party_that_changes_its_parts_once_it_has_seen_the_others_is_refused_by_name(play: JointPlay) -> None:
    submissions = play.answers(play.until(2))
    for name in ("north", "east"):
        play.aggregator.receive(name, submissions[name])
    with pytest.raises(MessageError, match="'south' refused: the key parts of 'south' are not those that it committed"):
        play.aggregator.receive("south", changed(submissions["south"], payload=encode(chosen_last(play))))
    play.finish(None, submissions)  # it sends what it had committed to, and all is well


def test_parties_that_were_shown_different_commitments_refuse_each_other(play: JointPlay) -> None:
    """South has signed two, and shows each of the others the parts that it had committed to there."""
    message = play.until(2)
    play.wire.append(message)
    twin = play.party(play.sites[1])
    twins = contribution(twin.respond(play.wire[0]))
    differently = carrying(message, in_place(passed_on(message, Contribution), twins))
    answers = {
        "north": (play.parties["north"].respond(message), play.parties["south"].respond(message)),
        "east": (play.parties["east"].respond(differently), twin.respond(differently)),
    }
    contributions = {
        name: [contribution(each).excerpt(RELINEARISATION, SECRET) for each in both] for name, both in answers.items()
    }
    (north, south), (east, south_s_other) = contributions["north"], contributions["east"]
    for name, souths, accused in (("north", south, "east"), ("east", south_s_other, "north")):
        forged = changed(message, round=3, payload=encode((north, souths, east)))
        why = f"'{accused}' for this session and round, and for the same commitments"
        assert_refuses(play.parties[name], forged, why)


def forged_commitments(play: JointPlay, other: JointPlay, c: Contributions) -> dict[str, Contributions]:
    """What the aggregator may pass on in place of the honest commitments `c`."""
    south = play.identity("south")

    def with_signed(*parts: bytes, by: Identity = south, in_round: int = 1) -> Contributions:
        return in_place(c, Contribution.sign(by, play.binding, in_round, parts))

    return {
        "another's": in_place(c, c[0]),
        "made up, under the genuine signature": in_place(c, Contribution((bytes(32),), c[1].signature)),
        "made up, signed in its name": with_signed(bytes(32), by=Identity.create("south")),
        "signed by another party": with_signed(bytes(32), by=play.identity("north")),
        "its own of another session": in_place(c, other.contributed("south", 1)),
        "its own for another round": with_signed(bytes(32), in_round=2),
        "too short": with_signed(bytes(31)),
        "too long": with_signed(bytes(33)),
        "none in it": with_signed(),
        "two in it": with_signed(bytes(32), bytes(32)),
        "its own, but not what it has sent": with_signed(bytes(32)),
        "order swapped": [c[1], c[0], c[2]],
        "one left out": c[:2],
        "one doubled": [*c, c[0]],
        "none": [],
    }


def test_no_party_shows_its_parts_before_it_has_a_commitment_of_every_party(
    attacked: Attacked, other: JointPlay
) -> None:
    play, message = attacked(2)
    for attack, forged in forged_commitments(play, other, passed_on(message, Contribution)).items():
        only_south = attack == "its own, but not what it has sent"  # the others cannot know
        for party in [play.parties["south"]] if only_south else play.parties.values():
            why = NOT_COMMITTED if only_south else CULPRITS.get(attack, "south")
            assert_refuses(party, carrying(message, forged), why, attack)


def test_a_commitment_is_its_partys_own_and_tells_nothing_that_another_party_can_use(play: JointPlay) -> None:
    """South copies north's commitment, and then its parts: nobody takes them for south's."""
    first = play.answers(play.until(1))
    copied = contribution(first["north"]).parts
    first["south"] = changed(
        first["south"], payload=encode(Contribution.sign(play.identity("south"), play.binding, 1, copied))
    )
    message = play.deliver(first)
    assert message is not None
    norths = contribution(play.parties["north"].respond(message)).parts
    forged = Contribution.sign(play.identity("south"), play.aggregator._signed_binding(), 2, norths)
    with pytest.raises(MessageError, match="'south' refused: the key parts of 'south' are not those that it committed"):
        play.aggregator.receive("south", changed(first["south"], round=2, payload=encode(forged)))


# --- The common secret ------------------------------------------------------------------------------------------------


def derived(play: JointPlay, name: str, excerpts: Excerpts) -> bytes:
    """The common secret that a party would derive; its state stays as it is."""
    _, common_secret = play.parties[name]._key_parts_of_all(encode(tuple(excerpts)))
    return bytes(common_secret)


def test_all_parties_of_a_session_derive_the_same_common_secret_and_in_another_session_another(
    attacked: Attacked, other: JointPlay
) -> None:
    found = []
    for play in (attacked(5)[0], other):
        (common_secret,) = {party._state.common_secret for party in play.parties.values()}
        parts = [party._state.secret_part for party in play.parties.values()]
        assert [len(each) for each in (common_secret, *parts)] == [32] * 4
        found += [common_secret, *parts]
    assert len(set(found)) == 8  # parts are drawn anew by every party in every session
    for name, excerpt in zip(NAMES, passed_on(attacked(3)[1], Excerpt), strict=True):
        keys, ciphertext = msgspec.msgpack.decode(dict(excerpt.parts)[SECRET])
        assert set(keys) == set(NAMES) - {name}  # sealed to all other parties and to nobody else
        assert len(ciphertext) == 32 + 32 + 16  # commitment, secret, tag


def test_the_common_secret_depends_on_every_partys_part_and_on_whose_it_is(attacked: Attacked) -> None:
    play, message = attacked(3)
    excerpts = passed_on(message, Excerpt)
    (honest,) = {derived(play, name, excerpts) for name in NAMES}
    found = {honest}
    for author in NAMES:
        readers = [name for name in NAMES if name != author]
        part = play.parties[author]._state.secret_part
        for changed_part in (flipped(part, 0), flipped(part, 31), bytes(32)):
            with signed_secrets(play, {author: sealed_secret(play, author, changed_part)}) as forged:
                (common_secret,) = {derived(play, name, forged) for name in readers}
            found.add(common_secret)
        # The same part sealed anew changes nothing, and two parties' parts exchanged do.
        with signed_secrets(play, {author: sealed_secret(play, author, part)}) as again:
            assert {derived(play, name, again) for name in readers} == {honest}
        exchanged = {
            name: sealed_secret(play, name, play.parties[other]._state.secret_part)
            for name, other in (readers, readers[::-1])
        }
        with signed_secrets(play, exchanged) as swapped:
            found.add(derived(play, author, swapped))
    assert len(found) == 1 + 3 * 3 + 3


def test_the_same_parts_make_another_common_secret_in_another_session(
    attacked: Attacked, other: JointPlay, monkeypatch: Any
) -> None:
    found = []
    for play in (attacked(3)[0], other):
        parts = {name: bytes([number]) * 32 for number, name in enumerate(NAMES)}
        for name, party in play.parties.items():
            monkeypatch.setattr(party, "_state", msgspec.structs.replace(party._state, secret_part=parts[name]))
        sealed = {name: sealed_secret(play, name, part) for name, part in parts.items()}
        with signed_secrets(play, sealed) as excerpts:
            (common_secret,) = {derived(play, name, excerpts) for name in NAMES}
        found.append(common_secret)
    assert found[0] != found[1]


def test_a_task_is_given_the_common_secret_whenever_it_is_asked_for_anything(play: JointPlay) -> None:
    message = play.until(3)
    seen: list[tuple[str, bytes]] = []

    def recording(asked: str, honest: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: seen.append((asked, given[-1])) or honest(*given)

    for party in play.parties.values():
        party._task.encode = recording("encode", party._task.encode)
        party._task.read = recording("read", party._task.read)
    play.finish(play.play_round(message))
    (common_secret,) = {party._state.common_secret for party in play.parties.values()}
    assert sorted(seen) == [(asked, common_secret) for asked in ("encode", "read") for _ in NAMES]


def test_a_party_is_not_pickled_or_copied(attacked: Attacked, other: JointPlay, play: JointPlay) -> None:
    """Neither before it has a share, nor while it has one, nor afterwards."""
    for party in (each.parties["north"] for each in (play, attacked(3)[0], other)):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="not pickled or copied"):
                duplicate(party)


# --- Partial decryptions ----------------------------------------------------------------------------------------------


def resealed(play: JointPlay, purpose: bytes, associated: bytes = b"") -> bytes:
    """South's genuine partial decryption of the genuine result, or of an `associated` one, sealed for some purpose."""
    south = play.parties["south"]
    associated = associated or hashlib.sha256(south._state.result).digest()
    return sealed_secret(play, "south", south._state.partial, purpose=purpose, associated=associated)


def signed_in_place(play: JointPlay, contributions: Contributions, *parts: bytes) -> Contributions:
    """With what south itself has signed."""
    return in_place(contributions, Contribution.sign(play.identity("south"), play.signed_binding, 4, parts))


def forged_partials(play: JointPlay, other: JointPlay, c: Contributions) -> dict[str, Contributions]:
    """What the aggregator may pass on in place of the honest partial decryptions `c`."""
    return {
        "altered": in_place(c, Contribution((flipped(c[1].parts[0], 1000),), c[1].signature)),
        "another's": in_place(c, c[0]),
        "another's, signed by the party": signed_in_place(play, c, *c[0].parts),
        "altered, signed by a stranger": in_place(
            c, Contribution.sign(Identity.create("south"), play.signed_binding, 4, c[1].parts)
        ),
        "of another session": in_place(c, other.contributed("south", 4)),
        "of another session, signed for this one": signed_in_place(play, c, *other.contributed("south", 4).parts),
        "of another result": signed_in_place(play, c, resealed(play, PARTIAL_PURPOSE, bytes(32))),
        "the party's contribution of another round": in_place(c, play.contributed("south", 3)),
        "sealed as a part of the common secret": signed_in_place(play, c, resealed(play, SECRET_PURPOSE)),
        "its part of the common secret": signed_in_place(play, c, *own_parts(play, "south")[SECRET:]),
        "no part": signed_in_place(play, c),
        "sealed to nobody": signed_in_place(play, c, encode(({}, b""))),
        "swapped": [c[1], c[0], c[2]],
        "one missing": [c[0], c[2]],
        "one doubled": [*c, c[1]],
    }


def test_partial_decryptions_that_are_not_all_parties_own_of_this_result_are_refused(
    attacked: Attacked, other: JointPlay
) -> None:
    play, message = attacked(5)
    for attack, forged in forged_partials(play, other, passed_on(message, Contribution)).items():
        for name in ("north", "east"):  # south takes its own partial decryption from itself
            assert_refuses(play.parties[name], carrying(message, forged), CULPRITS.get(attack, "south"), attack)
            with pytest.raises(EvaluationError, match="no result"):
                play.parties[name].result()
    # The same sealed anew for its purpose opens: so it is for their purpose that others are refused.
    payload = encode(tuple(signed_in_place(play, passed_on(message, Contribution), resealed(play, PARTIAL_PURPOSE))))
    for name in ("north", "east"):
        partials = list(play.parties[name]._all_partials(payload))
        honest = list(play.parties[name]._all_partials(payload_of(message)))
        assert all(map(np.array_equal, partials, honest))


# --- Results ----------------------------------------------------------------------------------------------------------


def opened(result: bytes) -> tuple[str, bytes, bytes]:
    """The one ciphertext of a result: what its container says, the session's name, coefficients."""
    (only,) = decode(result, tuple[bytes, ...], "")
    kind = kind_of(only)
    return kind, *unwrap(kind, only)


def another_result(message: bytes) -> bytes:
    """The result with one coefficient changed, well formed and in its container."""
    result = decode(payload_of(message), Result, "")
    kind, fingerprint, packed = opened(result.content)
    sealed = wrap(kind, fingerprint, flipped(packed, 7000))
    return changed(message, payload=encode(Result(result.counted, encode((sealed,)))))


def test_of_different_results_for_different_parties_nobody_gets_a_number(play: JointPlay) -> None:
    message = play.until(4)
    for name, party in play.parties.items():
        play.aggregator.receive(name, party.respond(another_result(message) if name == "south" else message))
    partials = play.aggregator.finish_round()
    for name, accused in (("north", "south"), ("east", "south"), ("south", "north")):
        with pytest.raises(MessageError, match=f"contribution of party '{accused}'"):
            play.parties[name].respond(partials)
        with pytest.raises(EvaluationError, match="no result"):
            play.parties[name].result()


def test_a_party_decrypts_no_result_that_is_damaged_or_of_another_kind_then_one_and_no_second(play: JointPlay) -> None:
    message = play.until(4)
    result = decode(payload_of(message), Result, "").content
    kind, fingerprint, packed = opened(result)
    other_ciphertexts = (
        ("submission", fingerprint, packed),
        (kind, bytes(32), packed),
        (kind, fingerprint, packed[:-1]),
        (kind, fingerprint, b"\xff" * len(packed)),
    )
    wrongly_sealed = [encode((wrap(*each),)) for each in other_ciphertexts]
    for wrong in (b"", result[:-1], flipped(result, 20), encode(()), *wrongly_sealed):
        for party in play.parties.values():
            assert_refuses(party, changed(message, payload=encode(Result(NAMES, wrong))))
    north = play.parties["north"]
    for counted in ((), NAMES[:2], NAMES[1:], (*NAMES, "west"), (NAMES[0], *NAMES), NAMES[::-1]):
        assert_refuses(north, changed(message, payload=encode(Result(tuple(counted), result))), "count")
    first = north.respond(message)
    for asked in (message, another_result(message), changed(another_result(message), round=5)):
        assert_refuses(north, asked)
    play.aggregator.receive("north", first)
    for name in ("south", "east"):
        play.aggregator.receive(name, play.parties[name].respond(message))
    last = play.aggregator.finish_round()
    play.finish(last)
    for asked in (message, another_result(message), last):
        with pytest.raises(MessageError, match="round"):
            north.respond(asked)


def test_no_number_comes_of_a_relinearisation_key_without_a_partys_part(play: JointPlay) -> None:
    for name, submission in play.answers(play.until(3)).items():
        play.aggregator.receive(name, submission)
    total = play.aggregator._submissions._sums[0]
    moduli = np.array(total.polynomials.moduli, np.uint64)[:, None]
    total.add((moduli - total.polynomials.unpack(play.contributed("south", 3).parts[0])) % moduli)
    message = play.play_round(play.aggregator.finish_round())
    assert play.play_round(message) is None
    for party in play.parties.values():
        for _ in range(2):
            with pytest.raises(EvaluationError, match=r"no number is given|not a sum of integers within bounds"):
                party.result()


# --- What the aggregator holds ----------------------------------------------------------------------------------------


def bytes_within(root: Any) -> Iterator[bytes]:
    """All bytes that can be reached from an object, those of arrays, too."""
    for item in reachable(root):
        if isinstance(item, (bytes, bytearray, np.ndarray)):
            yield item.tobytes() if isinstance(item, np.ndarray) else bytes(item)


def pieces(words: np.ndarray, polynomials: Any) -> list[bytes]:
    """Pieces of coefficients, packed as they travel and as they lie in memory; each too long to occur by chance."""
    packed, stored = polynomials.pack(words), words.tobytes()
    return [packed[k : k + 14] for k in range(700, len(packed) - 14, len(packed) // 10)] + [
        stored[k : k + 16] for k in range(800, len(stored) - 16, len(stored) // 10)
    ]


def halves(text: bytes) -> list[bytes]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def test_neither_the_aggregator_nor_the_wire_holds_a_share_a_partial_decryption_or_the_common_secret(
    play: JointPlay,
) -> None:
    held: set[bytes] = set()
    secret: list[bytes] = []
    message: bytes | None = play.aggregator.start()
    while message is not None:
        play.wire.append(message)
        for name, party in play.parties.items():
            play.wire.append(party.respond(message))
            play.aggregator.receive(name, play.wire[-1])
            if play.aggregator.round == 2:
                share, setup = party._share, party._setup  # of the key, and the secret that it needs for one key
                secret += pieces(share.secret_words, setup.submission_part)
                secret += pieces(share._ephemeral, setup.result_part)
                secret += halves(party._state.secret_part)
            if play.aggregator.round == 3:
                secret += halves(party._state.common_secret)
            if play.aggregator.round == 4:
                partial = party._computation.partial_shape
                secret += pieces(partial.unpack(party._state.partial), partial)
        held.update(bytes_within(play.aggregator))
        message = play.aggregator.finish_round()
    held.update(bytes_within(play.aggregator), play.wire)
    everything = b"|".join(held)
    assert len(secret) > 3 * (3 * 15 + 2 * 2)
    assert len({party._state.secret_part for party in play.parties.values()}) == 3
    assert not any(piece in everything for piece in secret)
    # What the aggregator and the wire do hold is found in the same way.
    total = play.aggregator._submissions._sums[1]
    assert all(piece in everything for piece in pieces(total.words, total.polynomials)[-10:])
    own = total.polynomials.unpack(play.contributed("south", 3).parts[1])
    assert all(piece in everything for piece in pieces(own, total.polynomials)[:10])
    for name in NAMES:
        assert all(piece in everything for piece in halves(own_parts(play, name)[SECRET]))
