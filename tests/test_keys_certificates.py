"""Certificates: what the authority refuses to issue, and what a verifier refuses to believe."""

from __future__ import annotations

import base64
import copy
import hashlib
import pickle
from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from keys.authority import Authority
from keys.certificates import Trust, credential, fingerprint, verify
from keys.errors import (
    ExpiredError,
    KeysError,
    MissingError,
    RevokedError,
    TamperedError,
    UnfitCertificateError,
    UnfitNameError,
    UnknownIssuerError,
)
from keys.identity import Identity
from keys.public_keys import ENCRYPTION_KEY_OID, encryption_key_extension

NOW = datetime(2030, 5, 1, 12, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def trusting(*authorities: Authority, at: datetime = NOW) -> Trust:
    return Trust.from_pem(
        b"".join(each.certificate_pem() for each in authorities),
        tuple(each.revocation_list(at=at) for each in authorities),
    )


def enrol(authority: Authority, name: str = "north", days: int = 90) -> Identity:
    identity = Identity.create(name)
    return identity.certified(authority.issue(identity.request(), name, days=days, at=NOW))


def request_with(name: str, *extensions: x509.ExtensionType, key: object = None) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for each in extensions:
        builder = builder.add_extension(each, critical=False)
    key = key or Ed25519PrivateKey.generate()
    return builder.sign(key, None if isinstance(key, Ed25519PrivateKey) else hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.fixture
def authority() -> Authority:
    return Authority.create("consortium", at=NOW)


@pytest.fixture
def north(authority: Authority) -> Identity:
    return enrol(authority)


def test_a_certified_identity_is_verified_with_all_that_its_certificate_says(authority, north) -> None:
    peer = verify(north.credential, trusting(authority), at=NOW)
    assert (peer.name, peer.signing_key, peer.encryption_key) == ("north", north.signing_key, north.encryption_key)
    assert peer.not_after == NOW + 90 * DAY
    assert f"{peer.serial:x}" == authority.register[0].serial
    with pytest.raises(AttributeError):
        peer.name = "south"  # type: ignore[misc]


def test_the_fingerprint_is_the_one_that_other_tools_print(authority) -> None:
    identity = Identity.create("north")
    pem = authority.issue(identity.request(), "north", days=3, at=NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    peer = verify(identity.certified(pem).credential, trusting(authority), at=NOW)
    assert peer.fingerprint == certificate.fingerprint(hashes.SHA256()) == fingerprint(certificate)


# --- What the authority refuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "x" * 65, "aggregator", "Aggregator ", " north", "no\nrth", "Ko\u0308ln"])
def test_names_that_no_party_may_have(authority, name) -> None:
    with pytest.raises(UnfitNameError) as caught:
        Identity.create(name)
    assert "\n" not in str(caught.value)
    with pytest.raises(UnfitNameError):
        authority.issue(Identity.create("north").request(), name, days=3, at=NOW)


def test_a_request_for_an_unfit_name_or_none(authority) -> None:
    extension = encryption_key_extension(Identity.create("n").encryption_key)
    with pytest.raises(UnfitCertificateError):
        authority.issue(request_with("", extension), "north", days=3, at=NOW)
    with pytest.raises(UnfitNameError):
        authority.issue(request_with("aggregator", extension), "north", days=3, at=NOW)


def test_every_flipped_byte_of_a_request_is_refused(authority) -> None:
    der = x509.load_pem_x509_csr(Identity.create("north").request()).public_bytes(Encoding.DER)
    for position in range(len(der)):
        bad = bytearray(der)
        bad[position] ^= 1
        pem = b"-----BEGIN CERTIFICATE REQUEST-----\n" + base64.encodebytes(bytes(bad))
        with pytest.raises(KeysError):
            authority.issue(pem + b"-----END CERTIFICATE REQUEST-----\n", "north", days=3, at=NOW)
    assert authority.register == ()


def test_a_request_with_a_forged_signature(authority) -> None:
    der = bytearray(x509.load_pem_x509_csr(Identity.create("north").request()).public_bytes(Encoding.DER))
    der[-1] ^= 1
    pem = x509.load_der_x509_csr(bytes(der)).public_bytes(Encoding.PEM)
    with pytest.raises(TamperedError, match="no genuine signature"):
        authority.issue(pem, "north", days=3, at=NOW)


def test_a_request_without_a_fit_encryption_key(authority) -> None:
    small_order = encryption_key_extension(bytes(32))
    not_a_key = x509.UnrecognizedExtension(ENCRYPTION_KEY_OID, b"\x04\x02hi")
    trailing = x509.UnrecognizedExtension(
        ENCRYPTION_KEY_OID, encryption_key_extension(b"\x09" + bytes(31)).value + b"0"
    )
    for extensions in ((), (small_order,), (not_a_key,), (trailing,)):
        with pytest.raises(UnfitCertificateError):
            authority.issue(request_with("north", *extensions), "north", days=3, at=NOW)


def test_a_request_with_another_kind_of_key_or_another_name(authority) -> None:
    extension = encryption_key_extension(Identity.create("n").encryption_key)
    with pytest.raises(UnfitCertificateError, match="Ed25519"):
        authority.issue(
            request_with("north", extension, key=ec.generate_private_key(ec.SECP256R1())), "north", days=3, at=NOW
        )
    with pytest.raises(UnfitCertificateError, match="'north', not for 'south'"):
        authority.issue(Identity.create("north").request(), "south", days=3, at=NOW)


@pytest.mark.parametrize("days", [0, -1, 399])
def test_a_validity_out_of_range(authority, days) -> None:
    with pytest.raises(UnfitCertificateError, match=f"got {days}"):
        authority.issue(Identity.create("north").request(), "north", days=days, at=NOW)


def test_an_authority_near_its_end_issues_nothing_that_outlives_it() -> None:
    short = Authority.create("consortium", days=10, at=NOW)
    for at, days in ((NOW, 11), (NOW + 11 * DAY, 1), (NOW - DAY, 3)):
        with pytest.raises(ExpiredError):
            short.issue(Identity.create("north").request(), "north", days=days, at=at)


def test_a_name_is_not_given_twice_but_renewed_and_given_anew_after_revocation(authority, north) -> None:
    with pytest.raises(UnfitCertificateError, match="revoke it first"):
        enrol(authority)
    authority.issue(north.request(), "north", days=90, at=NOW)
    for line in authority.register:
        authority.revoke(line.serial, at=NOW)
    enrol(authority)


def test_one_key_does_not_get_two_names(authority, north) -> None:
    double = Identity("south", north._signing, north._encryption)
    with pytest.raises(UnfitCertificateError, match="certified for 'north'"):
        authority.issue(double.request(), "south", days=3, at=NOW)


# --- What a verifier refuses ------------------------------------------------------------------------------------------


def test_an_unknown_issuer_also_under_the_same_name(authority, north) -> None:
    forger = Authority.create("consortium", at=NOW)
    with pytest.raises(UnknownIssuerError, match="north"):
        verify(north.credential, trusting(forger), at=NOW)
    with pytest.raises(UnknownIssuerError):
        verify(north.credential, Trust(()), at=NOW)


def test_a_revoked_certificate_even_by_an_outdated_list(authority, north) -> None:
    authority.revoke(authority.register[0].serial, at=NOW)
    for at in (NOW, NOW + 30 * DAY):
        with pytest.raises(RevokedError, match="north"):
            verify(north.credential, trusting(authority), at=at)
    with pytest.raises(MissingError):
        authority.revoke("abc", at=NOW)


def test_expired_and_not_yet_valid(authority, north) -> None:
    for at in (NOW - DAY, NOW + 91 * DAY):
        with pytest.raises(ExpiredError, match="valid from"):
            verify(north.credential, trusting(authority, at=at), at=at)


def test_a_clock_that_is_a_little_slow_is_no_reason_to_refuse(authority, north) -> None:
    assert verify(north.credential, trusting(authority), at=NOW - timedelta(minutes=4)).name == "north"


def test_a_time_without_a_zone_is_a_bug_of_the_caller(authority, north) -> None:
    with pytest.raises(ValueError, match="time zone"):
        verify(north.credential, trusting(authority), at=datetime(2030, 5, 1))


def test_a_missing_outdated_premature_or_forged_revocation_list(authority, north) -> None:
    anchor = authority.certificate_pem()
    with pytest.raises(UnknownIssuerError, match="no revocation list"):
        verify(north.credential, Trust.from_pem(anchor), at=NOW)
    with pytest.raises(ExpiredError, match="revocation list"):
        verify(north.credential, trusting(authority, at=NOW - 8 * DAY), at=NOW)
    with pytest.raises(ExpiredError, match="revocation list"):
        verify(north.credential, trusting(authority, at=NOW + DAY), at=NOW)
    forged = Authority.create("consortium", at=NOW).revocation_list(at=NOW)
    with pytest.raises(TamperedError, match="forged"):
        verify(north.credential, Trust.from_pem(anchor, (forged,)), at=NOW)


def test_every_flipped_byte_of_a_revocation_list_is_refused(authority, north) -> None:
    der = x509.load_pem_x509_crl(authority.revocation_list(at=NOW)).public_bytes(Encoding.DER)
    for position in range(len(der)):
        bad = bytearray(der)
        bad[position] ^= 1
        try:
            found = x509.load_der_x509_crl(bytes(bad))
        except (ValueError, x509.InvalidVersion):
            continue
        with pytest.raises(KeysError):
            verify(north.credential, Trust((authority.certificate,), (found,)), at=NOW)


def test_every_flipped_byte_of_a_credential_is_refused(authority, north) -> None:
    trust = trusting(authority)
    for position in range(len(north.credential)):
        bad = bytearray(north.credential)
        bad[position] ^= 1
        with pytest.raises(TamperedError):
            verify(bytes(bad), trust, at=NOW)
        # A forger puts the frame's checksum right.
        bad[8:40] = hashlib.sha256(bad[40:]).digest()
        if position >= 40:
            with pytest.raises(KeysError):
                verify(bytes(bad), trust, at=NOW)
    for length in range(len(north.credential)):
        with pytest.raises(TamperedError):
            verify(north.credential[:length], trust, at=NOW)


def test_the_authority_itself_is_no_party(authority) -> None:
    with pytest.raises(KeysError):
        verify(credential(authority.certificate_pem()), trusting(authority), at=NOW)


def test_a_party_is_no_authority(authority, north) -> None:
    impostor = Authority(north._signing, x509.load_der_x509_certificate(chain_of(north)[0]), (), 0)
    impostor_party = Identity.create("south")
    pem = impostor.issue(impostor_party.request(), "south", days=3, at=NOW)
    shown = impostor_party.certified(pem).credential
    trust = trusting(authority)
    with pytest.raises(UnknownIssuerError):
        verify(shown, trust, at=NOW)
    with pytest.raises(UnknownIssuerError):
        verify(shown, Trust((*trust.anchors, impostor.certificate), trust.revocation_lists), at=NOW)


def chain_of(identity: Identity) -> list[bytes]:
    return msgspec.msgpack.decode(identity.credential[40:])[0]


def test_a_signature_with_a_count_of_unused_bits_is_refused() -> None:
    """The library accepts it where the last bit happens to be zero, so keys are tried until it is."""
    while True:
        authority = Authority.create("consortium", at=NOW)
        request = Identity.create("north").request()
        der = bytearray(x509.load_pem_x509_csr(request).public_bytes(Encoding.DER))
        if der[-1] % 2 == 0:
            break
    der[-65] = 1
    altered = x509.load_der_x509_csr(bytes(der))
    assert altered.is_signature_valid
    with pytest.raises(TamperedError):
        authority.issue(altered.public_bytes(Encoding.PEM), "north", days=3, at=NOW)


# --- A certificate that the site already has --------------------------------------------------------------------------


class Site:
    """A real-world authority: an ECDSA root and an intermediate, and a leaf of the kind asked for."""

    def __init__(self, key=None, *, name: str = "north.example", usage: bool = True, ca: bool = False) -> None:
        self.root_key, self.middle_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.root = self._certificate("root", self.root_key, "root", self.root_key, ca=True)
        self.middle = self._certificate("middle", self.middle_key, "root", self.root_key, ca=True)
        self.leaf = self._certificate(name, self.key, "middle", self.middle_key, ca=ca, usage=usage)
        self.chain = self.leaf.public_bytes(Encoding.PEM) + self.middle.public_bytes(Encoding.PEM)
        self.lists = (self.crl("root", self.root_key), self.crl("middle", self.middle_key))

    def _certificate(self, name, key, issuer, issuer_key, *, ca, usage=True):
        named = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)]) for each in (name, issuer)]
        builder = x509.CertificateBuilder(
            named[1], named[0], key.public_key(), x509.random_serial_number(), NOW - DAY, NOW + 60 * DAY
        )
        flags = [not ca and usage, False, not usage, False, False, ca, ca, False, False]
        builder = builder.add_extension(x509.BasicConstraints(ca, None), critical=True)
        builder = builder.add_extension(x509.KeyUsage(*flags), critical=True)
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        if not ca:
            alternative = x509.SubjectAlternativeName([x509.DNSName("alias.north.example")])
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(issuer_key, hashes.SHA256())

    def crl(self, name, key, *revoked):
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateRevocationListBuilder(issuer, NOW - DAY, NOW + DAY)
        for each in revoked:
            entry = x509.RevokedCertificateBuilder(each.serial_number, NOW - DAY).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(key, hashes.SHA256())

    @property
    def trust(self) -> Trust:
        return Trust((self.root,), self.lists)

    def identity(self, name: str = "north.example", days: int = 30) -> Identity:
        return Identity.create(name).bound(self.chain, self.key, days=days, at=NOW)


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.mark.parametrize("name", ["north.example", "alias.north.example"])
def test_a_site_s_own_ecdsa_certificate_vouches_for_our_keys(site, name) -> None:
    identity = site.identity(name)
    peer = verify(identity.credential, site.trust, at=NOW)
    assert (peer.name, peer.signing_key, peer.encryption_key) == (name, identity.signing_key, identity.encryption_key)
    assert peer.not_after == NOW + 30 * DAY
    assert verify(site.identity(name).credential, site.trust, at=NOW).fingerprint != peer.fingerprint


