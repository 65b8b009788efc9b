"""Who may take part in a session with joint keys, and that what is sealed to its parties opens for nobody else."""

import contextlib
import hashlib
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from fhe_auc_keys.roles.joint_roles import JointAggregator, JointParty
from fhe_auc_keys.trust.group_sealing import seal_to_all, unseal_mine

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.serialise import encode, frame
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_keys.bundles.roster import MAGIC, Member, PartyMaterial, Roster
from fhe_auc_keys.errors import KeysError, TamperedError, UnfitCertificateError
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.certificates import Peer, verify
from fhe_auc_keys.trust.identity import Identity
from tests.support.blinded_auc import encoded
from tests.support.certified import NOW, Consortium
from tests.support.joint_sessions import GRID, JointPlay
from tests.support.wire import flipped

NAMES = ("north", "south", "east")
IDENTITIES = {name: Identity.create(name) for name in (*NAMES, "mallory")}
RECIPIENTS = {name: IDENTITIES[name].encryption_key for name in NAMES}
TEXT = bytes(range(256)) * 8
ABOUT: dict[str, bytes] = {"info": b"from north", "associated": b"result 1"}


# --- Sealing to all parties -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sealed() -> bytes:
    return seal_to_all(RECIPIENTS, TEXT, **ABOUT)


def test_only_recipients_open_it_under_their_names_for_that_purpose(sealed: bytes) -> None:
    assert [unseal_mine(IDENTITIES[name], sealed, **ABOUT) for name in NAMES] == [TEXT] * 3
    keys, ciphertext = msgspec.msgpack.decode(sealed)
    other_keys, other_ciphertext = msgspec.msgpack.decode(seal_to_all(RECIPIENTS, TEXT, **ABOUT))
    assert ciphertext != other_ciphertext
    north, south, mallory = (IDENTITIES[name] for name in ("north", "south", "mallory"))
    renamed = Identity("mallory", south.keys)
    foreign = encode(({"mallory": keys["south"]}, ciphertext))
    swapped = {"info": ABOUT["associated"], "associated": ABOUT["info"]}
    for identity, data, about in (
        (mallory, sealed, {}),
        (Identity.create("north"), sealed, {}),
        *((north, encode(({**keys, "north": keys[name]}, ciphertext)), {}) for name in NAMES[1:]),
        (mallory, foreign, {}),
        (renamed, foreign, {}),  # the same key under another name
        (north, encode((keys, other_ciphertext)), {}),
        (north, encode((other_keys, ciphertext)), {}),
        *((IDENTITIES[name], sealed, {"info": info}) for name in NAMES for info in (b"from south", b"")),
        *((IDENTITIES[name], sealed, {"associated": other}) for name in NAMES for other in (b"result 2", b"")),
        (north, sealed, swapped),
    ):
        with pytest.raises(KeysError if data is sealed and identity is mallory else TamperedError):
            unseal_mine(identity, data, **{**ABOUT, **about})


def test_no_flipped_bit_goes_unnoticed(sealed: bytes) -> None:
    """In what concerns the opener: another recipient's copy of the key is that recipient's to check."""
    keys, ciphertext = msgspec.msgpack.decode(sealed)
    others = [part for name in NAMES[1:] for part in (name.encode(), keys[name])]
    foreign = {sealed.index(part) + k for part in others for k in range(len(part))}
    head, tail = range(sealed.index(ciphertext) + 8), range(len(sealed) - 20, len(sealed))
    middle = random.Random(1).sample(range(len(head), len(sealed) - 20), 200)
    for position in {*head, *middle, *tail} | foreign:
        with contextlib.suppress(KeysError) if position in foreign else pytest.raises(KeysError, match="sealed"):
            # Never another text.
            assert unseal_mine(IDENTITIES["north"], flipped(sealed, position), **ABOUT) == TEXT
    for data in (b"", b"\xc0", b"\x92\x80", encode(({}, b"")), encode(("a", b"")), b"\x91" * 5000):  # never sealed
        with pytest.raises(KeysError, match="sealed"):
            unseal_mine(IDENTITIES["north"], data, **ABOUT)


