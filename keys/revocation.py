"""Revocation lists (X.509 CRLs, RFC 5280): only a current one, signed by the issuer itself, says that all is well."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from keys.errors import ExpiredError, RevokedError, TamperedError, UnknownIssuerError
from keys.public_keys import MALFORMED, whole_bytes

_UNDERSTOOD = {x509.CRLNumber.oid, x509.AuthorityKeyIdentifier.oid}


def check_not_revoked(
    certificate: x509.Certificate,
    issuer: x509.Certificate,
    lists: Iterable[x509.CertificateRevocationList],
    *,
    at: datetime,
) -> None:
    """Raise unless a current list of `issuer` is there and none of its lists names `certificate`.

    Raises
    ------
    RevokedError
        A list names it; an outdated list counts too, since a revocation is for good.
    TamperedError
        A list bears the issuer's name and not its signature.
    ExpiredError
        Every list of the issuer is outdated, or none is valid yet.
    UnknownIssuerError
        There is no list of this issuer at all.
    """
    who = certificate.subject.rfc4514_string()
    mine = [found for found in lists if found.issuer == issuer.subject]
    for found in mine:
        _check_genuine(found, issuer)
        if found.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise RevokedError(f"the certificate of {who!r} (serial {certificate.serial_number:x}) has been revoked")
    if not mine:
        raise UnknownIssuerError(f"no revocation list of {issuer.subject.rfc4514_string()!r}: ask the authority for it")
    # A list without an end never becomes outdated, so that an attacker could show it for ever.
    current = [
        found
        for found in mine
        if found.last_update_utc <= at and found.next_update_utc is not None and at < found.next_update_utc
    ]
    if not current:
        raise ExpiredError(
            f"the revocation list of {issuer.subject.rfc4514_string()!r} is outdated or not yet valid: get a new one"
        )


def _check_genuine(found: x509.CertificateRevocationList, issuer: x509.Certificate) -> None:
    key = issuer.public_key()
    try:
        usage = issuer.extensions.get_extension_for_class(x509.KeyUsage).value
        genuine = (
            isinstance(key, (Ed25519PublicKey, EllipticCurvePublicKey, RSAPublicKey))
            and usage.crl_sign
            and found.is_signature_valid(key)
            and whole_bytes(found)
        )
        # Delta and partitioned lists are marked by critical extensions; they say nothing about certificates left out.
        genuine = genuine and all(not each.critical or each.oid in _UNDERSTOOD for each in found.extensions)
    except (*MALFORMED, x509.ExtensionNotFound):
        genuine = False
    if not genuine:
        raise TamperedError(
            f"a revocation list in the name of {issuer.subject.rfc4514_string()!r} is forged or not a full list"
        )