def test_so_does_an_rsa_certificate() -> None:
    site = Site(rsa.generate_private_key(65537, 2048))
    assert verify(site.identity().credential, site.trust, at=NOW).name == "north.example"


def test_a_name_that_the_site_s_certificate_is_not_for(site) -> None:
    with pytest.raises(UnfitCertificateError, match="not for the name"):
        site.identity("south.example")


def test_another_private_key_than_the_certificate_s(site) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    with pytest.raises(UnfitCertificateError, match="not that of the certificate"):
        Identity.create("north.example").bound(site.chain, other, days=3, at=NOW)


def test_a_binding_expires_before_its_certificate(site) -> None:
    identity = site.identity(days=1)
    # Site lists end here as well, so they are left out.
    trust = Trust((site.root,), (), site_lists_required=False)
    with pytest.raises(ExpiredError, match="key binding"):
        verify(identity.credential, trust, at=NOW + 2 * DAY)
    with pytest.raises(ExpiredError, match="site's certificate"):
        verify(identity.credential, trust, at=NOW + 61 * DAY)


def test_a_chain_to_nobody_trusted_or_with_a_gap(site) -> None:
    identity = site.identity()
    with pytest.raises(UnknownIssuerError, match=r"north\.example"):
        verify(identity.credential, Site().trust, at=NOW)
    leaf_only = Identity.create("north.example").bound(site.leaf.public_bytes(Encoding.PEM), site.key, days=3, at=NOW)
    with pytest.raises(UnknownIssuerError):
        verify(leaf_only.credential, site.trust, at=NOW)


