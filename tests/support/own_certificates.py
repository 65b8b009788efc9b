"""Certificates that sites have from elsewhere, with their chains and revocation lists."""

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.identity import Identity
from tests.support.certified import DAY, NOW


class Site:
    """A real-world authority: an ECDSA root and an intermediate, and a leaf of the kind asked for."""

    def __init__(
        self, key=None, *, name: str = "north.example", usage: bool = True, ca: bool = False, constraint: str = ""
    ) -> None:
        self.constraint = constraint
        self.root_key, self.middle_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.root = self.certificate("root", self.root_key, "root", self.root_key, ca=True)
        self.middle = self.certificate("middle", self.middle_key, "root", self.root_key, ca=True)
        self.leaf = self.certificate(name, self.key, "middle", self.middle_key, ca=ca, usage=usage)
        self.chain = self.leaf.public_bytes(Encoding.PEM) + self.middle.public_bytes(Encoding.PEM)
        self.lists = (self.crl("root", self.root_key), self.crl("middle", self.middle_key))

    def certificate(self, name, key, issuer, issuer_key, *, ca, usage=True):
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
        if name == "middle" and self.constraint:
            permitted = x509.NameConstraints([x509.DNSName(self.constraint)], None)
            builder = builder.add_extension(permitted, critical=True)
        if not ca:
            alternative = x509.SubjectAlternativeName([x509.DNSName("alias.north.example")])
            builder = builder.add_extension(alternative, critical=False)
        return builder.sign(issuer_key, hashes.SHA256())

    def crl(self, name, key, *revoked, number=None, last_update=NOW - DAY, next_update=NOW + DAY, critical=None):
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = x509.CertificateRevocationListBuilder(issuer, last_update, next_update)
        if number is not None:
            builder = builder.add_extension(x509.CRLNumber(number), critical=False)
        if critical is not None:
            builder = builder.add_extension(critical, critical=True)
        for each in revoked:
            entry = x509.RevokedCertificateBuilder(each.serial_number, NOW - DAY).build()
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(key, hashes.SHA256())

    @property
    def trust(self) -> Trust:
        return Trust((self.root,), self.lists)

    def identity(self, name: str = "north.example", days: int = 30) -> Identity:
        return Identity.create(name).bound(self.chain, self.key, days=days, at=NOW)
