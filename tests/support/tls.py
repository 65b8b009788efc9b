"""A TLS certificate for a deployment on this machine; across machines people bring their own."""

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def make_certificate(folder: Path) -> None:
    """Write a server's certificate for this machine into ``tls.pem``, which signs itself, and its key: ``tls.key``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(timezone.utc)
    known = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=1))
    usage = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"), False
    )
    for extension, critical in (
        (x509.SubjectAlternativeName(known), False),
        (x509.BasicConstraints(ca=True, path_length=None), True),
        # Python 3.13 takes no certificate without these (RFC 5280).
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False),
        (x509.KeyUsage(True, key_cert_sign=True, encipher_only=False, decipher_only=False, **usage), True),
    ):
        builder = builder.add_extension(extension, critical)
    (folder / "tls.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    (folder / "tls.key").touch(mode=0o600)
    (folder / "tls.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