def test_a_revoked_site_or_intermediate_and_a_missing_list(site) -> None:
    identity = site.identity()
    root_list, middle_list = site.lists
    revoked_leaf = (root_list, site.crl("middle", site.middle_key, site.leaf))
    revoked_middle = (site.crl("root", site.root_key, site.middle), middle_list)
    for lists in (revoked_leaf, revoked_middle):
        for required in (True, False):
            with pytest.raises(RevokedError):
                verify(identity.credential, Trust((site.root,), lists, required), at=NOW)
    with pytest.raises(UnknownIssuerError, match="no revocation list"):
        verify(identity.credential, Trust((site.root,), (root_list,)), at=NOW)


def test_a_certificate_not_for_signing_and_one_of_an_authority() -> None:
    for unfit in (Site(usage=False), Site(ca=True)):
        with pytest.raises(KeysError):
            verify(unfit.identity().credential, unfit.trust, at=NOW)


def test_every_flipped_byte_of_a_bound_credential_is_refused(site) -> None:
    good = site.identity().credential
    for position in range(40, len(good)):
        bad = bytearray(good)
        bad[position] ^= 1
        bad[8:40] = hashlib.sha256(bad[40:]).digest()
        with pytest.raises(KeysError):
            verify(bytes(bad), site.trust, at=NOW)


