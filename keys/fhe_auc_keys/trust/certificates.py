"""Peers and how their certificates are verified.

Two ways lead from a trusted authority to a party's signing and encryption keys:

* the consortium's authority (`fhe_auc_keys.trust.authority`) certifies both keys directly;
* an authority that the site already has certifies some other key (ECDSA or RSA), and that key signs a *binding* of ours
  (`fhe_auc_keys.trust.existing_certificate`). The chain is verified by the ``cryptography`` package's own verifier.

A *credential* is what a party shows: certificates, and the binding where there is one.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509 import verification
from cryptography.x509.oid import NameOID

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat
from fhe_auc_keys.errors import ExpiredError, KeysError, TamperedError, UnfitCertificateError
from fhe_auc_keys.trust.existing_certificate import claimed_statement, verify_binding
from fhe_auc_keys.trust.public_keys import (
    MALFORMED,
    certified_keys,
    check_time,
    counts,
    extension,
    fingerprint,
    shown,
    subject_name,
    whole_bytes,
)
from fhe_auc_keys.trust.revocation import check_not_revoked

MAGIC = b"fhecred"  # first bytes of a credential

_MAX_CHAIN = 5
_UNDERSTOOD = {x509.BasicConstraints.oid, x509.KeyUsage.oid}


@dataclass(frozen=True)
class Peer:
    """What a verified credential says; only `verify` makes one.

    The fingerprint names certificate and keys. For a consortium's certificate it is the SHA-256 that other tools print.
    """

    name: str
    signing_key: bytes  # Ed25519, 32 bytes
    encryption_key: bytes  # 1,216 bytes
    not_before: datetime  # UTC
    not_after: datetime  # UTC
    serial: int  # of the certificate
    fingerprint: bytes  # 32 bytes


@dataclass(frozen=True, eq=False)  # revocation lists have no hash, and what was verified is remembered by trust
class Trust:
    """Whom a site trusts: authorities, each of which can give any name to anybody, and the current list of each."""

    anchors: tuple[x509.Certificate, ...]
    revocation_lists: tuple[x509.CertificateRevocationList, ...] = field(default=(), repr=False)

    @classmethod
    def from_pem(cls, anchors: bytes, revocation_lists: tuple[bytes, ...] = ()) -> Trust:
        """Read authorities, one PEM text, and lists, PEM each; `UnfitCertificateError` for something else."""
        try:
            lists = tuple(x509.load_pem_x509_crl(each) for each in revocation_lists)
            return cls(tuple(x509.load_pem_x509_certificates(anchors)), lists)
        except MALFORMED as error:
            raise UnfitCertificateError(f"malformed authority certificate or revocation list: {error}") from None


class _Credential(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    chain: tuple[bytes, ...]  # DER, the party's own certificate first, without the anchor
    binding: bytes = b""


_FORMAT = KeptFormat(MAGIC, _Credential, "credential")  # identities and audit trails hold some


def credential(chain: bytes, binding: bytes = b"") -> bytes:
    """Return the credential of a PEM chain, the party's own first; `UnfitCertificateError` unless it has 1 to 5."""
    try:
        certificates = x509.load_pem_x509_certificates(chain)
    except MALFORMED as error:
        raise UnfitCertificateError(f"malformed certificate chain: {error}") from None
    if len(certificates) > _MAX_CHAIN:
        raise UnfitCertificateError(f"a chain has at most {_MAX_CHAIN} certificates, got {len(certificates)}")
    return _FORMAT.frame(_Credential(tuple(each.public_bytes(Encoding.DER) for each in certificates), binding))


def claimed(shown: bytes) -> tuple[x509.Certificate, bool]:
    """Return the party's own certificate out of a credential, unverified, and whether there is a binding."""
    found = _FORMAT.unframe(shown)
    if not found.chain:
        raise TamperedError("it holds no certificate")
    return _loaded(found.chain[0]), bool(found.binding)


def claimed_name_and_end(shown: bytes) -> tuple[str, datetime]:
    """Return the name in a credential and its end, UTC, unverified; errors as `claimed`."""
    leaf, _ = claimed(shown)
    if binding := _FORMAT.unframe(shown).binding:
        statement = claimed_statement(binding)
        return statement.name, min(leaf.not_valid_after_utc, statement.validity[1])
    return subject_name(leaf.subject), leaf.not_valid_after_utc


def verify(shown: bytes, trust: Trust, *, at: datetime, lists_at: datetime | None = None) -> Peer:
    """Return whom a credential, from `credential`, belongs to; `at` is the present, with a time zone.

    Where something old is verified, `at` is the time that it is of, and `lists_at` the present, at which revocation
    lists have to be valid. Raises `TamperedError` where it is damaged, or its certificate's key or our own did not sign
    the binding; `RevokedError`; `ExpiredError` where it, or the revocation list, is outdated or not yet valid;
    `UnfitCertificateError` where it is no party's; `KeysError` where no chain of genuine signatures leads to an anchor,
    or an issuer's revocation list is missing.
    """
    at = check_time(at)
    now = at if lists_at is None else check_time(lists_at)
    try:
        parts = _FORMAT.unframe(shown)
        chain = [_loaded(each) for each in parts.chain]
    except (DeserialisationError, *MALFORMED) as error:
        raise TamperedError(f"a credential is damaged: {error}") from None
    if not 1 <= len(chain) <= _MAX_CHAIN or not all(whole_bytes(each) for each in chain):
        raise TamperedError("a credential holds no certificate, too many, or one not encoded as it was signed")
    try:
        if parts.binding:
            return _bound(chain, parts.binding, trust, at, now)
        return _consortium(chain, trust, at, now)
    except MALFORMED as error:
        raise UnfitCertificateError(f"a certificate is malformed: {type(error).__name__}") from None


