"""Announcements and bundles: each way to be wrong has its own error, and the aggregator gets no secret."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request, Session
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles import sealed_bundles as bundles
from fhe_auc_keys.bundles.announcement import Announcement, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import SealedBundles, open_for_aggregator, open_for_party
from fhe_auc_keys.bundles.session_keys import DealtSession, PartySecrets, aggregator_material, party_secrets
from fhe_auc_keys.errors import ExpiredError, KeysError, RevokedError, StoreError, TamperedError, UnfitError
from fhe_auc_keys.site.session_files import keep_for_party, kept_for_party
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import signatures
from fhe_auc_keys.trust import signed_documents as documents
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import OVERHEAD, PrivateKeys
from fhe_auc_protocols.blinded_auc.semi_honest import SemiHonest
from tests.support.certified import DAY, NOW, STUDY, Consortium
from tests.support.wire import flipped, mended, reframed

pytestmark = pytest.mark.backends("one")  # what is sealed and signed are bytes

PARTIES, HOLDER, ADDER = ("north", "south", "east"), "key holder", "coordinator"
SEALED = msgspec.structs.replace(STUDY, aggregator=ADDER)


def secrets_of(held: Session) -> PartySecrets:
    return decode(encode(held.common), PartySecrets, "")


def parts(data: bytes) -> tuple[list, list]:
    """Of a signed document: signer, version, body and signature; and what the body holds."""
    signed = msgspec.msgpack.decode(data[40:])
    return signed, msgspec.msgpack.decode(signed[2])


class Opening(Consortium):
    """With a key holder and an aggregator beside the parties, who open what was sealed."""

    def __init__(self, *names: str) -> None:
        super().__init__(*names, HOLDER, ADDER)

    def seal(self, session: Session, *, holder: str = HOLDER, at=NOW, **study: Any) -> SealedBundles:
        """Seal a session, whose study is the usual one but for some fields."""
        told = msgspec.structs.replace(SEALED, **study)
        return bundles.seal_session(self.identities[holder], session, self.members, told, at=at)

    def announce(self, manifest: Manifest, **study: Any) -> bytes:
        told = msgspec.structs.replace(SEALED, **study)
        return announcement.announce(self.identities[HOLDER], manifest, self.members, told, at=NOW)

    def keep(self, document: bytes, bundle: bytes, store: KeyStore) -> Announcement:
        """North opens a session, and keeps it."""
        self.settle(store, "north")
        return keep_for_party(document, bundle, store, at=NOW)

    def open(self, sealed: SealedBundles, name: str = "north", *, bundle: bytes = b"", at=NOW) -> bytes:
        """A party opens its bundle, or another one, beside a session's announcement."""
        announced = self.open_announcement(sealed.announcement, at=at)
        return open_for_party(bundle or sealed.parties[name], announced, self.identities[name], self.members, at=at)

    def open_announcement(self, data: bytes, *, holder: str = "", at=NOW) -> Announcement:
        return open_announcement(data, self.members, holder=holder, at=at)

    def open_aggregator(self, sealed: SealedBundles, *, name: str = ADDER, bundle: bytes = b"") -> Any:
        announced = self.open_announcement(sealed.announcement)
        return open_for_aggregator(bundle or sealed.aggregator, announced, self.identities[name], self.members, at=NOW)

    def resigned(self, *fields: bytes, by: str = HOLDER) -> bytes:
        """A bundle that somebody's key signs although its parts do not belong together."""
        return documents.sign_document(bundles.BUNDLE, self.identities[by], bundles._Body(*fields))


@pytest.fixture(scope="module")
def consortium() -> Opening:
    return Opening(*PARTIES, "stranger")


@pytest.fixture(scope="module")
def sealed(consortium, prepared) -> SealedBundles:
    return consortium.seal(prepared)


