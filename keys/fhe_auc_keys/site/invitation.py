"""An invitation: what a role needs of the consortium's authority before its first session, in one signed file.

It holds the authority's certificate, and is signed with that certificate's key. So whoever compares the certificate's
fingerprint by telephone, once, knows that all of it is the authority's. It holds no secret.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.files import read_toml
from fhe_auc.base.serialise import KeptFormat, decode, encode
from fhe_auc.question.study import MAX_CHARACTERS, Study
from fhe_auc_keys.errors import ExpiredError, KeysError, TamperedError, VersionError
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.store.list_places import LONGEST_FETCHED, is_url
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.public_keys import MALFORMED, RevocationList, check_name, extension, subject_name, whole_bytes
from fhe_auc_keys.trust.revocation import is_current, newer_list
from fhe_auc_keys.trust.sealing import has_signed

MAGIC = b"fheinvi"  # first bytes of an invitation
LONGEST = LONGEST_FETCHED + 2**16  # bytes: of the longest revocation list, and all else

_PURPOSE = b"invitation 1"
_MOST_TEXTS = 20


class Offer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """What the authority's operator writes into an invitation; raises `InputError` where a field cannot be that."""

    exchange: str = ""  # where files are exchanged, in words or as an address; it is shown
    notes: tuple[str, ...] = ()  # shown as they are: whom to call, say
    revocation_lists: tuple[str, ...] = ()  # places where roles fetch newer ones: URLs, or folders from the root on
    study: Study | None = None
    policy: Policy | None = None  # one that sites may take

    def __post_init__(self) -> None:
        texts = (self.exchange, *self.notes, *self.revocation_lists)
        if len(texts) > _MOST_TEXTS or any(len(each) > MAX_CHARACTERS or not each.isprintable() for each in texts):
            raise InputError(
                f"exchange, notes and revocation-lists are at most {_MOST_TEXTS} texts, each of one line and at most "
                f"{MAX_CHARACTERS} characters"
            )
        for place in self.revocation_lists:
            if not is_url(place) and not Path(place).is_absolute():
                raise InputError(f"revocation-lists: {place!r} is neither a URL nor a folder from the root on")

    @classmethod
    def read(cls, path: Path) -> Offer:
        """Read a TOML file, keys as the attributes with hyphens; `InputError` that names file and key."""
        return read_toml(path, cls, "invitation")


class _Body(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    certificate: bytes  # DER, the authority's
    revocation_list: bytes  # DER
    offer: bytes  # `Offer` without its policy, encoded
    policy: bytes  # in its own format; empty for none


class _Signed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    body: bytes
    signature: bytes


_FORMAT = KeptFormat(MAGIC, _Signed, "invitation")


def invite(authority: Authority, revocation_list: bytes, offer: Offer) -> bytes:
    """Return an invitation, signed by the authority, with its newest revocation list (PEM); for `open_invitation`."""
    certificate = authority.certificate.public_bytes(Encoding.DER)
    found = x509.load_pem_x509_crl(revocation_list).public_bytes(Encoding.DER)
    told = encode(msgspec.structs.replace(offer, policy=None))
    body = encode(_Body(certificate, found, told, b"" if offer.policy is None else offer.policy.to_bytes()))
    return _FORMAT.frame(_Signed(body, authority.sign(_PURPOSE, body)))


@dataclass(frozen=True)
class Invitation:
    """An invitation with a genuine signature: of whom, nobody knows until the fingerprint has been compared."""

    certificate: x509.Certificate
    revocation_list: RevocationList
    offer: Offer

    def accepted(self, trusted: Trusted, *, at: datetime) -> Trusted:
        """Return `trusted` with the authority, its revocation list, and the places where newer ones are fetched.

        Those replace the places before, unless other authorities are trusted too, whose places these may be.
        Raises `OutdatedListError` where a newer list is there already, `ExpiredError` where the list, or the authority,
        is outdated or not yet valid.
        """
        ends = self.revocation_list.next_update_utc
        own = self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc
        if not is_current(self.revocation_list, at=at) or not own[0] <= at <= own[1]:
            raise ExpiredError(
                f"the invitation counts until {min(ends or own[1], own[1]):%Y-%m-%d %H:%M} UTC, or not yet: ask the "
                "authority for a new one, and check the clock"
            )
        if self.certificate not in trusted.authorities:
            trusted = replace(trusted, authorities=(*trusted.authorities, self.certificate))
        trusted = trusted.with_list(self.revocation_list)
        alone = bool(self.offer.revocation_lists) and trusted.authorities == (self.certificate,)
        before = () if alone else trusted.places
        return replace(trusted, places=tuple(dict.fromkeys((*before, *self.offer.revocation_lists))))


def open_invitation(data: bytes) -> Invitation:
    """Return what an invitation holds; whose it is, only a comparison of its certificate's fingerprint tells.

    Raises `VersionError` where it is of another version of fhe-auc; `TamperedError` where it is too long, damaged,
    forged, or holds what no authority writes.
    """
    if len(data) > LONGEST:
        raise TamperedError(f"an invitation is longer than {LONGEST:,} bytes, which none should be")
    try:
        signed = _FORMAT.unframe(data)
        body = decode(signed.body, _Body, "invitation")
        certificate = x509.load_der_x509_certificate(body.certificate)
        _check_authority(certificate, signed)
        found = x509.load_der_x509_crl(body.revocation_list)
        policy = Policy.from_bytes(body.policy) if body.policy else None
        offer = msgspec.structs.replace(decode(body.offer, Offer, "invitation"), policy=policy)
        return Invitation(certificate, newer_list(found, None, certificate), offer)
    except DeserialisationError as error:
        raise (VersionError if error.field == "version" else TamperedError)(str(error)) from None
    except (InputError, KeysError, *MALFORMED) as error:
        raise TamperedError(f"the invitation is damaged or forged: {error}") from None


def _check_authority(certificate: x509.Certificate, signed: _Signed) -> None:
    """Raise unless that is an authority's certificate, signed by itself, and its key has signed the invitation."""
    key, constraints = certificate.public_key(), extension(certificate, x509.BasicConstraints)
    if constraints is None or not constraints.ca or not isinstance(key, Ed25519PublicKey):
        raise TamperedError("its certificate is not that of an authority for fhe-auc")
    check_name(subject_name(certificate.subject))  # it is shown before anybody knows whose it is
    raw, text = key.public_bytes_raw(), certificate.tbs_certificate_bytes
    try:
        key.verify(certificate.signature, text)
    except InvalidSignature:
        raise TamperedError("its certificate is not signed by itself") from None
    if not whole_bytes(certificate) or not has_signed(raw, _PURPOSE, signed.body, signed.signature):
        raise TamperedError("it is not signed by the authority whose certificate it holds")
