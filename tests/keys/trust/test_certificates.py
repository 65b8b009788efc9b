"""Certificates: what the authority refuses to issue, and what a verifier refuses to believe."""

import base64
import contextlib
import copy
import pickle
import random
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fhe_auc_keys.errors import (
    DamagedFileError,
    ExpiredError,
    KeysError,
    OutdatedListError,
    RevokedError,
    StoreError,
    TamperedError,
    UnfitError,
)
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.certificates import Trust, credential, verify
from fhe_auc_keys.trust.existing_certificate import bind_keys, verify_binding
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import (
    ENCRYPTION_KEY_OID,
    MAX_DAYS,
    check_signing_key,
    encryption_key_extension,
    fingerprint,
)
from fhe_auc_keys.trust.revocation import newer_list
from fhe_auc_keys.trust.sealing import PrivateKeys
from tests.support.certified import DAY, NOW
from tests.support.own_certificates import Site
from tests.support.wire import flipped, mended, reframed

NEUTRAL = b"\x01" + bytes(31)
"""The neutral point of Ed25519's curve, encoded."""


def trusting(*authorities: Authority, at: datetime = NOW) -> Trust:
    pem = b"".join(each.certificate_pem() for each in authorities)
    return Trust.from_pem(pem, tuple(each.revocation_list(at=at) for each in authorities))


def enrol(authority: Authority, name: str = "north") -> Identity:
    identity = Identity.create(name)
    return identity.certified(authority.issue(identity.request(), name, days=90, at=NOW))


def subject_of(*names: str, kind: x509.ObjectIdentifier = NameOID.COMMON_NAME) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, name) for name in names])


def request_with(subject: x509.Name, *extensions: x509.ExtensionType, key: Any = None) -> bytes:
    builder, key = x509.CertificateSigningRequestBuilder().subject_name(subject), key or Ed25519PrivateKey.generate()
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(key, None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()).public_bytes(Encoding.PEM)


def refused(authority: Authority, request: bytes, name: str = "north", match: str | None = None, days: int = 3) -> None:
    with pytest.raises(UnfitError, match=match):
        authority.issue(request, name, days=days, at=NOW)


def unverified(
    shown: bytes, trust: Trust, error: type[Exception], match: str | None = None, *, at: datetime = NOW
) -> None:
    with pytest.raises(error, match=match):
        verify(shown, trust, at=at)


def request_der(identity: Identity) -> bytes:
    return x509.load_pem_x509_csr(identity.request()).public_bytes(Encoding.DER)


@pytest.fixture
def authority() -> Authority:
    return Authority.create("consortium", at=NOW)


@pytest.fixture
def north(authority: Authority) -> Identity:
    return enrol(authority)


def test_a_certified_identity_is_verified_with_all_that_its_certificate_says(authority, north) -> None:
    peer, issued = verify(north.credential, trusting(authority), at=NOW), authority.register[0].serial
    keys = (north.signing_key, north.encryption_key)
    assert (peer.name, peer.signing_key, peer.encryption_key, peer.not_after) == ("north", *keys, NOW + 90 * DAY)
    certificate = x509.load_der_x509_certificate(chain_of(north)[0])  # other tools print the same fingerprint
    assert peer.fingerprint == certificate.fingerprint(hashes.SHA256()) == fingerprint(certificate)
    assert f"{peer.serial:x}" == issued
    with pytest.raises(AttributeError):
        peer.name = "south"  # type: ignore[misc]
    # The authority's certificate in the same file is no part of a credential.
    both = authority.issue(north.request(), "north", days=3, at=NOW) + authority.certificate_pem()
    assert verify(north.certified(both).credential, trusting(authority), at=NOW).name == "north"


# --- What the authority refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "x" * 65, "aggregator", "Aggregator ", "\uff41ggregator", " north", "no\nrth", "Ko\u0308ln"]
)
def test_names_that_no_party_may_have(authority, name) -> None:
    with pytest.raises(UnfitError, match="the name of a party") as caught:
        Identity.create(name)
    assert "\n" not in str(caught.value)
    refused(authority, Identity.create("north").request(), name, "the name of a party")


