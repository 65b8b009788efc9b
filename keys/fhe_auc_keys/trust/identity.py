"""A party's own identity: its private keys, and the credential that others verify."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat, SecretStruct
from fhe_auc_keys.errors import UnfitCertificateError, unreadable
from fhe_auc_keys.trust.certificates import certified_names, credential
from fhe_auc_keys.trust.existing_certificate import CertifiedKey, bind_keys
from fhe_auc_keys.trust.public_keys import MALFORMED, certified_keys, check_name, encryption_key_extension, subject_of
from fhe_auc_keys.trust.sealing import PrivateKeys


class _StoredIdentity(SecretStruct, frozen=True):
    name: str
    signing: bytes
    encryption: tuple[bytes, bytes]  # these two: `PrivateKeys.components`
    credential: bytes


_FORMAT = KeptFormat(b"fheiden", _StoredIdentity, "identity")


@dataclass(slots=True, eq=False, repr=False)
class Identity:
    """A party's private keys, with its name; never printed or pickled.

    `credential` is what others verify; empty until certified. `UnfitCertificateError` where no party may have the name.
    """

    name: str
    keys: PrivateKeys
    credential: bytes = b""

    def __post_init__(self) -> None:
        check_name(self.name)

    def __repr__(self) -> str:
        return f"<Identity {self.name!r} ({'certified' if self.credential else 'not certified'})>"

    def __reduce__(self) -> str:
        raise TypeError("private keys are not pickled or copied; keep them in a key store")

    @classmethod
    def create(cls, name: str) -> Identity:
        """Return a fresh identity, not yet certified; `UnfitCertificateError` where no party may have that name."""
        return cls(name, PrivateKeys.generate())

    @property
    def signing_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""
        return self.keys.signing_key

    @property
    def encryption_key(self) -> bytes:
        """Public encryption key, 1,216 bytes."""
        return self.keys.encryption_key

    def request(self) -> bytes:
        """Return a certificate request (X.509 CSR, PEM), signed by the signing key; it covers the encryption key."""
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject_of(self.name))
        builder = builder.add_extension(encryption_key_extension(self.encryption_key), critical=False)
        return builder.sign(self.keys.signing, None).public_bytes(Encoding.PEM)

    def certified(self, certificate: bytes) -> Identity:
        """Return this identity with its certificate (PEM); `UnfitCertificateError` for another name or other keys."""
        try:
            issued = x509.load_pem_x509_certificate(certificate)
        except MALFORMED:
            raise UnfitCertificateError("the certificate is not PEM") from None
        named = certified_keys(issued)
        if named != (self.name, self.signing_key, self.encryption_key):
            raise UnfitCertificateError(f"the certificate is for {named[0]!r} or other keys, not for {self.name!r}")
        # Written anew: the file may hold the authority's certificate as well, which is no part of a credential.
        return replace(self, credential=credential(issued.public_bytes(Encoding.PEM)))

    def bound(self, chain: bytes, certified_key: CertifiedKey, *, days: int, at: datetime) -> Identity:
        """Return this identity, vouched for by a certificate that the site already has, for so many days.

        `chain` is PEM, the site's first. `UnfitCertificateError` where it is not for this name, or not of this key.
        """
        try:
            leaf = x509.load_pem_x509_certificates(chain)[0]
            names = certified_names(leaf)
        except MALFORMED:
            raise UnfitCertificateError("the certificate chain is not PEM, or malformed") from None
        if self.name not in names:
            raise UnfitCertificateError(f"the site's certificate is not for the name {self.name!r}")
        binding = bind_keys(self.name, self.keys.signing, self.encryption_key, leaf, certified_key, days=days, at=at)
        return replace(self, credential=credential(chain, binding))

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """Return the Ed25519 signature, 64 bytes, of `data` for one purpose (which holds no zero byte)."""
        return self.keys.sign(purpose, data)

    def unseal(self, sealed: bytes, *, info: bytes) -> bytes:
        """Return what `fhe_auc_keys.trust.sealing.seal` sealed to this identity; `TamperedError` otherwise."""
        return self.keys.unseal(sealed, info=info)

    def to_bytes(self) -> bytes:
        """Serialise, private keys in the clear: for `fhe_auc_keys.store.key_store` only."""
        return _FORMAT.frame(_StoredIdentity(self.name, *self.keys.components, self.credential))

    @classmethod
    def from_bytes(cls, data: bytes) -> Identity:
        """Read what `to_bytes` wrote; `DamagedFileError` for anything else, `StoreError` for another version."""
        try:
            stored = _FORMAT.unframe(data)
            keys = PrivateKeys.from_components(stored.signing, stored.encryption)
            return cls(stored.name, keys, stored.credential)
        except (DeserialisationError, UnfitCertificateError, ValueError) as error:
            raise unreadable(error, "not a stored identity, or damaged") from None