def _loaded(der: bytes) -> x509.Certificate:
    """Return a certificate; ValueError also where the library only warns as yet, say of a serial number below one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        try:
            return x509.load_der_x509_certificate(der)
        except CryptographyDeprecationWarning as warning:
            raise ValueError(str(warning)) from None


def _consortium(chain: list[x509.Certificate], trust: Trust, at: datetime, now: datetime) -> Peer:
    leaf = chain[0]
    if len(chain) != 1:
        raise UnfitCertificateError("a certificate of a consortium's authority comes without a chain")
    who = shown(leaf.subject)
    issuer = next((anchor for anchor in trust.anchors if _issued_by(leaf, anchor)), None)
    if issuer is None:
        raise KeysError(f"the certificate of {who} is not signed by any authority trusted here")
    check_not_revoked(leaf, issuer, trust.revocation_lists, at=now)
    for certificate, what in ((issuer, "authority"), (leaf, "party")):
        _check_validity(certificate, what, at)
    _check_leaf(leaf)
    # The authority's own as well: constraints on the names that it may give are such an extension.
    for certificate in (issuer, leaf):
        unknown = [x.oid.dotted_string for x in certificate.extensions if x.critical and x.oid not in _UNDERSTOOD]
        if unknown:
            raise UnfitCertificateError(
                f"the certificate of {shown(certificate.subject)} has the unknown critical extension {unknown[0]}"
            )
    validity = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    return Peer(*certified_keys(leaf), *validity, leaf.serial_number, fingerprint(leaf))


def _bound(chain: list[x509.Certificate], binding: bytes, trust: Trust, at: datetime, now: datetime) -> Peer:
    leaf = chain[0]
    who = shown(leaf.subject)
    _check_validity(leaf, "site", at)
    if not trust.anchors:
        raise KeysError(f"the certificate of {who} is not signed by any authority trusted here")
    verifier = (
        verification.PolicyBuilder()
        .store(verification.Store(list(trust.anchors)))
        .time(at)
        .max_chain_depth(_MAX_CHAIN)
        # The defaults for a site's own certificate ask for a TLS client's; a seal's or a mail server's will do as well.
        .extension_policies(
            ca_policy=verification.ExtensionPolicy.webpki_defaults_ca(),
            ee_policy=verification.ExtensionPolicy.permit_all(),
        )
        .build_client_verifier()
    )
    try:
        path = verifier.verify(leaf, chain[1:]).chain
    except verification.VerificationError as error:
        # Behind that, the library quotes the certificate's names as they are, control characters and all.
        reason = ascii(str(error).partition(" (encountered")[0])[1:-1]
        raise KeysError(f"no chain from {who} to a trusted authority: {reason}") from None
    if len(path) == 1:
        raise KeysError(f"the certificate of {who} is trusted itself, and no authority says it is not revoked")
    for certificate, issuer in itertools.pairwise(path):
        check_not_revoked(certificate, issuer, trust.revocation_lists, at=now)
    _check_leaf(leaf)
    statement = verify_binding(binding, leaf, at=at)
    # The verifier holds constraints on names against DNS names only: an authority under them may not give others.
    constrained = any(extension(authority, x509.NameConstraints) is not None for authority in path[1:])
    if statement.name not in (_dns_names(leaf) if constrained else certified_names(leaf)):
        raise UnfitCertificateError(f"{statement.name!r} is no name that the site's certificate is for")
    keys = statement.name, statement.signing_key, statement.encryption_key
    begins, ends = statement.validity
    validity = max(leaf.not_valid_before_utc, begins), min(leaf.not_valid_after_utc, ends)
    return Peer(*keys, *validity, leaf.serial_number, statement.fingerprint)


def certified_names(certificate: x509.Certificate) -> set[str]:
    """Return the names that a site's certificate is for: common name and DNS names."""
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {each.value for each in common if isinstance(each.value, str)} | _dns_names(certificate)


def _dns_names(certificate: x509.Certificate) -> set[str]:
    alternative = extension(certificate, x509.SubjectAlternativeName)
    return set() if alternative is None else set(alternative.get_values_for_type(x509.DNSName))


@lru_cache(maxsize=8192)  # of the parties of a session, of which each of its messages is checked for all
def _issued_by(leaf: x509.Certificate, anchor: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(anchor)
        constraints, usage = extension(anchor, x509.BasicConstraints), extension(anchor, x509.KeyUsage)
    except Exception:  # another name, signature or kind of key: then it is not the issuer
        return False
    return constraints is not None and constraints.ca and usage is not None and usage.key_cert_sign


def _check_validity(certificate: x509.Certificate, what: str, at: datetime) -> None:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not begins <= at <= ends:
        raise ExpiredError(
            f"the {what}'s certificate {shown(certificate.subject)} is valid from {counts(begins, ends, at)}, or have "
            "it renewed"
        )


def _check_leaf(leaf: x509.Certificate) -> None:
    """A party signs with its key, and is no authority itself."""
    who = shown(leaf.subject)
    constraints, usage = extension(leaf, x509.BasicConstraints), extension(leaf, x509.KeyUsage)
    if constraints is not None and constraints.ca:
        raise UnfitCertificateError(f"{who} is an authority, not a party")
    if usage is None or not usage.digital_signature:
        raise UnfitCertificateError(f"the certificate of {who} is not for signing (key usage digitalSignature)")