def test_a_request_for_an_unfit_name_time_or_key_or_none(authority) -> None:
    good, honest = Identity.create("n").encryption_key, Identity.create("north").request()
    extension, north = encryption_key_extension(good), subject_of("north")
    for days in (0, -1, 399):
        refused(authority, honest, days=days, match=f"got {days}")
    refused(authority, honest, "south", "'north', not for 'south'")
    refused(authority, request_with(subject_of(), extension))
    refused(authority, request_with(subject_of("aggregator"), extension), match="the name of a party")
    refused(authority, request_with(north, extension, key=ec.generate_private_key(ec.SECP256R1())), match="Ed25519")
    trailing = encryption_key_extension(b"\x09" + bytes(31)).value + b"0"
    for value in (encryption_key_extension(bytes(32)).value, b"\x04\x02hi", trailing):  # the first is of small order
        refused(authority, request_with(north, x509.UnrecognizedExtension(ENCRYPTION_KEY_OID, value)))
    refused(authority, request_with(north))
    for at, days in ((NOW, 11), (NOW + 11 * DAY, 1), (NOW - DAY, 3)):  # nothing outlives the authority
        with pytest.raises(ExpiredError):
            Authority.create("consortium", days=10, at=NOW).issue(honest, "north", days=days, at=at)
    second_spelling = request_with(north, encryption_key_extension(good[:-1] + bytes([good[-1] | 0x80])))
    refused(authority, second_spelling, match=r"X25519 key is not .* reduced")


def test_a_request_with_a_signing_key_under_which_one_signature_fits_everything(authority) -> None:
    identity = Identity.create("north")
    for signed in (b"one result", b"another one"):
        Ed25519PublicKey.from_public_bytes(NEUTRAL).verify(NEUTRAL + bytes(32), signed)  # so it does
    der = request_der(identity).replace(identity.signing_key, NEUTRAL)[:-64] + NEUTRAL + bytes(32)
    forged = x509.load_der_x509_csr(der)
    assert forged.is_signature_valid
    refused(authority, forged.public_bytes(Encoding.PEM), match="of small order")


@pytest.mark.parametrize("sign", [0, 0x80])
@pytest.mark.parametrize(
    "point",  # libsodium's list; its last two are not reduced
    [
        *("00" * 32, "01" + "00" * 31),
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        *(f"{first}{'ff' * 30}7f" for first in ("ec", "ed", "ee")),
    ],
)
def test_no_point_of_small_order_is_a_signing_key(point: str, sign: int) -> None:
    raw = bytearray.fromhex(point)
    raw[-1] |= sign
    with pytest.raises(UnfitError, match="of small order"):
        check_signing_key(bytes(raw))


@pytest.mark.parametrize(
    ("name", "why"),
    [("north", "revoke it first"), *((name, "looks like 'north'") for name in ("North", "NORTH", "\uff4eorth"))],
)
def test_a_name_or_its_like_is_not_given_twice_but_renewed_and_given_anew_after_revocation(
    authority, north, name, why
) -> None:
    refused(authority, Identity.create(name).request(), name, why)
    authority.issue(north.request(), "north", days=90, at=NOW)
    for line in authority.register:
        authority.revoke(line.serial, at=NOW)
    enrol(authority, name)


def test_one_key_does_not_get_two_names_and_a_revoked_one_none(authority, north) -> None:
    double = Identity("south", north.keys)
    refused(authority, double.request(), "south", match="certified for 'north'")
    authority.revoke(authority.register[0].serial, at=NOW)
    mixed = Identity("south", PrivateKeys(Ed25519PrivateKey.generate(), north.keys.encryption))
    for identity in (north, double, mixed):
        refused(authority, identity.request(), identity.name, match="was revoked")


def test_of_a_request_nothing_is_certified_that_was_not_compared(authority) -> None:
    identity = Identity.create("north")
    hospital = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "University Hospital")
    extension = encryption_key_extension(identity.encryption_key)
    alternative = x509.SubjectAlternativeName([x509.DNSName("south")])
    subject = x509.Name([hospital, *subject_of("north")])
    request = request_with(subject, extension, alternative, key=identity.keys.signing)
    certificate = x509.load_pem_x509_certificate(authority.issue(request, "north", days=3, at=NOW))
    assert certificate.subject.rfc4514_string() == "CN=north"
    assert not any(each.oid == x509.SubjectAlternativeName.oid for each in certificate.extensions)