def test_every_party_gets_the_keys_and_all_the_same_common_secret(consortium, sealed, prepared, other_prepared) -> None:
    assert {consortium.open(sealed, name) for name in prepared.manifest.parties} == {encode(prepared.common)}
    assert len(prepared.common.common_secret) == 32
    assert secrets_of(other_prepared).common_secret != prepared.common.common_secret
    announced = consortium.open_announcement(sealed.announcement)
    *members, adder = consortium.named(*prepared.manifest.parties, ADDER)
    keys = {"fingerprints": tuple(member.fingerprint for member in members), "aggregator": adder.fingerprint}
    assert announced.manifest == msgspec.structs.replace(prepared.manifest, **keys, study=SEALED)
    assert announced.parties == {member.name: member for member in members}
    assert (announced.aggregator, announced.holder.name, announced.not_after) == (adder, HOLDER, NOW + 7 * DAY)
    announced.require_party(consortium.named("south")[0])
    with pytest.raises(KeysError, match="'south' is not, with the keys that it has now, a party"):
        announced.require_party(msgspec.structs.replace(adder, name="south"))


def test_a_bundle_is_for_one_pair_of_keys_and_not_for_the_same_party_with_new_ones(prepared) -> None:
    consortium = Opening(*prepared.manifest.parties)
    sealed = consortium.seal(prepared)
    consortium.rekey("north")
    for name in ("north", "south"):
        with pytest.raises(RevokedError, match=r"'north' has other keys in version 3 .* ask 'key holder' for a new"):
            consortium.open(sealed, name)


def test_who_is_behind_notices_by_what_others_sign(consortium, prepared) -> None:
    """Else who withholds the newest members' file from a site keeps it in a session with somebody left out."""
    behind = Opening(*prepared.manifest.parties)
    before, _ = behind.members, behind.change(admit=[Identity.create("west").line])
    sealed = behind.seal(prepared)
    behind.members = before
    with pytest.raises(KeysError, match="names version 3 of the members' file, and 2 is the newest here"):
        behind.open(sealed)


