"""Revocation lists (X.509 CRLs, RFC 5280): only a current one, signed by the issuer itself, says that all is well.

An authority that takes a new key keeps its name. A list names the key that signed it (authority key identifier), and
counts for that key alone; where a list names none, its signature says whose it is.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc_keys.errors import ExpiredError, KeysError, OutdatedListError, RevokedError, TamperedError
from fhe_auc_keys.trust.public_keys import MALFORMED, RevocationList, counts, extension, shown, whole_bytes

_LAST_WEEK = timedelta(days=7)
_UNDERSTOOD = {x509.CRLNumber.oid, x509.AuthorityKeyIdentifier.oid}


def check_not_revoked(
    certificate: x509.Certificate, issuer: x509.Certificate, lists: Iterable[RevocationList], *, at: datetime
) -> None:
    """Raise unless a current list of `issuer` is there and none of its lists names `certificate`.

    `RevokedError` where a list names it, an outdated one too, since a revocation is for good; `TamperedError` where a
    list bears the issuer's name and key identifier, and not its signature; `ExpiredError` where every list of the
    issuer is outdated or not yet valid; `KeysError` where there is none, or a forged one that names no key.
    """
    who = shown(certificate.subject)
    mine = [found for found in lists if is_of(found, issuer)]
    for found in mine:
        _check_genuine(found, issuer)
        if found.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None:
            raise RevokedError(
                f"the certificate of {who} (serial {certificate.serial_number:x}) has been revoked: its sessions are "
                "made again without it (`fhe-auc keys session --from`)"
            )
    if not mine:
        raise KeysError(
            f"no revocation list of {shown(issuer.subject)} for the key that signed {who}: ask the authority for it"
        )
    if not any(is_current(found, at=at) for found in mine):
        last = max(mine, key=lambda found: found.last_update_utc)
        times = counts(last.last_update_utc, last.next_update_utc or last.last_update_utc, at)
        raise ExpiredError(
            f"the revocation list of {shown(issuer.subject)} is outdated or not yet valid: it counts from {times}, or "
            "the authority has to write a new one, by `fhe-auc keys revoke --refresh`, for `fhe-auc keys enrol NAME "
            "--revocation-list`"
        )


def is_current(found: RevocationList, *, at: datetime) -> bool:
    """Whether a list is valid at that time; one without an end never is, as an attacker could show it for ever."""
    return found.next_update_utc is not None and found.last_update_utc <= at < found.next_update_utc


def ends_soon(found: RevocationList, *, at: datetime) -> bool:
    """Whether a list is in its last week, in the last quarter of a shorter validity, or past it."""
    ends = found.next_update_utc
    return ends is not None and at > ends - min(_LAST_WEEK, (ends - found.last_update_utc) / 4)


def newer_list(new: RevocationList, old: RevocationList | None, issuer: x509.Certificate) -> RevocationList:
    """Return `new`, of whatever origin, which is to take the place of `old`, accepted by this function, if any.

    An earlier one would undo what was revoked since. Numbers tell the order; dates, where one has none or they agree.

    Raises `KeysError` where `new` is not in the name of `issuer`, who is trusted, or of another key, or is forged and
    names no key; `TamperedError` where it bears that name and key identifier and not the signature, or is no full list;
    `OutdatedListError` where it is older than `old`, or another one of the same number and date.
    """
    if not is_of(new, issuer):
        raise KeysError("the revocation list is not in the name of this authority, or of another key")
    _check_genuine(new, issuer)
    if old is None or new == old:
        return new
    after, before = _number(new), _number(old)
    if after is None or before is None:
        after = before = 0
    if (after, new.last_update_utc) <= (before, old.last_update_utc):
        raise OutdatedListError(
            f"the revocation list of {shown(issuer.subject)} from {new.last_update_utc:%Y-%m-%d %H:%M} UTC "
            f"is not newer than the one from {old.last_update_utc:%Y-%m-%d %H:%M} UTC that is here already"
        )
    return new


def _number(found: RevocationList) -> int | None:
    try:
        number = extension(found, x509.CRLNumber)
    except MALFORMED:
        return None
    return None if number is None else number.crl_number


def is_of(found: RevocationList, issuer: x509.Certificate) -> bool:
    """Whether a list says that it is of this authority: by name and key identifier, or else by name and signature."""
    try:
        if found.issuer != issuer.subject:
            return False
        signer, own = extension(found, x509.AuthorityKeyIdentifier), extension(issuer, x509.SubjectKeyIdentifier)
        if signer is None or own is None or signer.key_identifier is None:
            return _is_signed(found, issuer)
        return signer.key_identifier == own.digest
    except MALFORMED:
        return False


def _is_signed(found: RevocationList, issuer: x509.Certificate) -> bool:
    return _is_signed_list(found.public_bytes(Encoding.DER), issuer)


@lru_cache(maxsize=64)  # one list is asked about each party of a session
def _is_signed_list(der: bytes, issuer: x509.Certificate) -> bool:
    key = issuer.public_key()
    if not isinstance(key, (Ed25519PublicKey, EllipticCurvePublicKey, RSAPublicKey)):
        return False
    return x509.load_der_x509_crl(der).is_signature_valid(key)


def _check_genuine(found: RevocationList, issuer: x509.Certificate) -> None:
    try:
        usage = extension(issuer, x509.KeyUsage)
        genuine = usage is not None and usage.crl_sign and _is_signed(found, issuer) and whole_bytes(found)
        # Delta and partitioned lists are marked by critical extensions; they say nothing about certificates left out.
        genuine = genuine and all(not each.critical or each.oid in _UNDERSTOOD for each in found.extensions)
    except MALFORMED:
        genuine = False
    if not genuine:
        raise TamperedError(f"a revocation list in the name of {shown(issuer.subject)} is forged or not a full list")
