"""A small certificate authority for a consortium: X.509 certificates for parties, and a signed revocation list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.names import alike
from fhe_auc.base.serialise import KeptFormat, SecretStruct
from fhe_auc_keys.errors import (
    DamagedFileError,
    ExpiredError,
    StoreError,
    TamperedError,
    UnfitCertificateError,
    unreadable,
)
from fhe_auc_keys.trust.public_keys import (
    MALFORMED,
    MAX_DAYS,
    SKEW,
    certified_keys,
    check_name,
    check_time,
    encryption_key_extension,
    subject_of,
    whole_bytes,
)
from fhe_auc_keys.trust.sealing import signed_bytes

LIST_DAYS = 30
"""How long a revocation list is accepted: so long can one who withholds the next hide what was revoked since."""

_DAMAGED = "not a stored authority, or damaged"


class Issued(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A line of the register."""

    serial: str  # hexadecimal
    name: str
    signing_key: bytes  # Ed25519, 32 bytes
    encryption_key: bytes  # 1,216 bytes
    not_after: int  # Unix seconds
    revoked: int = 0  # Unix seconds; 0: not revoked


class _StoredAuthority(SecretStruct, frozen=True):
    key: bytes
    certificate: bytes
    register: tuple[Issued, ...]
    list_number: int


_FORMAT = KeptFormat(b"fheauth", _StoredAuthority, "authority")