def _poly1305_key(key: bytes) -> tuple[int, int]:
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(32))
    r, s = (int.from_bytes(part, "little") for part in (stream[:16], stream[16:]))
    return r & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF, s


def _opening_under_both(keys: list[bytes], associated: bytes) -> bytes:
    """A ciphertext of ChaCha20-Poly1305 (RFC 8439, all-zero nonce) that opens under two keys, to different texts.

    Its tag is linear in the blocks: one of them is chosen so that both keys have the same tag.
    """
    prime, marker = 2**130 - 5, 2**128
    padded = associated + bytes(-len(associated) % 16)
    lengths = len(associated).to_bytes(8, "little") + (32).to_bytes(8, "little")
    (r1, s1), (r2, s2) = map(_poly1305_key, keys)

    def digest(r: int, text: bytes) -> int:
        total, data = 0, padded + text + lengths
        for start in range(0, len(data), 16):
            total = (total + int.from_bytes(data[start : start + 16], "little") + marker) * r % prime
        return total

    for attempt in range(10_000):
        head = attempt.to_bytes(16, "little")
        others = digest(r1, head + bytes(16)) - digest(r2, head + bytes(16))  # the second block still zero
        slope = (pow(r1, 2, prime) - pow(r2, 2, prime)) % prime
        block = (s2 - s1 - others) * pow(slope, -1, prime) % prime
        if block < marker:
            text = head + block.to_bytes(16, "little")
            tags = {(digest(r, text) + s) % marker for r, s in ((r1, s1), (r2, s2))}
            if len(tags) == 1:
                return text + tags.pop().to_bytes(16, "little")
    raise AssertionError("no such ciphertext was found")


def test_a_sender_cannot_let_two_recipients_open_two_texts() -> None:
    """The ciphertext is one, and bound into each recipient's seal: under each key it opens, to another text."""
    keys = [bytes([1]) * 32, bytes([2]) * 32]
    ciphertext = _opening_under_both(keys, ABOUT["associated"])
    texts = {ChaCha20Poly1305(key).decrypt(bytes(12), ciphertext, ABOUT["associated"]) for key in keys}
    assert len(texts) == 2
    for body in (ciphertext, bytes(32) + ciphertext):  # as it was sent once, and with something for the commitment
        digest = hashlib.sha256(body).digest()
        copies = {
            name: sealing.seal_classical(
                IDENTITIES[name].encryption_key, key, info=encode((ABOUT["info"], name, digest))
            )
            for name, key in zip(NAMES, keys, strict=False)
        }
        for name in copies:
            with pytest.raises(TamperedError, match="another key"):
                unseal_mine(IDENTITIES[name], encode((copies, body)), **ABOUT)


def test_a_key_that_the_text_is_not_committed_to_is_refused_even_where_it_opens_the_text() -> None:
    """Sealed honestly to one, and to another with the same commitment and a key of its own."""
    recipients = {name: IDENTITIES[name].encryption_key for name in NAMES[:2]}
    keys, body = msgspec.msgpack.decode(seal_to_all(recipients, TEXT, **ABOUT))
    info = encode((ABOUT["info"], "south", hashlib.sha256(body).digest()))
    keys["south"] = sealing.seal_classical(recipients["south"], bytes(32), info=info)
    assert unseal_mine(IDENTITIES["north"], encode((keys, body)), **ABOUT) == TEXT
    with pytest.raises(TamperedError, match="another key"):
        unseal_mine(IDENTITIES["south"], encode((keys, body)), **ABOUT)


def test_sealing_is_fresh_and_shows_nothing_of_the_text() -> None:
    sealed = [seal_to_all(RECIPIENTS, bytes(4096), **ABOUT) for _ in range(5)]
    assert len(set(sealed)) == 5
    assert not any(bytes(8) in each for each in sealed)
    assert len({msgspec.msgpack.decode(each)[1][:16] for each in sealed}) == 5
    assert all(len(each) < 4096 + 16 + 3 * (80 + 16) + 32 for each in sealed)


def member_keys(name: str) -> tuple[bytes, bytes]:
    return IDENTITIES[name].signing_key, IDENTITIES[name].encryption_key


ROSTER = Roster(tuple(Member(name, *member_keys(name)) for name in sorted(NAMES)))
# --- Rosters ----------------------------------------------------------------------------------------------------------