def test_a_binding_does_not_move_to_another_certificate(site) -> None:
    other = Site()
    chain, binding = msgspec.msgpack.decode(site.identity().credential[40:])
    del chain
    with pytest.raises(TamperedError, match="forged"):
        verify(credential(other.chain, binding), other.trust, at=NOW)


def test_the_keys_of_somebody_else_cannot_be_bound(site, north) -> None:
    """The certified key signs, but our signing key does not: no proof that it is held."""
    from keys import bindings

    class Pretender:
        def public_key(self):
            return north._signing.public_key()

        def sign(self, data: bytes) -> bytes:
            return Ed25519PrivateKey.generate().sign(data)

    stolen = bindings.bind("north.example", Pretender(), north.encryption_key, site.leaf, site.key, days=3, at=NOW)
    with pytest.raises(TamperedError):
        verify(credential(site.chain, stolen), site.trust, at=NOW)


# --- Private keys stay private ----------------------------------------------------------------------------------------


def test_private_keys_are_not_printed_pickled_or_copied(authority, north) -> None:
    for holder, key in ((north, north._signing), (authority, authority._key)):
        private = key.private_bytes_raw()
        assert private.hex() not in repr(holder)
        assert repr(private) not in repr(holder)
        for leak in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled"):
                leak(holder)


def test_an_identity_and_an_authority_survive_being_stored(authority, north) -> None:
    again = Identity.from_bytes(north.to_bytes())
    assert (again.name, again.credential, again.signing_key) == (north.name, north.credential, north.signing_key)
    back = Authority.from_bytes(authority.to_bytes())
    assert back.register == authority.register
    back.revoke(back.register[0].serial, at=NOW)
    with pytest.raises(RevokedError):
        verify(north.credential, trusting(back), at=NOW)
    for kind, data in ((Identity, authority.to_bytes()), (Authority, north.to_bytes()), (Identity, b"")):
        with pytest.raises(KeysError):
            kind.from_bytes(data)
