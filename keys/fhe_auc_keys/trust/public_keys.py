"""A party's public keys and name: what they may be, and how a certificate holds them.

The signing key (Ed25519) is the certificate's own. The encryption key is in an extension of ours, which the request's
signature and then the authority's signature cover. It has two components, an ML-KEM-768 key (FIPS 203) and an X25519
key (RFC 7748), 1,184 and 32 bytes: who would read what is sealed to it has to break both (`trust.sealing`).
"""

import hashlib
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TypeAlias, TypeVar

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fhe_auc.base.names import MAX_CHARACTERS, problem_with
from fhe_auc_keys.errors import UnfitCertificateError
from fhe_auc_keys.trust.sealing import PRIME, encryption_key, x25519_key

MALFORMED = (
    KeyError,
    TypeError,
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""What the library raises for bytes that are no well-formed certificate, request or list."""

SKEW = timedelta(minutes=5)  # by so much may a site's clock be slow, and it still accepts what was made just now
MAX_DAYS = 398  # longest validity of a party's certificate, or of a key binding: the bound that browsers keep to

ENCRYPTION_KEY_OID = x509.ObjectIdentifier("2.25.169378221186205034665675055206817041249")
"""Extension that holds the encryption key. An arc under 2.25 comes from a random UUID, and needs no registration."""

RevocationList: TypeAlias = x509.CertificateRevocationList
E = TypeVar("E", bound=x509.ExtensionType)
_MAX_SHOWN = 120
_KEY_INFO = bytes.fromhex("308204d4300d060b2b0601040183e62d81c87a038204c100")
"""What stands before the 1,216 bytes in a SubjectPublicKeyInfo: X-Wing's identifier, 1.3.6.1.4.1.62253.25722."""


def check_name(name: str) -> str:
    """Return `name`; raise `UnfitCertificateError` where no party may have it."""
    if problem := problem_with(name):
        raise UnfitCertificateError(f"{name[:MAX_CHARACTERS]!a}: the name of a party {problem}")
    return name


def shown(name: x509.Name) -> str:
    """Return a name as an error message quotes it: one line, and not longer than a line, whoever made it up."""
    text = repr(name.rfc4514_string())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}...'"


def subject_of(name: str) -> x509.Name:
    """Return a party's or authority's name as certificates and requests hold it."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def printable(text: str) -> str:
    """Return text from a file without anything that could steer a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def subject_name(name: x509.Name) -> str:
    """Return the one common name, else the whole name."""
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return printable(str(common[0].value) if len(common) == len(list(name)) == 1 else name.rfc4514_string())


def fingerprint(signed: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    """Return the SHA-256 of a certificate or request, 32 bytes, which other tools print too."""
    return hashlib.sha256(signed.public_bytes(Encoding.DER)).digest()


def check_time(at: datetime) -> datetime:
    """Return `at` in UTC; ValueError for a time without a zone, which two sites would read differently."""
    if at.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return at.astimezone(timezone.utc)


def counts(begins: datetime | float, ends: datetime | float, at: datetime) -> str:
    """Return from when until when something counts, which is not now, for an error that says what else can be done.

    Of the present it says the hour only: a process that stays does not log each minute that it is wrong still.
    """
    seconds = [each.timestamp() if isinstance(each, datetime) else each for each in (begins, ends)]
    dates = [datetime.fromtimestamp(min(max(each, 0), 2**37), timezone.utc) for each in seconds]  # whatever is signed
    first, last = (f"{each:%Y-%m-%d %H:%M}" for each in dates)
    return f"{first} to {last} UTC only, and the clock says {check_time(at):%Y-%m-%d %Hh}: set the clock"


@lru_cache(maxsize=8192)
def check_signing_key(raw: bytes) -> None:
    """Raise `UnfitCertificateError` for no Ed25519 key, one not reduced, or of small order: all verifies under it."""
    y = int.from_bytes(raw, "little") % 2**255
    try:
        if y >= PRIME:
            raise ValueError
        same = (1 + y) * pow(1 - y, -1, PRIME) % PRIME  # the point on X25519's curve (RFC 7748, section 4.1)
        x25519_key(same.to_bytes(32, "little"))
    except (ValueError, UnfitCertificateError):
        raise UnfitCertificateError("the Ed25519 key is not reduced, or of small order") from None


def encryption_key_extension(raw: bytes) -> x509.UnrecognizedExtension:
    """Return the extension that holds an encryption key, 1,216 bytes, as a SubjectPublicKeyInfo (X-Wing's draft)."""
    return x509.UnrecognizedExtension(ENCRYPTION_KEY_OID, _KEY_INFO + raw)


def extension(source: x509.Certificate | RevocationList, kind: type[E]) -> E | None:
    """Return a certificate's or list's extension of that kind; None where it has none."""
    try:
        return source.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def whole_bytes(source: x509.Certificate | x509.CertificateSigningRequest | RevocationList) -> bool:
    """Return whether the signature's BIT STRING says that it has no unused bits.

    The library skips that byte, which no signature covers: the same content would pass in several encodings.
    """
    return source.public_bytes(Encoding.DER)[-len(source.signature) - 1] == 0


def certified_keys(source: x509.Certificate | x509.CertificateSigningRequest) -> tuple[str, bytes, bytes]:
    """Return name, signing key, encryption key of a certificate or request; `UnfitCertificateError` for unfit ones."""
    try:
        names = list(source.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
        signing = source.public_key()
        held = [each.value for each in source.extensions if each.oid == ENCRYPTION_KEY_OID]
    except MALFORMED as error:
        raise UnfitCertificateError(f"malformed certificate or request: {type(error).__name__}") from None
    if len(names) != 1 or not isinstance(names[0].value, str):
        raise UnfitCertificateError("a certificate or request names exactly one party (common name)")
    name = check_name(names[0].value)
    if not isinstance(signing, Ed25519PublicKey):
        raise UnfitCertificateError(f"{name!r}: the certificate or request is for another kind of key than Ed25519")
    check_signing_key(signing.public_bytes_raw())
    if not held or not isinstance(held[0], x509.UnrecognizedExtension):
        raise UnfitCertificateError(f"{name!r}: the certificate or request has no encryption key")
    key = held[0].value.removeprefix(_KEY_INFO)
    if held[0] != encryption_key_extension(key):
        raise UnfitCertificateError(f"{name!r}: the encryption key is not well-formed")
    encryption_key(key)
    return name, signing.public_bytes_raw(), key