def peer(name: str, identity: Identity) -> Peer:
    consortium = Consortium()
    return replace(verify(consortium.certified(identity).credential, consortium.trust(), at=NOW), name=name)


def test_a_roster_has_every_partys_own_keys_survives_its_bytes_and_cannot_be_changed() -> None:
    roster = Roster.of([peer(name, IDENTITIES[name]) for name in NAMES])
    assert roster == ROSTER == Roster.from_bytes(roster.to_bytes())
    assert roster.names == set(NAMES)
    # Partial decryptions would be sealed to whoever has an encryption key in it.
    with pytest.raises(TypeError):
        ROSTER.encryption_keys["mallory"] = IDENTITIES["mallory"].encryption_key  # type: ignore[index]
    with pytest.raises(AttributeError):
        ROSTER.members = ()  # type: ignore[misc]
    assert isinstance(ROSTER.members, tuple)
    material = PartyMaterial(ROSTER, IDENTITIES["north"].to_bytes())
    assert repr(material) == str(material) == "PartyMaterial(...)"


def test_a_roster_with_a_key_that_is_none_or_out_of_order_or_a_name_or_key_twice_is_refused() -> None:
    north, south = peer("north", IDENTITIES["north"]), peer("south", IDENTITIES["south"])
    Roster.of([north, south])
    for same in ("name", "signing_key", "encryption_key"):
        with pytest.raises(UnfitCertificateError, match="have the same"):
            Roster.of([north, replace(south, **{same: getattr(north, same)})])
    for members in (
        *([("east", bytes(length), ROSTER.encryption_keys["east"])] for length in (0, 31, 33)),
        # zero is a point of small order
        *([("east", ROSTER.signing_keys["east"], bytes(length))] for length in (0, 31, 33, 32)),
        [("south", *member_keys("south")), ("north", *member_keys("north"))],
        [("south", *member_keys("south")), ("south", *member_keys("north"))],
        [("north", *member_keys("south")), ("south", *member_keys("south"))],
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - which one is the implementation's choice
            Roster(tuple(Member(*fields) for fields in members))
        with pytest.raises(InputError, match="roster"):
            Roster.from_bytes(frame(MAGIC, (members,)))
    for data in (b"", b"\xc0", encode(({}, {}, {})), encode(("a", "b")), b"\xff" * 100):
        with pytest.raises(InputError, match="roster"):
            Roster.from_bytes(data)


# --- Who may take part at all -----------------------------------------------------------------------------------------


def roles(idle: JointPlay, manifest: Manifest, roster: Roster, identity: Identity) -> list[Callable[[], Any]]:
    """Makers of both roles."""
    material = encode(PartyMaterial(roster, identity.to_bytes()))
    return [
        lambda: idle.plugin.aggregator(manifest, roster.to_bytes()),
        lambda: idle.plugin.party(manifest, material, idle.sites[0]),
    ]


@pytest.fixture(scope="module")
def idle(site_rows: list[PartyData]) -> JointPlay:
    """A session that has not begun."""
    return JointPlay(site_rows)


def test_no_role_begins_with_other_parties_or_fewer_or_with_smudging_switched_off(idle: JointPlay) -> None:
    mallory, replace, north = Identity.create("mallory"), msgspec.structs.replace, idle.identity("north")
    everybody = *idle.roster.members, Member("mallory", mallory.signing_key, mallory.encryption_key)
    rosters = []
    for names in (("north", "south"), ("north", "south", "mallory"), ("north", "south", "east", "mallory")):
        chosen = sorted((each for each in everybody if each.name in names), key=lambda member: member.name)
        rosters.append(Roster(tuple(chosen)))
    for_four = idle.plugin.plan(Request(parties=("a", "b", "c", "d"), thresholds=GRID, keys="joint"))
    lax = [replace(idle.manifest, min_parties=2), replace(idle.manifest, plan=encoded(for_four))]
    fields, unmasked, outside = msgspec.to_builtins(idle.plan, builtin_types=(bytes,)), [], (0, 29, 81, -40)
    for bits in outside:
        with pytest.raises(CapacityError, match=f"smudging_bits must lie between 30 and 80, got {bits}"):
            replace(idle.plan, smudging_bits=bits)
        altered = EncodedPlan(idle.plan.kind, msgspec.msgpack.encode({**fields, "smudging_bits": bits}))
        unmasked.append(replace(idle.manifest, plan=altered))
    for manifest, roster, why in (
        *((idle.manifest, each, "roster names other parties") for each in rosters),
        *((each, idle.roster, "every party of the session takes part") for each in lax),
        *((each, idle.roster, "smudging_bits") for each in unmasked),
    ):
        for make in roles(idle, manifest, roster, north):
            with pytest.raises(InputError, match=why):
                make()
    for identity in (Identity.create("north"), idle.identity("south"), mallory):
        _, make_party = roles(idle, idle.manifest, idle.roster, identity)
        with pytest.raises(InputError, match="is not that of party 'north'"):
            make_party()
    asked: list[tuple[dict[str, Any], str]] = [({"min_parties": 2}, "no party can be left out")]
    for given, why in asked + [({"smudging_bits": bits}, "smudging_bits") for bits in outside]:
        with pytest.raises((InputError, CapacityError), match=why):
            idle.plugin.prepare(Request(parties=("a", "b", "c"), thresholds=GRID, keys="joint", **given))


def test_the_common_polynomials_hang_on_every_partys_keys(idle: JointPlay) -> None:
    """Whoever convenes a session can draw ids at will; they are not all that the polynomials come from."""

    def seed(roster: Roster) -> bytes:
        aggregator: Any = idle.plugin.aggregator(idle.manifest, roster.to_bytes())
        return aggregator._computation.setup.seed("public key", 0)

    assert ROSTER.names == idle.roster.names
    assert seed(ROSTER) != seed(idle.roster)
    with pytest.raises(InputError, match="that of another session, or of other parties' keys"):
        JointAggregator(idle.manifest, idle.roster, idle.plugin.modes["joint"].computation(idle.manifest, bytes(32)))


def test_a_manifest_for_sealed_keys_is_refused_by_joint_roles_and_the_other_way_round(idle: JointPlay) -> None:
    plugin, roster, north, rows = idle.plugin, idle.roster, idle.identity("north"), idle.sites[0]
    computation_of = plugin.modes["joint"].computation
    computation = computation_of(idle.manifest, idle.binding)
    sealed = plugin.prepare(Request(parties=idle.manifest.parties, thresholds=GRID))
    task = plugin.task(sealed.manifest, rows)
    replace = msgspec.structs.replace
    without_plan = replace(idle.manifest, keys="none", plan=None)
    renamed = replace(sealed.manifest, keys="joint", context=b"")  # and with a plan for sealed keys
    refusals: list[tuple[str, Callable[[], Any]]] = [
        ("what names them has 0 bytes", lambda: replace(idle.manifest, context=bytes(32))),
        ("what names them has 32 bytes", lambda: replace(sealed.manifest, context=b"")),
        ("a plan if, and only if, it has keys", lambda: replace(idle.manifest, plan=None)),
        # A joint manifest with sealed material, and a sealed one with joint material.
        ("roster", lambda: plugin.aggregator(idle.manifest, sealed.aggregator_material)),
        ("malformed material", lambda: plugin.party(idle.manifest, encode(sealed.common), rows)),
        ("context", lambda: plugin.aggregator(sealed.manifest, idle.delivery.aggregator)),
        (
            "secret keys are not those of the manifest",
            lambda: plugin.party(sealed.manifest, idle.delivery.parties["north"], rows),
        ),
    ]
    for each in (sealed.manifest, without_plan):
        joint_roles: list[Callable[[], Any]] = [
            lambda each=each: JointAggregator(each, roster, computation),
            lambda each=each: JointParty(each, roster, north, task, computation),
        ]
        refusals += [("not one for joint keys", make) for make in joint_roles]
    for each in (sealed.manifest, renamed, without_plan):
        why = "somebody holds as a whole|has no plan|plan is for sealed keys"
        refusals.append((why, lambda each=each: computation_of(each, idle.binding)))
    for why, make in refusals:
        with pytest.raises(ValueError, match=why):
            make()