# --- What a verifier refuses ------------------------------------------------------------------------------------------


def test_an_unknown_issuer_a_revoked_certificate_and_a_missing_untimely_or_forged_revocation_list(
    authority, north
) -> None:
    forger, anchor = Authority.create("consortium", at=NOW), authority.certificate_pem()
    ends = trusting(authority).revocation_lists[0].next_update_utc
    verify(north.credential, trusting(authority), at=ends - timedelta(seconds=1))
    of_another_key = Trust.from_pem(anchor, (forger.revocation_list(at=NOW),))
    for trust, error, why, at in (
        (trusting(forger), KeysError, "north", NOW),  # which has the same name
        (Trust(()), KeysError, "is not signed by any authority trusted here", NOW),
        (Trust.from_pem(anchor), KeysError, "no revocation list", NOW),
        (trusting(authority, at=NOW - 31 * DAY), ExpiredError, "revocation list", NOW),
        (trusting(authority, at=NOW + DAY), ExpiredError, "revocation list", NOW),
        (Trust.from_pem(anchor, (forged(authority),)), TamperedError, "forged", NOW),
        (trusting(authority), ExpiredError, "revocation list", ends),
        (of_another_key, KeysError, "for the key that signed", NOW),
    ):
        unverified(north.credential, trust, error, why, at=at)
    with pytest.raises(StoreError, match="no certificate with serial"):
        authority.revoke("abc", at=NOW)
    authority.revoke(authority.register[0].serial, at=NOW)
    for at in (NOW, NOW + 30 * DAY):  # an outdated list revokes, too
        unverified(north.credential, trusting(authority), RevokedError, "north", at=at)


def forged(authority: Authority) -> bytes:
    """A list in the name and with the key identifier of an authority, signed by another key."""
    genuine = loaded(authority.revocation_list(at=NOW))
    builder = x509.CertificateRevocationListBuilder(genuine.issuer, genuine.last_update_utc, genuine.next_update_utc)
    for extension in genuine.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(Ed25519PrivateKey.generate(), None).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("first", [0, 1])
def test_an_authority_that_takes_a_new_key_keeps_its_name_and_its_parties(first: int) -> None:
    """Both keys are trusted while it does; either one's list says nothing about what the other has signed."""
    keys, names = [Authority.create("consortium", at=NOW) for _ in range(2)], ("north", "south")
    shown = [enrol(each, name).credential for each, name in zip(keys, names, strict=True)]
    lists = [loaded(each.revocation_list(at=NOW)) for each in keys]
    order = (first, 1 - first)
    trusted = Trusted(tuple(keys[which].certificate for which in order))
    for which in order:
        trusted = trusted.with_list(lists[which])
    assert tuple(verify(each, trusted.trust, at=NOW).name for each in shown) == names
    keys[1].revoke(keys[1].register[0].serial, at=NOW)
    trusted = trusted.with_list(loaded(keys[1].revocation_list(at=NOW)))
    assert len(trusted.lists) == 2
    assert verify(shown[0], trusted.trust, at=NOW).name == "north"
    unverified(shown[1], trusted.trust, RevokedError)
    unverified(shown[0], Trust(trusted.authorities, (lists[1],)), KeysError, "for the key that signed")
    with pytest.raises(KeysError, match="of another key"):
        Trusted((keys[0].certificate,)).with_list(lists[1])


def test_the_authority_is_no_party_a_party_no_authority_and_one_under_constraints_none_either(authority, north) -> None:
    trust = trusting(authority)
    unverified(credential(authority.certificate_pem()), trust, KeysError)
    impostor = Authority(north.keys.signing, x509.load_der_x509_certificate(chain_of(north)[0]), (), 0)
    south, why = Identity.create("south"), "is not signed by any authority trusted here"
    shown = south.certified(impostor.issue(south.request(), "south", days=3, at=NOW)).credential
    for anchors in (trust.anchors, (*trust.anchors, impostor.certificate)):
        unverified(shown, Trust(anchors, trust.revocation_lists), KeysError, why)
    # Nor does an authority certify anybody that is under constraints which we do not check.
    own = authority.certificate
    dates = NOW - DAY, NOW + 60 * DAY
    builder = x509.CertificateBuilder(own.subject, own.subject, own.public_key(), own.serial_number, *dates)
    builder = builder.add_extension(x509.NameConstraints([x509.DNSName("example")], None), critical=True)
    for each in own.extensions:
        builder = builder.add_extension(each.value, each.critical)
    constrained = Trust((builder.sign(authority._key, None),), trust.revocation_lists)
    unverified(north.credential, constrained, UnfitError, r"critical extension 2\.5\.29\.30")