@dataclass(slots=True, eq=False, repr=False)
class Authority:
    """The consortium's certificate authority; never printed or pickled.

    `certificate` is X.509, self-signed (Ed25519); parties get it by a trusted way. `register` is of all ever issued.
    """

    _key: Ed25519PrivateKey
    certificate: x509.Certificate
    register: tuple[Issued, ...]
    _list_number: int

    def __repr__(self) -> str:
        return f"<Authority {self.certificate.subject.rfc4514_string()!r}, {len(self.register)} issued>"

    def __reduce__(self) -> str:
        raise TypeError("an authority's key is not pickled or copied; keep it in a key store")

    @classmethod
    def create(cls, name: str, *, days: int = 5 * 365, at: datetime) -> Authority:
        """Return a fresh authority, valid for `days` days from `at`; `UnfitCertificateError` for an unfit name."""
        key = Ed25519PrivateKey.generate()
        subject = subject_of(check_name(name))
        builder = _builder(subject, key.public_key(), subject, key, at, timedelta(days=days), authority=True)
        return cls(key, builder.sign(key, None), (), 0)

    def certificate_pem(self) -> bytes:
        """Return the authority's own certificate, for `fhe_auc_keys.trust.certificates.Trust`."""
        return self.certificate.public_bytes(Encoding.PEM)

    def issue(self, request: bytes, name: str, *, days: int, at: datetime) -> bytes:
        """Return a certificate (PEM) for a party's request (PEM, from `Identity.request`).

        `name` is whom the operator believes to have asked. `days` are 1 to 398, and within the authority's own
        validity; `at` is the present, with a time zone.

        Raises `TamperedError` where the request's own signature is not genuine; `UnfitCertificateError` where it is no
        request, or for another name, its encryption key is missing or unfit, `days` are out of range, or the name
        belongs to other keys, or a key to another name, in a certificate that is still valid; `ExpiredError` where the
        authority's own certificate is outdated, or would be before the party's.
        """
        at = check_time(at)
        check_name(name)
        if not 1 <= days <= MAX_DAYS:
            raise UnfitCertificateError(f"a certificate is valid for 1 to {MAX_DAYS} days, got {days}")
        asked, signing, encryption = certified_keys(_parsed(request))
        if asked != name:
            raise UnfitCertificateError(f"the certificate request is for {asked!r}, not for {name!r}")
        if not self.certificate.not_valid_before_utc <= at < at + timedelta(days=days) <= self._ends:
            raise ExpiredError(
                f"the authority's own certificate ends on {self._ends:%Y-%m-%d}; {days} days are too long"
            )
        self._check_free(name, signing, encryption, at)

        # Of the request's subject only the name that was compared: nobody has looked at the rest.
        key, issuer = Ed25519PublicKey.from_public_bytes(signing), self.certificate.subject
        builder = _builder(subject_of(name), key, issuer, self._key, at, timedelta(days=days), authority=False)
        builder = builder.add_extension(encryption_key_extension(encryption), critical=False)
        certificate = builder.sign(self._key, None)
        ends = int(certificate.not_valid_after_utc.timestamp())
        self.register += (Issued(f"{certificate.serial_number:x}", name, signing, encryption, ends),)
        return certificate.public_bytes(Encoding.PEM)

    def revoke(self, serial: str, *, at: datetime) -> None:
        """Revoke a certificate for good, by its serial number in the register; `StoreError` where it was not issued."""
        if all(line.serial != serial for line in self.register):
            raise StoreError(f"no certificate with serial {serial[:60]!r} was issued")
        when = int(check_time(at).timestamp())
        self.register = tuple(
            msgspec.structs.replace(line, revoked=line.revoked or when) if line.serial == serial else line
            for line in self.register
        )

    def revocation_list(self, *, days: int = LIST_DAYS, at: datetime) -> bytes:
        """Return the signed revocation list (X.509 CRL, PEM), accepted for `days` days from `at`."""
        at = check_time(at)
        self._list_number += 1
        builder = x509.CertificateRevocationListBuilder().issuer_name(self.certificate.subject)
        builder = builder.last_update(at - SKEW).next_update(at + timedelta(days=days))
        builder = builder.add_extension(x509.CRLNumber(self._list_number), critical=False)
        builder = builder.add_extension(_issuer_key(self._key), critical=False)
        for line in self.register:
            if line.revoked:
                entry = x509.RevokedCertificateBuilder().serial_number(int(line.serial, 16))
                when = datetime.fromtimestamp(line.revoked, timezone.utc)
                builder = builder.add_revoked_certificate(entry.revocation_date(when).build())
        return builder.sign(self._key, None).public_bytes(Encoding.PEM)

    def signing_keys(self, *, at: datetime) -> frozenset[bytes]:
        """Return the Ed25519 keys in certificates of this authority that are valid at `at`, and not revoked."""
        revoked = {line.signing_key for line in self.register if line.revoked}
        now = check_time(at).timestamp()
        return frozenset(line.signing_key for line in self.register if line.not_after >= now) - revoked

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """Return the authority's Ed25519 signature over `data`, 64 bytes, for one purpose and no other."""
        return self._key.sign(signed_bytes(purpose, data))

    def to_bytes(self) -> bytes:
        """Serialise, private key in the clear: for `fhe_auc_keys.store.key_store` only."""
        certificate = self.certificate.public_bytes(Encoding.DER)
        return _FORMAT.frame(
            _StoredAuthority(self._key.private_bytes_raw(), certificate, self.register, self._list_number)
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> Authority:
        """Read what `to_bytes` wrote; `DamagedFileError` for anything else, `StoreError` for another version."""
        try:
            stored = _FORMAT.unframe(data)
            key = Ed25519PrivateKey.from_private_bytes(stored.key)
            certificate = x509.load_der_x509_certificate(stored.certificate)
            fits = certificate.public_key() == key.public_key()
        except (DeserialisationError, *MALFORMED) as error:
            raise unreadable(error, _DAMAGED) from None
        if not fits:
            raise DamagedFileError(_DAMAGED)
        return cls(key, certificate, stored.register, stored.list_number)

    @property
    def _ends(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def _check_free(self, name: str, signing: bytes, encryption: bytes, at: datetime) -> None:
        """Names and keys belong together among valid certificates; a revoked one frees its name, never its keys."""
        now, looks = at.timestamp(), alike(name)
        for line in self.register:
            same_keys = (line.signing_key, line.encryption_key) == (signing, encryption)
            shares_a_key = line.signing_key == signing or line.encryption_key == encryption
            if line.revoked and shares_a_key:
                raise UnfitCertificateError(
                    f"a key in the request of {name!r} was revoked (serial {line.serial}): new keys are needed"
                )
            if line.revoked or line.not_after < now:
                continue
            if line.name == name and not same_keys:
                raise UnfitCertificateError(
                    f"{name!r} has a valid certificate for other keys (serial {line.serial}): revoke it first"
                )
            if line.name != name and shares_a_key:
                raise UnfitCertificateError(f"a key in the request of {name!r} is certified for {line.name!r}")
            if line.name != name and alike(line.name) == looks:
                raise UnfitCertificateError(f"the name {name!r} looks like {line.name!r}, which is certified already")


def requested_name(request: bytes) -> str:
    """Return whom a party's request (PEM) is for, as it claims; errors as `Authority.issue`."""
    return certified_keys(_parsed(request))[0]


def _parsed(request: bytes) -> x509.CertificateSigningRequest:
    """Return a request that is signed by its own key."""
    try:
        parsed = x509.load_pem_x509_csr(request)
        genuine = parsed.is_signature_valid and whole_bytes(parsed)
    except MALFORMED:
        raise UnfitCertificateError("not a certificate request in PEM") from None
    if not genuine:
        raise TamperedError("the certificate request bears no genuine signature of its own key")
    return parsed


def _builder(
    subject: x509.Name,
    key: Ed25519PublicKey,
    issuer: x509.Name,
    issuer_key: Ed25519PrivateKey,
    at: datetime,
    lifetime: timedelta,
    *,
    authority: bool,
) -> x509.CertificateBuilder:
    """Return a certificate that is not signed yet: of an authority for certificates, or of a party."""
    at = check_time(at)
    unused = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    none = dict.fromkeys((*unused, "encipher_only", "decipher_only"), False)
    usage = x509.KeyUsage(digital_signature=not authority, key_cert_sign=authority, crl_sign=authority, **none)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(at - SKEW).not_valid_after(at + lifetime)
    builder = builder.add_extension(_issuer_key(issuer_key), critical=False)
    constraints = x509.BasicConstraints(ca=authority, path_length=0 if authority else None)
    builder = builder.add_extension(constraints, critical=True).add_extension(usage, critical=True)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _issuer_key(key: Ed25519PrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
