"""Key bindings: the key of a certificate that a site has already vouches for our signing and encryption keys.

Both sides sign: the certified key, and our signing key, so that nobody can pass off another's keys as its own.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat, decode, encode
from fhe_auc_keys.errors import ExpiredError, TamperedError, UnfitCertificateError
from fhe_auc_keys.trust.public_keys import (
    MALFORMED,
    MAX_DAYS,
    SKEW,
    check_name,
    check_signing_key,
    check_time,
    fingerprint,
)
from fhe_auc_keys.trust.sealing import encryption_key

CertifiedKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

_PURPOSE = b"fhe-auc key binding 1\0"  # signatures for one purpose are none for another
_LEAST_RSA_BITS = 2048
_LEAST_CURVE_BITS = 256
_ECDSA = ec.ECDSA(hashes.SHA256())
_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)


class Statement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a binding states."""

    name: str  # of the party
    signing_key: bytes  # Ed25519, 32 bytes
    encryption_key: bytes  # 1,216 bytes
    certificate: bytes  # SHA-256 of the certificate whose key vouches
    not_before: int  # Unix seconds
    not_after: int  # Unix seconds

    @property
    def validity(self) -> tuple[datetime, datetime]:
        """Its start and end, UTC."""
        begins, ends = (datetime.fromtimestamp(each, timezone.utc) for each in (self.not_before, self.not_after))
        return begins, ends

    @property
    def fingerprint(self) -> bytes:
        """32 bytes that name certificate, keys and name."""
        return hashlib.sha256(_PURPOSE + encode(self)).digest()


class _Binding(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    statement: bytes
    certified: bytes  # signature by the certificate's key
    possession: bytes  # signature by our signing key


_FORMAT = KeptFormat(b"fhebind", _Binding, "key binding")  # credentials hold some


def bind_keys(
    name: str,
    signing: Ed25519PrivateKey,
    encryption: bytes,
    certificate: x509.Certificate,
    certified_key: CertifiedKey,
    *,
    days: int,
    at: datetime,
) -> bytes:
    """Return the binding of a party's keys to its certificate, signed with both private keys.

    `encryption` is the party's public encryption key; the binding holds for `days`, 1 to 398, from `at`, the present.
    Raise `UnfitCertificateError` where `certified_key` is not the certificate's or too weak, or `days` or `name` unfit.
    """
    at = check_time(at)
    if not 1 <= days <= MAX_DAYS:
        raise UnfitCertificateError(f"a binding is for 1 to {MAX_DAYS} days, got {days}")
    if certified_key.public_key() != _certified_key(certificate):
        raise UnfitCertificateError("the private key is not that of the certificate")
    statement = encode(
        Statement(
            name=check_name(name),
            signing_key=signing.public_key().public_bytes_raw(),
            encryption_key=encryption,
            certificate=fingerprint(certificate),
            not_before=int((at - SKEW).timestamp()),
            not_after=int((at + timedelta(days=days)).timestamp()),
        )
    )
    signed = _PURPOSE + statement
    if isinstance(certified_key, rsa.RSAPrivateKey):
        by_certificate = certified_key.sign(signed, _PSS, hashes.SHA256())
    else:
        by_certificate = certified_key.sign(signed, _ECDSA)
    return _FORMAT.frame(_Binding(statement, by_certificate, signing.sign(signed)))


def verify_binding(data: bytes, certificate: x509.Certificate, *, at: datetime) -> Statement:
    """Return what a binding states at present, `at`; the certificate itself must have been verified before.

    Raise `TamperedError` where it is damaged, for another certificate, or a signature is not genuine; `ExpiredError`
    where it is outdated or not yet valid; `UnfitCertificateError` where a key or the name is not allowed.
    """
    try:
        binding = _FORMAT.unframe(data)
        signed = _PURPOSE + binding.statement
        if isinstance(key := _certified_key(certificate), rsa.RSAPublicKey):
            key.verify(binding.certified, signed, _PSS, hashes.SHA256())
        else:
            key.verify(binding.certified, signed, _ECDSA)
        statement = decode(binding.statement, Statement, "key binding")
        Ed25519PublicKey.from_public_bytes(statement.signing_key).verify(binding.possession, signed)
    except (DeserialisationError, InvalidSignature, ValueError):
        raise TamperedError("a key binding is damaged or forged") from None
    if statement.certificate != fingerprint(certificate):
        raise TamperedError(f"the key binding of {statement.name!r} is for another certificate")
    seconds = check_time(at).timestamp()
    if not statement.not_before <= seconds <= statement.not_after:
        raise ExpiredError(f"the key binding of {statement.name!r} is outdated or not yet valid")
    if statement.not_after - statement.not_before > (timedelta(days=MAX_DAYS) + SKEW).total_seconds():
        raise UnfitCertificateError(f"the key binding of {statement.name!r} is for too long")
    check_name(statement.name)
    check_signing_key(statement.signing_key)
    encryption_key(statement.encryption_key)
    return statement


def claimed_statement(data: bytes) -> Statement:
    """Return what a binding states, unverified; `DeserialisationError` where it cannot be read."""
    return decode(_FORMAT.unframe(data).statement, Statement, "key binding")


def _certified_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    try:
        key = certificate.public_key()
    except MALFORMED:
        raise UnfitCertificateError("the key of a site's certificate is malformed, or of an unknown kind") from None
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.key_size >= _LEAST_CURVE_BITS:
        return key
    raise UnfitCertificateError("a site's certificate needs an ECDSA key from 256 bits on, or RSA from 2048 on")