def chain_of(identity: Identity) -> list[bytes]:
    return msgspec.msgpack.decode(identity.credential[40:])[0]


def binding_of(identity: Identity) -> bytes:
    return msgspec.msgpack.decode(identity.credential[40:])[1]


def test_a_signature_with_a_count_of_unused_bits_is_refused(authority) -> None:
    """The library accepts it where the last bit happens to be zero, so keys are tried until it is."""
    while (der := bytearray(request_der(Identity.create("north"))))[-1] % 2:
        pass
    der[-65] = 1
    altered = x509.load_der_x509_csr(bytes(der))
    assert altered.is_signature_valid
    with pytest.raises(TamperedError):
        authority.issue(altered.public_bytes(Encoding.PEM), "north", days=3, at=NOW)


def test_validity_includes_its_first_and_its_last_second_in_any_time_zone(authority, north) -> None:
    certificate = x509.load_der_x509_certificate(chain_of(north)[0])
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    assert begins == NOW - timedelta(minutes=5)  # a clock that is a little slow is no reason to refuse
    with pytest.raises(ValueError, match="time zone"):
        verify(north.credential, trusting(authority), at=datetime(2030, 5, 1))
    second = timedelta(seconds=1)
    for hours in (-11, 0, 14):
        zone = timezone(timedelta(hours=hours))
        for at in (begins, ends):
            verify(north.credential, trusting(authority, at=at), at=at.astimezone(zone))
        for at in (begins - second, ends + second):
            unverified(north.credential, trusting(authority, at=at), ExpiredError, "valid from", at=at.astimezone(zone))


def test_a_name_that_is_no_text_is_refused_with_our_own_error(authority, north) -> None:
    der = chain_of(north)[0]
    bits = der.replace(b"\x0c\x05north", b"\x03\x05\x00orth")  # a BIT STRING
    assert bits != der
    shown = with_parts(north.credential, lambda parts: [[bits], parts[1]])
    unverified(shown, trusting(authority), UnfitError, "malformed")
    with pytest.raises(UnfitError):
        north.certified(pem("CERTIFICATE", bits))


# --- Newer and older revocation lists ---------------------------------------------------------------------------------


def loaded(pem: bytes) -> x509.CertificateRevocationList:
    return x509.load_pem_x509_crl(pem)


def is_older(new: x509.CertificateRevocationList, old: x509.CertificateRevocationList, of: x509.Certificate) -> None:
    with pytest.raises(OutdatedListError, match=of.subject.rfc4514_string()):
        newer_list(new, old, of)


def test_an_older_list_does_not_take_the_place_of_a_newer_one(authority, north) -> None:
    lists = [loaded(authority.revocation_list(at=NOW)) for _ in range(7)]
    issuer = authority.certificate
    assert newer_list(lists[4], None, issuer) == lists[4]
    for old, new in ((0, 1), (4, 6), (6, 6)):
        assert newer_list(lists[new], lists[old], issuer) == lists[new]
    for old, new in ((6, 4), (1, 0)):
        is_older(lists[new], lists[old], issuer)
    # The number decides, not the date: a lower one is not made newer by a later date.
    late = Authority(authority._key, issuer, (), 3).revocation_list(at=NOW + DAY)
    is_older(loaded(late), lists[6], issuer)
    early = Authority(authority._key, issuer, (), 20).revocation_list(at=NOW - DAY)
    assert newer_list(loaded(early), lists[6], issuer) == loaded(early)
    # Nor does one that undoes a revocation; the second is as of an authority that was put back to an older backup:
    # the same number and date, and other contents.
    authority.revoke(authority.register[0].serial, at=NOW)
    after = loaded(authority.revocation_list(at=NOW))
    again = loaded(Authority(authority._key, issuer, (), 7).revocation_list(at=NOW))
    numbers = [each.extensions.get_extension_for_class(x509.CRLNumber).value for each in (again, after)]
    assert numbers[0] == numbers[1]
    for undone in (lists[6], again):
        is_older(undone, after, issuer)