def test_an_expired_or_a_premature_bundle(consortium, sealed) -> None:
    for at in (NOW + 7 * DAY + timedelta(seconds=1), NOW - timedelta(minutes=6), NOW + 100 * DAY):
        with pytest.raises(ExpiredError):
            consortium.open(sealed, at=at)
    consortium.open(sealed, at=NOW + 7 * DAY - timedelta(seconds=1))


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("which", range(3), ids=["announcement", "aggregator's bundle", "party's bundle"])
def test_a_byte_tampered_with_or_a_document_cut_off_anywhere(consortium, sealed, which, step) -> None:
    """Of ciphertexts a sample; of the aggregator's bundle, whose keys take long to read, less of all the rest, too."""
    data, opened = (
        (sealed.announcement, consortium.open_announcement),
        (sealed.aggregator, lambda data: consortium.open_aggregator(sealed, bundle=data or b"none")),
        (sealed.parties["north"], lambda data: consortium.open(sealed, bundle=data or b"none")),
    )[which]
    signer, step = range(40, data.index(parts(data)[0][2])), 40 if which == 1 else step
    some = {*range(0, 1500, step), *range(len(data) - 300, len(data), step), *range(0, len(data), len(data) // 25)}
    for position in (each for each in some if each < len(data)):
        with pytest.raises(TamperedError):
            opened(flipped(data, position))
        if position >= 40:  # who has signed may be nobody then
            with pytest.raises(KeysError if position in signer else TamperedError):
                opened(mended(flipped(data, position)))
    for length in {*range(7, len(data), (step, len(data) // 25, 7 * step)[which]), 39, 40, 41, len(data) - 1}:
        with pytest.raises(TamperedError):
            opened(data[:length])
        if length >= 40:
            with pytest.raises(TamperedError, match="malformed"):
                opened(reframed(data, data[40:length]))
    with pytest.raises(TamperedError, match="malformed"):
        opened(reframed(data, data[40:] + b"\0"))
    for junk in (b"", data[:6]):
        with pytest.raises(TamperedError, match="not a"):
            opened(junk)
    opened(data)


def test_nobody_but_the_aggregator_opens_its_bundle(consortium, sealed) -> None:
    """A party, which has the secret key, would find the sum of all pads in it."""
    _, (digest, recipient, secret) = parts(sealed.aggregator)
    info = signatures.signed_bytes(bundles.BUNDLE.purpose, digest + recipient)
    assert consortium.identities[ADDER].unseal(secret, info=info) == consortium.open_aggregator(sealed)[0]
    for who in ("north", HOLDER):
        with pytest.raises(KeysError, match=f"not to those that '{who}' has now"):
            consortium.open_aggregator(sealed, name=who)
        with pytest.raises(TamperedError):  # whatever it makes of the check before
            consortium.identities[who].unseal(secret, info=info)


def test_the_aggregator_gets_the_session_s_public_keys_and_nothing_else_even_where_the_holder_signs(
    consortium, sealed, prepared, other_prepared
) -> None:
    """With a key of its own making in it, whoever carries the bundle would read what re-randomising hides."""
    public, secret = prepared.aggregator_material, encode(prepared.common)
    own, other = (ckks.load_public(each.aggregator_material)._stored for each in (prepared, other_prepared))
    swapped = msgspec.structs.replace(own, public_key=other.public_key)
    names = [each.parameters.fingerprint(each.public_keys_digest) for each in (swapped, own)]
    swaps = [wrap("public context", name, encode(swapped)) for name in names]

    def opened(of: SealedBundles, material: bytes) -> object:
        announced = consortium.open_announcement(of.announcement)  # the holder may sign and seal whatever it likes
        bundle = bundles.seal_bundle(consortium.identities[HOLDER], announced.aggregator, material, announced)
        return consortium.open_aggregator(of, bundle=bundle)

    opened(sealed, public)
    others, none = "the aggregator's keys are of another context", "the aggregator's material is no public context"
    for material, why in (
        (other_prepared.aggregator_material, others),
        *zip(swaps, (others, none), strict=True),
        *((each, none) for each in (secret, public + secret, public[:-1], public + b"\0")),
    ):
        with pytest.raises(KeysError, match=why):
            opened(sealed, material)
        with pytest.raises(KeysError, match=why):
            consortium.seal(DealtSession(prepared.manifest, prepared.common, material))
    for material in swaps:
        with pytest.raises((InputError, DeserialisationError), match="fingerprint"):
            SemiHonest().aggregator(prepared.manifest, material)
    for parties_own, material, why in (
        (prepared.common, b"", none),
        (other_prepared.common, public, "the parties' secret keys are not those of the"),
    ):
        with pytest.raises((KeysError, InputError), match=why):
            consortium.seal(DealtSession(prepared.manifest, parties_own, material))
    with pytest.raises(KeysError, match=others):
        opened(consortium.seal(other_prepared), public)


def test_one_kind_of_document_is_not_taken_for_another(consortium, sealed) -> None:
    with pytest.raises(TamperedError, match="not a bundle"):
        consortium.open(sealed, bundle=sealed.announcement)
    with pytest.raises(KeysError, match="the bundle is sealed to the keys"):
        consortium.open(sealed, bundle=sealed.aggregator)
    # Nor where the body and its signature are put in the other kind's frame.
    with pytest.raises(TamperedError, match="signature"):
        consortium.open(sealed, bundle=b"fhebund" + sealed.announcement[7:])
    kinds = (announcement.KIND, bundles.BUNDLE)
    assert len({kind.magic for kind in kinds}) == len({kind.purpose for kind in kinds}) == len(kinds)
    assert all(len(kind.magic) == 7 for kind in kinds)


def test_parts_of_two_bundles_do_not_fit_even_where_the_holder_signs_them(
    consortium, sealed, prepared, other_prepared
) -> None:
    _, (announcement, north, secret) = parts(sealed.parties["north"])
    _, (other_announcement, _, other_secret) = parts(consortium.seal(other_prepared).parties["north"])
    _, (_, south, south_secret) = parts(sealed.parties["south"])
    differently = consortium.seal(prepared, days=6)
    consortium.open(sealed, bundle=consortium.resigned(announcement, north, secret))
    for mixed, error, why in (
        ((announcement, north, other_secret), TamperedError, "sealed bytes are damaged"),
        ((announcement, north, south_secret), TamperedError, "sealed bytes are damaged"),
        ((announcement, south, secret), KeysError, "the bundle is sealed to the keys"),
        ((other_announcement, north, secret), KeysError, "of another session than the announcement beside it"),
        ((other_announcement, north, other_secret), KeysError, "of another session"),
    ):
        with pytest.raises(error, match=why):
            consortium.open(sealed, bundle=consortium.resigned(*mixed))
    with pytest.raises(KeysError, match="of another session"):  # though of the same id and keys
        consortium.open(sealed, bundle=differently.parties["north"])
    digest = hashlib.sha256(differently.announcement).digest()  # the ciphertext is bound to the announcement
    with pytest.raises(TamperedError, match="sealed bytes are damaged"):
        consortium.open(differently, bundle=consortium.resigned(digest, north, secret))
    with pytest.raises(KeysError, match="signed by 'south', not by 'key holder'"):
        consortium.open(sealed, bundle=consortium.resigned(announcement, north, secret, by="south"))


def test_what_is_kept_comes_back_and_the_session_is_used_up(consortium, sealed, prepared, store) -> None:
    session, second = prepared.manifest.session, consortium.seal(prepared, days=6)
    opened = consortium.keep(sealed.announcement, sealed.parties["north"], store)
    for each in (sealed, second):  # nor does another bundle of the session take its place
        assert kept_for_party(store, session, at=NOW) == (opened, encode(prepared.common))
        with pytest.raises(KeysError, match="has been opened before"):
            consortium.keep(each.announcement, each.parties["north"], store)
    with pytest.raises(StoreError, match="has not been opened here"):
        kept_for_party(store, bytes(16), at=NOW)
    assert len(store.names("opened")) == 1


def test_with_a_helper_each_party_gets_the_common_secret_sealed_to_it_alone_and_a_key_of_x25519_does_not_open_it(
    consortium,
) -> None:
    """Who records the bundles today, and breaks X25519 years later, still does not know what results are checked by."""
    request = Request(parties=PARTIES, thresholds=np.linspace(0, 1, 4), keys="helper")
    sealed = consortium.seal(registry.load("verified").prepare(request), holder="north", helper="stranger")
    secrets = set()
    for name, bundle in sealed.parties.items():
        material, identity = consortium.open(sealed, name), consortium.identities[name]
        secrets.add(decode(material, PartySecrets, "").common_secret)
        body = documents.claimed_body(bundles.BUNDLE, bundle, bundles._Body)
        assert len(body.sealed) == OVERHEAD + len(material)
        signing, (_, x25519) = identity.keys.components
        broken = PrivateKeys.from_components(signing, (PrivateKeys.generate().components[1][0], x25519))
        about = signatures.signed_bytes(bundles.BUNDLE.purpose, body.announcement + body.recipient)
        assert identity.unseal(body.sealed, info=about) == material
        with pytest.raises(TamperedError):
            broken.unseal(body.sealed, info=about)
    (secret,) = secrets
    assert (secret != bytes(32), sealed.parties.keys(), sealed.aggregator) == (True, {*PARTIES}, b"")
    assert not any(secret in each for each in (sealed.announcement, *sealed.parties.values()))


def signed(consortium, body: announcement._Body) -> bytes:
    return documents.sign_document(announcement.KIND, consortium.identities[HOLDER], body)


def test_an_end_that_no_calendar_has_is_refused(consortium, prepared) -> None:
    manifest = prepared.manifest
    for ends in (2**63 - 1, 2**64 - 1, 2**55, 10**12):
        body = announcement._Body(manifest.to_bytes(), ADDER, "", 0, ends)
        with pytest.raises(TamperedError, match="malformed"):
            consortium.open_announcement(signed(consortium, body))


@pytest.fixture(scope="module")
def convened() -> Manifest:
    """A session without a key holder."""
    request = Request(parties=PARTIES, thresholds=np.linspace(0, 1, 4), options={"epsilon": 1.0})
    return registry.load("dpauc-laplace").prepare(request).manifest


def test_another_convener_an_end_or_a_revoked_one(consortium, convened) -> None:
    document = consortium.announce(convened)
    with pytest.raises(KeysError, match=f"signed by '{HOLDER}', not by 'south'"):
        consortium.open_announcement(document, holder="south")
    with pytest.raises(ExpiredError):
        consortium.open_announcement(document, at=NOW + 14 * DAY)
    for who in (HOLDER, ADDER, "south"):
        others = Opening(*PARTIES)
        document = others.announce(convened)
        others.change(remove=[who])
        with pytest.raises(RevokedError, match=f"'{who}' is no member"):
            others.open_announcement(document)
        with pytest.raises(RevokedError):
            others.announce(convened)


def test_a_convener_cannot_slip_in_other_keys_than_the_members_file_has(consortium, convened) -> None:
    announced = consortium.open_announcement(consortium.announce(convened)).manifest
    (stranger,), (adder,) = consortium.named("stranger"), consortium.named(ADDER)
    north, south, east = announced.fingerprints

    def slip_in(names: tuple[str, str] = (ADDER, ""), **changes: Any) -> None:
        body = announcement._Body(msgspec.structs.replace(announced, **changes).to_bytes(), *names, 0, 2**33)
        consortium.open_announcement(signed(consortium, body))

    for changes, error in (
        ({"fingerprints": (north, bytes(32), east)}, RevokedError),
        ({"fingerprints": (north, stranger.fingerprint, east)}, RevokedError),
        ({"fingerprints": (south, north, east)}, RevokedError),
        ({"parties": ("north", "stranger", "east")}, RevokedError),
        ({"aggregator": bytes(32)}, RevokedError),
        ({"names": ("stranger", "")}, RevokedError),
        ({"names": ("south", "")}, RevokedError),
        ({"names": ("nobody", "")}, RevokedError),
        ({"names": (ADDER, "stranger")}, RevokedError),
        ({"parties": ("north", "south", ADDER), "fingerprints": (north, south, adder.fingerprint)}, InputError),
        ({"fingerprints": (), "aggregator": b"", "study": None}, TamperedError),
    ):
        with pytest.raises(error):
            slip_in(**changes)
    with pytest.raises(InputError, match="row-caps: 'west' is not a party"):
        consortium.announce(convened, row_caps={"north": 5, "west": 5})


def test_a_session_with_a_plan_that_cannot_be_read_is_not_used_up_unless_its_protocol_is_not_here(
    consortium, prepared, store
) -> None:
    fields = msgspec.msgpack.decode(prepared.manifest.plan.content) | {"new": 1}
    newer = EncodedPlan(prepared.manifest.plan.kind, msgspec.msgpack.encode(fields))
    manifest = msgspec.structs.replace(prepared.manifest, plan=newer)
    sealed = consortium.seal(replace(prepared, manifest=manifest))
    for _ in range(2):  # the second time would say "opened before"
        with pytest.raises(InputError, match="no valid plan"):
            consortium.keep(sealed.announcement, sealed.parties["north"], store)
    assert store.names("bundle") == ()
    sealed = consortium.seal(replace(prepared, manifest=msgspec.structs.replace(manifest, protocol="elsewhere")))
    consortium.keep(sealed.announcement, sealed.parties["north"], store)
    assert store.names("bundle") == (manifest.session.hex(),)


def test_who_adds_up_is_neither_a_party_nor_the_key_holder(consortium, prepared) -> None:
    for who in ("north", HOLDER):
        with pytest.raises(UnfitError, match="aggregator"):
            consortium.seal(prepared, aggregator=who)


def test_the_byte_search_sees_a_seed_or_a_key_inside_well_formed_material(prepared) -> None:
    public, context, seed = prepared.aggregator_material, prepared.manifest.context, bytes(range(32))
    own = secrets_of(prepared)
    for opening in (b"an opening" + seed, seed):
        material = aggregator_material(public, opening)
        bundles.check_no_secret(material, context, own, [seed[::-1]])
        with pytest.raises(KeysError, match="secret key material"):
            bundles.check_no_secret(material, context, own, [seed[::-1], seed])
    with pytest.raises(KeysError, match="no public context"):
        bundles.check_no_secret(aggregator_material(public, b"opening") + b"\0", context, own)
    # As if the secret were a part of the public keys: the material itself stands for the secret.
    for hidden in (PartySecrets(public[5000:60000], bytes(32)), PartySecrets(own.context, public[7000:7032])):
        with pytest.raises(KeysError, match="secret key material"):
            bundles.check_no_secret(public, context, hidden)


@pytest.mark.backends("all")  # each writes keys in its own way
def test_no_piece_of_a_secret_is_in_anything_that_the_aggregator_holds_or_sees(
    consortium, sealed, prepared, site_rows
) -> None:
    """Six bytes lie within one coefficient, whether it takes 6 to 8 bytes as packed or 8 as the library writes it."""
    material, _ = consortium.open_aggregator(sealed)
    aggregator = SemiHonest().aggregator(prepared.manifest, material)
    own = encode(prepared.common)
    parties = [SemiHonest().party(prepared.manifest, own, data) for data in site_rows]
    # A party's bundle may pass through the aggregator's hands as well: it is sealed.
    seen = [sealed.aggregator, material, sealed.announcement, *sealed.parties.values()]
    message = aggregator.start()
    while message is not None:
        seen.append(message)
        for party in parties:
            seen.append(party.respond(message))
            aggregator.receive(party.name, seen[-1])
        message = aggregator.finish_round()
    assert 0 <= parties[0].result().auc <= 1
    everything = b"".join(seen)
    key: bytes = ckks.load_secret(secrets_of(prepared).context)._stored.secret_key
    common_secret = secrets_of(prepared).common_secret
    signing, encryption = consortium.identities[HOLDER].keys.components

    def shared(secret: bytes, found: bytes, width: int = 6) -> int:
        """How many pieces of what was found are in a secret, wherever they are."""
        wanted = {secret[at : at + width] for at in range(len(secret) - width + 1)}
        return sum(found[at : at + width] in wanted for at in range(len(found) - width + 1))

    assert (alike := shared(key, everything)) <= 3  # among 10^12 pairs of random pieces one or two are by chance
    assert not alike or shared(key, everything, 8) == 0
    assert shared(common_secret + signing + b"".join(encryption), everything) <= 1  # of a secret there would be 27
    # The search would find: 20 coefficients as the library writes them, and half of the common secret.
    words = np.zeros((20, 8), np.uint8)
    words[:, :7] = np.frombuffer(key[7000:7140], np.uint8).reshape(20, 7)
    assert shared(key, words.tobytes()) >= 40
    assert shared(common_secret, everything[:50] + common_secret[9:25]) >= 11


@pytest.mark.parametrize("length", [1, 31, 33])
def test_a_seed_of_another_length_is_refused_when_the_bundle_is_opened(length: int) -> None:
    """Not when the party answers: a bundle opens once."""
    session = registry.load("exact").prepare(Request(parties=("north", "south"), thresholds=np.linspace(0, 1, 5)))
    assert isinstance(session, DealtSession)
    given = session.common.context, session.common.common_secret
    assert party_secrets(encode((*given, bytes(32))), session.manifest).seed == bytes(32)
    with pytest.raises(InputError, match="secret keys are not those of the manifest"):
        party_secrets(encode((*given, bytes(length))), session.manifest)
