"""TLS certificate and node keys of a deployment on this machine; across machines people bring their own."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class TlsFiles:
    """A server's certificate for localhost, its key, and the authority that both sides trust: PEM files."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def create(cls, folder: Path) -> TlsFiles:
        """Make them in a folder that only this user can read."""
        authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        authority = _certificate("fhe-auc local deployment", authority_key, None, None)
        certificate = _certificate("localhost", key, authority, authority_key)
        files = cls(folder / "tls-ca.pem", folder / "tls.pem", folder / "tls.key")
        files.authority.write_bytes(authority.public_bytes(Encoding.PEM))
        files.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        _write_key(files.key, key, PrivateFormat.PKCS8)
        return files


def node_keys(folder: Path, name: str) -> tuple[Path, Path]:
    """Make a node's key pair (ECDSA, P-384) in the folder, as ssh-keygen would; return private and public file."""
    key = ec.generate_private_key(ec.SECP384R1())
    private, public = folder / name, folder / f"{name}.pub"
    _write_key(private, key, PrivateFormat.OpenSSH)
    public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
    return private, public


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey, form: PrivateFormat) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, form, NoEncryption()))


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey | None,
) -> x509.Certificate:
    """Return a certificate for localhost, or without an issuer an authority's own."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now, signer = datetime.now(timezone.utc), issuer_key or key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Who has a clock that is behind must reach the SuperLink, to be told by how much.
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        # Python 3.13 takes no certificate without these (RFC 5280).
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .add_extension(_usage(signs_certificates=issuer is None), critical=True)
    )
    if issuer is not None:
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    neither = dict.fromkeys((*others, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=not signs_certificates, key_cert_sign=signs_certificates, **neither)