def test_a_list_of_another_name_or_key_takes_no_place(authority) -> None:
    mine = loaded(authority.revocation_list(at=NOW))
    others = [Authority.create(name, at=NOW).revocation_list(at=NOW + DAY) for name in ("consortium", "other")]
    stranger = KeysError, "not in the name of this authority"
    for data, error, why in ((forged(authority), TamperedError, "is forged"), *((each, *stranger) for each in others)):
        for old in (mine, None):
            with pytest.raises(error, match=why):
                newer_list(loaded(data), old, authority.certificate)


def test_lists_without_a_number_go_by_their_dates(site) -> None:
    def made(hours: int, number: int | None = None, *revoked, **changes) -> x509.CertificateRevocationList:
        last_update = NOW - timedelta(hours=hours)
        return site.crl("root", site.root_key, *revoked, number=number, last_update=last_update, **changes)

    for old, new in ((made(3), made(2)), (made(3, 9), made(2)), (made(3), made(2, 1)), (made(3, 5), made(2, 5))):
        assert newer_list(new, old, site.root) == new
        is_older(old, new, site.root)
    is_older(made(24, None, site.leaf), made(24), site.root)
    # A delta list would hide all that was revoked before its base.
    with pytest.raises(TamperedError, match="full list"):
        newer_list(made(1, 9, critical=x509.DeltaCRLIndicator(5)), made(2, 8), site.root)


# --- A certificate that the site already has --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.mark.parametrize(
    ("name", "rsa_key"), [("north.example", False), ("alias.north.example", False), ("north.example", True)]
)
def test_a_site_s_own_certificate_of_ecdsa_or_rsa_vouches_for_our_keys_under_its_names(site, name, rsa_key) -> None:
    own = Site(rsa.generate_private_key(65537, 2048)) if rsa_key else site
    identity = own.identity(name)
    peer = verify(identity.credential, own.trust, at=NOW)
    keys = (identity.signing_key, identity.encryption_key)
    assert (peer.name, peer.signing_key, peer.encryption_key, peer.not_after) == (name, *keys, NOW + 30 * DAY)
    assert verify(own.identity(name).credential, own.trust, at=NOW).fingerprint != peer.fingerprint
    with pytest.raises(UnfitError, match="not for the name"):
        own.identity("south.example")


def test_a_chain_to_nobody_trusted_or_with_a_gap_a_revoked_certificate_and_a_missing_list(site) -> None:
    shown, (root_list, middle_list) = site.identity().credential, site.lists
    revoked_leaf = (root_list, site.crl("middle", site.middle_key, site.leaf))
    revoked_middle = (site.crl("root", site.root_key, site.middle), middle_list)
    for trust, error, why in (
        (Site().trust, KeysError, r"north\.example"),
        (Trust((), site.lists), KeysError, "not signed by any authority"),
        (Trust((site.leaf,), site.lists), KeysError, "trusted itself"),  # so that nobody could revoke it
        *((Trust((site.root,), lists), RevokedError, None) for lists in (revoked_leaf, revoked_middle)),
        *((Trust((site.root,), (each,)), KeysError, "no revocation list") for each in site.lists),
        (Trust((site.root,), ()), KeysError, "no revocation list"),
    ):
        unverified(shown, trust, error, why)
    leaf_only = Identity.create("north.example").bound(site.leaf.public_bytes(Encoding.PEM), site.key, days=3, at=NOW)
    unverified(leaf_only.credential, site.trust, KeysError, "to a trusted authority")


def test_a_list_that_names_no_key_is_of_the_authority_whose_signature_it_bears() -> None:
    """After a new key under the same name, with lists of a kind that has no key identifier."""
    old, new = Site(), Site()
    trusted = Trusted((old.root, new.root), (old.middle, new.middle))
    for each in (*old.lists, *new.lists):
        trusted = trusted.with_list(each)
    assert len(trusted.lists) == 4
    for each in (old, new):
        assert verify(each.identity().credential, trusted.trust, at=NOW).name == "north.example"
    revoking = new.crl("middle", new.middle_key, new.leaf, last_update=NOW - timedelta(hours=1))
    trusted = trusted.with_list(revoking)
    assert verify(old.identity().credential, trusted.trust, at=NOW).name == "north.example"
    unverified(new.identity().credential, trusted.trust, RevokedError)
    unverified(new.identity().credential, Trust(trusted.authorities, old.lists), KeysError, "no revocation list")


def test_a_certificate_not_for_signing_one_of_an_authority_and_one_for_a_name_that_its_issuer_may_not_certify() -> None:
    """The common name is outside the constraints, and no part of what the chain's verifier compares."""
    outside = Site(name="south.example", constraint="north.example")
    shown = outside.identity("south.example").credential
    unverified(shown, outside.trust, UnfitError, r"'south\.example' is no name")
    inside = outside.identity("alias.north.example")
    assert verify(inside.credential, outside.trust, at=NOW).name == "alias.north.example"
    for unfit in (Site(usage=False), Site(ca=True)):
        unverified(unfit.identity().credential, unfit.trust, KeysError)


def test_a_message_stays_a_line_without_control_characters_whatever_a_forger_or_the_library_writes(
    authority, site
) -> None:
    key, names = Ed25519PrivateKey.generate(), subject_of(*["x\n\x1b[2J" * 8] * 50, kind=NameOID.ORGANIZATION_NAME)
    builder = x509.CertificateBuilder(names, names, key.public_key(), 1, NOW, NOW + DAY)
    forged = builder.sign(key, None).public_bytes(Encoding.PEM)
    subject, unknown = subject_of("x\n\x1b[2J"), x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3"), b"")
    builder = x509.CertificateBuilder(site.leaf.issuer, subject, site.key.public_key(), 5, NOW - DAY, NOW + DAY)
    leaf = builder.add_extension(unknown, critical=True).sign(site.middle_key, hashes.SHA256())
    chain = leaf.public_bytes(Encoding.PEM) + site.middle.public_bytes(Encoding.PEM)
    for shown, trust, why in (
        (credential(forged), trusting(authority), "signed by any authority trusted here"),
        (credential(forged, b"binding"), trusting(authority), "to a trusted authority"),
        (credential(chain, b"binding"), site.trust, r"1\.2\.3"),
    ):
        with pytest.raises(KeysError, match=why) as caught:
            verify(shown, trust, at=NOW)
        assert len(str(caught.value)) < 350
        assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ["P-224", "RSA-1024", "Ed25519"])
def test_a_weak_or_odd_key_of_a_site_binds_nothing(site, kind) -> None:
    key = {
        "P-224": lambda: ec.generate_private_key(ec.SECP224R1()),
        "RSA-1024": lambda: rsa.generate_private_key(65537, 1024),  # noqa: S505 - which is the point
        "Ed25519": Ed25519PrivateKey.generate,
    }[kind]()
    weak = site.certificate("north.example", key, "middle", site.middle_key, ca=False)
    chain = weak.public_bytes(Encoding.PEM) + site.middle.public_bytes(Encoding.PEM)
    with pytest.raises(UnfitError, match="needs an ECDSA key"):
        Identity.create("north.example").bound(chain, key, days=3, at=NOW)
    unverified(credential(chain, binding_of(site.identity())), site.trust, KeysError)


def test_a_binding_is_accepted_by_a_clock_that_is_a_little_slow_and_for_as_long_as_it_and_its_certificate_say(
    site,
) -> None:
    binding = binding_of(site.identity(days=MAX_DAYS))
    first, last, second = NOW - timedelta(minutes=5), NOW + MAX_DAYS * DAY, timedelta(seconds=1)
    for at in (first, last):
        assert verify_binding(binding, site.leaf, at=at).name == "north.example"
    for at in (first - second, last + second):
        with pytest.raises(ExpiredError, match="key binding"):
            verify_binding(binding, site.leaf, at=at)
    keys = {"root": site.root_key, "middle": site.middle_key}
    trust = Trust((site.root,), tuple(site.crl(name, key, next_update=NOW + 90 * DAY) for name, key in keys.items()))
    for days, why in ((2, "key binding"), (61, "site's certificate")):
        unverified(site.identity(days=1).credential, trust, ExpiredError, why, at=NOW + days * DAY)
    for days in (0, MAX_DAYS + 1):
        with pytest.raises(UnfitError, match="days"):
            site.identity(days=days)


def test_a_certificate_with_a_serial_number_below_one_is_refused_without_a_warning(site) -> None:
    good = site.identity().credential
    serial = site.leaf.serial_number
    position = good.index(serial.to_bytes(serial.bit_length() // 8 + 1, "big", signed=True))
    negative = bytearray(good)
    negative[position] |= 0x80
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unverified(mended(bytes(negative)), site.trust, TamperedError, "a credential is damaged")


def test_a_binding_is_of_one_certificate_and_of_a_fit_signing_key_that_one_has(site, north) -> None:
    other = Site()
    unverified(credential(other.chain, binding_of(site.identity())), other.trust, TamperedError, "forged")
    # The certified key signs, but our signing key does not; and under a point of small order one signature fits all.
    neutral = Ed25519PublicKey.from_public_bytes(NEUTRAL)
    for key, sign, error, why in (
        (north.keys.signing.public_key(), Ed25519PrivateKey.generate().sign, TamperedError, "forged"),
        (neutral, lambda data: NEUTRAL + bytes(32), UnfitError, "of small order"),
    ):
        holder = SimpleNamespace(public_key=lambda key=key: key, sign=sign)  # of a key that it does not have
        bound = bind_keys("north.example", holder, north.encryption_key, site.leaf, site.key, days=3, at=NOW)
        unverified(credential(site.chain, bound), site.trust, error, why)


def test_private_keys_are_not_printed_pickled_or_copied(authority, north) -> None:
    for holder, key in ((north, north.keys.signing), (authority, authority._key)):
        private = key.private_bytes_raw()
        assert not any(shown in repr(holder) for shown in (private.hex(), repr(private)))
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled"):
                leak(holder)


def with_parts(data: bytes, change) -> bytes:
    """The same frame around other contents, with its checksum put right."""
    return reframed(data, msgspec.msgpack.encode(change(msgspec.msgpack.decode(data[40:]))))


def test_an_identity_and_an_authority_survive_being_stored_but_not_parts_that_do_not_belong_together(
    authority, north
) -> None:
    again = Identity.from_bytes(north.to_bytes())
    assert (again.name, again.credential, again.signing_key) == (north.name, north.credential, north.signing_key)
    assert Authority.from_bytes(authority.to_bytes()).register == authority.register
    other = Authority.create("consortium", at=NOW)._key.private_bytes_raw()
    for kind, data in (
        (Identity, authority.to_bytes()),
        (Authority, north.to_bytes()),
        (Identity, with_parts(north.to_bytes(), lambda parts: ["aggregator", *parts[1:]])),
        (Identity, with_parts(north.to_bytes(), lambda parts: [parts[0], b"short", *parts[2:]])),
        (Authority, with_parts(authority.to_bytes(), lambda parts: [other, *parts[1:]])),
        (Authority, with_parts(authority.to_bytes(), lambda parts: [parts[0], b"none", *parts[2:]])),
    ):
        with pytest.raises(DamagedFileError):
            kind.from_bytes(data)


# --- Bytes from anywhere ----------------------------------------------------------------------------------------------


def mutated(generator: random.Random, data: bytes) -> bytes:
    """Some bytes altered, left out, put in or moved, as no bit flip alone does."""
    bad = bytearray(data)
    for _ in range(generator.choice((1, 1, 2, 5))):
        at, other = generator.randrange(len(bad)), generator.randrange(len(bad))
        kind = generator.randrange(4)
        if kind == 0:
            bad[at] = generator.choice((0, 1, 3, 0x30, 0x7F, 0x80, 0xFF))
        elif kind == 1:
            del bad[at : at + generator.randrange(1, 9)]
            bad = bad or bytearray(1)
        elif kind == 2:
            bad[at:at] = generator.randbytes(3)
        else:
            bad[at : at + 4] = bad[other : other + 4]
    return bytes(bad)


def pem(kind: str, der: bytes) -> bytes:
    return f"-----BEGIN {kind}-----\n".encode() + base64.encodebytes(der) + f"-----END {kind}-----\n".encode()


@pytest.fixture
def entrances(authority, north, site) -> dict[str, tuple[bytes, Callable[[bytes], object]]]:
    """Where bytes come in: genuine ones, and what takes them."""
    bound, trust, der = site.identity("north.example"), trusting(authority), Encoding.DER
    crl, request = trust.revocation_lists[0], request_der(north)
    head = {each[:7]: each[:8] for each in (north.credential, north.to_bytes(), authority.to_bytes())}

    def shown(data: bytes, trust: Trust = trust) -> None:
        verify(data, trust, at=NOW)

    def framed(magic: bytes, body: bytes) -> bytes:
        return reframed(head[magic], body)

    def in_credential(leaf: bytes) -> bytes:
        chain, binding = msgspec.msgpack.decode(bound.credential[40:])
        return framed(b"fhecred", msgspec.msgpack.encode([[leaf, chain[1]], binding]))

    def listed(data: bytes) -> None:
        found = Trust.from_pem(authority.certificate_pem(), (pem("X509 CRL", data),))
        with contextlib.suppress(KeysError):
            newer_list(found.revocation_lists[0], crl, authority.certificate)
        shown(north.credential, found)

    def anchored(data: bytes) -> None:
        found = Trust.from_pem(pem("CERTIFICATE", data), (authority.revocation_list(at=NOW),))
        with contextlib.suppress(KeysError):
            newer_list(crl, None, found.anchors[0])
        shown(north.credential, found)

    def issued(data: bytes) -> None:  # by an authority that has issued nothing yet
        Authority.create("consortium", at=NOW).issue(data, "north", days=3, at=NOW)

    def chained(data: bytes) -> None:
        Identity.create("north.example").bound(pem("CERTIFICATE", data), site.key, days=3, at=NOW)

    return {
        "credential": (north.credential, shown),
        "its inside": (north.credential[40:], lambda data: shown(framed(b"fhecred", data))),
        "bound credential": (bound.credential, lambda data: shown(data, site.trust)),
        "bound": (bound.credential[40:], lambda data: shown(framed(b"fhecred", data), site.trust)),
        "site": (site.leaf.public_bytes(der), lambda data: shown(in_credential(data), site.trust)),
        "request": (request, lambda data: issued(pem("CERTIFICATE REQUEST", data))),
        "certificate": (chain_of(north)[0], lambda data: north.certified(pem("CERTIFICATE", data))),
        "chain": (site.leaf.public_bytes(der), chained),
        "list": (crl.public_bytes(der), listed),
        "authority": (authority.certificate.public_bytes(der), anchored),
        "pem": (north.request(), issued),
        "identity": (north.to_bytes()[40:], lambda data: Identity.from_bytes(framed(b"fheiden", data))),
        "stored": (authority.to_bytes()[40:], lambda data: Authority.from_bytes(framed(b"fheauth", data))),
    }


@pytest.mark.parametrize("every_byte", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_every_flipped_byte_of_what_is_signed_and_every_cut_is_refused(entrances, every_byte: bool) -> None:
    for what, step, error in (
        ("request", 1, KeysError),
        ("list", 1, KeysError),
        ("credential", 5, TamperedError),
        ("its inside", 5, KeysError),  # with a checksum that fits
        ("bound credential", 11, TamperedError),
        ("bound", 11, KeysError),
    ):
        good, enter = entrances[what]
        for position in range(0, len(good), 1 if every_byte else step):
            for bad in (flipped(good, position), good[:position]):
                with pytest.raises(error):
                    enter(bad)
    request, issued = entrances["request"]
    with pytest.raises(TamperedError, match="no genuine signature"):
        issued(flipped(request, -8))


# The library warns of a serial number that is not positive, and goes on.
@pytest.mark.filterwarnings("ignore:Parsed a serial number")
@pytest.mark.parametrize("times", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_whatever_the_bytes_only_our_own_errors_come_out(entrances, times: int) -> None:
    generator = random.Random(5280)
    for what, (good, enter) in entrances.items():
        enter(good)
        refused = 0
        for _ in range(times):
            bad = mutated(generator, good)
            try:
                enter(bad)
            except KeysError as error:
                refused += "\n" not in str(error)
            except Exception as error:
                pytest.fail(f"{what}: {error!r} for {bad.hex()}")
        assert refused > times / 2, f"{what}: {refused}"
