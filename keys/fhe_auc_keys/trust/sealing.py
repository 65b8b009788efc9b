"""Sealing bytes to one recipient, or under the keys of several; and the private keys that unseal, and sign.

To one recipient: HPKE (RFC 9180), base mode, HKDF-SHA256, ChaCha20-Poly1305. The KEM is MLKEM768-X25519
(draft-ietf-hpke-pq-05; it is X-Wing, draft-connolly-cfrg-xwing-kem-10): who records what is sealed and gets a better
machine years later has to break ML-KEM-768 and X25519 both. Nothing sealed says of which draft it is, so
`require_hybrid` opens a text of this one. Base mode does not say who sealed; the sender's signature (Ed25519) does.

Under the secret keys of several: encrypted once under a content key, which is encrypted under each. ChaCha20-Poly1305
commits to no key: a sender can make a ciphertext that decrypts to two texts under two keys, and give one to some, the
other to others. So with the ciphertext goes a commitment to the content key, which everybody checks:

    HKDF-SHA256(content key)  ->  encryption key, 32 bytes | commitment, 32 bytes        sent: commitment | ciphertext

Two content keys with one commitment are a collision of HMAC-SHA256; so all who can unseal it read the same text. (The
generic repair of Albertini et al., "How to abuse and fix authenticated encryption without key commitment", 2022.)
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from functools import lru_cache

from cryptography.exceptions import InvalidTag, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fhe_auc_keys.errors import KeysError, TamperedError, UnfitError
from fhe_auc_keys.trust.signatures import signed_bytes

OVERHEAD = 1136
"""Bytes by which `seal` makes a text longer: ML-KEM's ciphertext (1,088), an X25519 key (32), the tag (16)."""

WRAPPED_BYTES = 48  # of a content key under another key: `wrapped`
PRIME = 2**255 - 19  # of X25519's field
_ML_KEM_BYTES = 1184
_KEY_BYTES = _COMMITMENT_BYTES = 32
_NONCE = bytes(12)  # every key encrypts one text
_HYBRID = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

# To keys of zeros, for "start": a ciphertext of ML-KEM that is implicitly rejected, X25519's base point, a text's seal.
_OF_THIS_DRAFT = bytes(1088) + b"\x09" + bytes(31) + bytes.fromhex("f1a651d88e1598f5099486f80f349bb3bba73e65")

NO_HYBRID = (
    "the installed `cryptography` cannot seal with ML-KEM-768 and X25519, and nothing is sealed to less. Its wheels "
    "for Linux, Apple silicon and Windows on x86-64 can; those for Intel Macs and Windows on Arm are missing"
)
OTHER_DRAFT = (
    "the installed `cryptography` seals by another draft of HPKE than this fhe-auc, so that nobody else could open it: "
    "install the version that fhe-auc asks for"
)


@lru_cache(maxsize=8192)  # a site verifies all parties of a session, each key in several places
def encryption_key(raw: bytes) -> MLKEM768X25519PublicKey:
    """Return 1,216 bytes, ML-KEM's first, as an encryption key; `UnfitError` where they are none to be used.

    That is another length; an ML-KEM key not reduced (FIPS 203, section 7.2); or an unfit X25519 key, as `x25519_key`.
    `KeysError` where the installed library has no ML-KEM.
    """
    try:
        ml_kem = MLKEM768PublicKey.from_public_bytes(raw[:_ML_KEM_BYTES])
    except UnsupportedAlgorithm:
        raise KeysError(NO_HYBRID) from None
    except ValueError:
        raise UnfitError("the encryption key's first 1,184 bytes are no ML-KEM-768 key") from None
    return MLKEM768X25519PublicKey(ml_kem, x25519_key(raw[_ML_KEM_BYTES:]))


@lru_cache(maxsize=8192)
def x25519_key(raw: bytes) -> X25519PublicKey:
    """Return 32 bytes as an X25519 key; raise `UnfitError` where they are none to be used.

    That is another length; a point of small order, for which everybody knows the shared secret (RFC 7748, section 6.1);
    or one not reduced, a second spelling of the same key.
    """
    if int.from_bytes(raw, "little") >= PRIME:
        raise UnfitError("the X25519 key is not 32 bytes, or not reduced")
    try:
        key = X25519PublicKey.from_public_bytes(raw)
        X25519PrivateKey.generate().exchange(key)
    except ValueError:
        raise UnfitError("the X25519 key is not 32 bytes, or of small order") from None
    return key


class PrivateKeys:
    """A role's private keys: `signing`, Ed25519, and those that unseal, ML-KEM-768's and X25519's.

    They are never printed or pickled. Raises `KeysError` where the installed library has no ML-KEM.
    """

    __slots__ = ("_hybrid", "_ml_kem", "_x25519", "signing")

    def __init__(self, signing: Ed25519PrivateKey, ml_kem: MLKEM768PrivateKey, x25519: X25519PrivateKey) -> None:
        self.signing, self._ml_kem, self._x25519 = signing, ml_kem, x25519
        self._hybrid = MLKEM768X25519PrivateKey(ml_kem, x25519)

    def __reduce__(self) -> str:
        raise TypeError("private keys are not pickled or copied; keep them in a key store")

    @classmethod
    def generate(cls, signing: Ed25519PrivateKey | None = None) -> PrivateKeys:
        """Return fresh ones, but for a key to sign with that is given."""
        require_hybrid()
        return cls(signing or Ed25519PrivateKey.generate(), MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_components(cls, signing: bytes, encryption: tuple[bytes, bytes]) -> PrivateKeys:
        """Return those of Ed25519's 32 bytes, ML-KEM's seed, 64, and X25519's 32; ValueError for other lengths."""
        require_hybrid()
        ml_kem, x25519 = encryption
        return cls(
            Ed25519PrivateKey.from_private_bytes(signing),
            MLKEM768PrivateKey.from_seed_bytes(ml_kem),
            X25519PrivateKey.from_private_bytes(x25519),
        )

    @property
    def components(self) -> tuple[bytes, tuple[bytes, bytes]]:
        """What `from_components` takes, in the clear."""
        return self.signing.private_bytes_raw(), (self._ml_kem.private_bytes_raw(), self._x25519.private_bytes_raw())

    @property
    def signing_key(self) -> bytes:
        """Ed25519 public key, 32 bytes."""
        return self.signing.public_key().public_bytes_raw()

    @property
    def encryption_key(self) -> bytes:
        """Public encryption key, 1,216 bytes."""
        return self._ml_kem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()

    def sign(self, purpose: bytes, data: bytes) -> bytes:
        """Return the Ed25519 signature, 64 bytes, of `data` for one purpose (which holds no zero byte)."""
        return self.signing.sign(signed_bytes(purpose, data))

    def unseal(self, sealed: bytes, *, info: bytes) -> bytes:
        """Return what `seal` sealed; `TamperedError` for another key, another `info` or altered bytes."""
        _settle()
        try:
            return _HYBRID.decrypt(sealed, self._hybrid, info=info)
        except (InvalidTag, ValueError):
            what = "sealed bytes are damaged, or were sealed to another key or for another purpose"
            raise TamperedError(what) from None


def seal(recipient: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """Return `plaintext` sealed to a key (`UnfitError` for none), `OVERHEAD` longer, bound to `info`."""
    require_hybrid()
    key = encryption_key(recipient)
    _settle()
    return _HYBRID.encrypt(plaintext, key, info=info)


def seal_under(
    keys: Iterable[bytes], plaintext: bytes, *, associated: bytes, content_key: bytes
) -> tuple[bytes, list[bytes]]:
    """Return `plaintext` sealed under several secret keys, 32 bytes each: once, and a part of 48 bytes for each.

    Each of these keys, and `content_key`, 32 random bytes, is for this alone. `associated` is what an opener must state
    alike. All being the same, so are the bytes.
    """
    ciphertext = sealed_once(content_key, plaintext, associated=associated)
    digest = hashlib.sha256(ciphertext).digest()
    return ciphertext, [wrapped(each, content_key, associated=digest) for each in keys]


def unseal_under(key: bytes, part: bytes, ciphertext: bytes, *, associated: bytes) -> bytes:
    """Return what `seal_under` sealed; raise `TamperedError` for another key, altered bytes or another purpose."""
    content_key = unwrapped(key, part, associated=hashlib.sha256(ciphertext).digest())
    return unsealed_once(content_key, ciphertext, associated=associated)


def wrapped(key: bytes, content_key: bytes, *, associated: bytes) -> bytes:
    """Return a content key, 32 bytes, under a key of 32 bytes that is for this alone: a part of 48 bytes."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, content_key, associated)


def unwrapped(key: bytes, part: bytes, *, associated: bytes) -> bytes:
    """Return what `wrapped` was given; raise `TamperedError` for anything else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, part, associated)
    except (InvalidTag, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed under another key") from None


def sealed_once(content_key: bytes, plaintext: bytes, *, associated: bytes) -> bytes:
    """Return `plaintext` under a content key, 32 random bytes for this alone, with a commitment to the key."""
    encryption_key, commitment = _derived(content_key)
    return commitment + ChaCha20Poly1305(encryption_key).encrypt(_NONCE, plaintext, associated)


def unsealed_once(content_key: bytes, ciphertext: bytes, *, associated: bytes) -> bytes:
    """Return what `sealed_once` sealed; raise `TamperedError` for another key, altered bytes or another purpose."""
    encryption_key, commitment = _derived(content_key)
    if not hmac.compare_digest(commitment, ciphertext[:_COMMITMENT_BYTES]):
        raise TamperedError("the text is sealed under another key than the one given to this recipient")
    try:
        return ChaCha20Poly1305(encryption_key).decrypt(_NONCE, ciphertext[_COMMITMENT_BYTES:], associated)
    except (InvalidTag, ValueError):
        raise TamperedError("sealed bytes are damaged, or were sealed for another purpose") from None


@lru_cache(maxsize=1)
def require_hybrid() -> None:
    """Seal and open once; raise `KeysError` where the installed library cannot, or seals by another draft."""
    try:
        ml_kem, x25519 = MLKEM768PrivateKey.from_seed_bytes(bytes(64)), X25519PrivateKey.from_private_bytes(bytes(32))
        to = MLKEM768X25519PublicKey(ml_kem.public_key(), x25519.public_key())
        for sealed in (_HYBRID.encrypt(b"", to, info=b"start"), _OF_THIS_DRAFT):
            PrivateKeys(Ed25519PrivateKey.generate(), ml_kem, x25519).unseal(sealed, info=b"start")
    except TamperedError:
        raise KeysError(OTHER_DRAFT) from None
    except (UnsupportedAlgorithm, KeysError, AttributeError):
        raise KeysError(NO_HYBRID) from None


def _settle() -> None:
    """Run code that ends with VZEROUPPER: OpenSSL's Poly1305 does not, and ML-KEM then takes 23 µs more (AVX-512)."""
    hashlib.sha512().digest()


def _derived(key: bytes) -> tuple[bytes, bytes]:
    """Return encryption key and commitment."""
    drawn = HKDF(hashes.SHA256(), _KEY_BYTES + _COMMITMENT_BYTES, None, b"fhe-auc group sealing 2").derive(key)
    return drawn[:_KEY_BYTES], drawn[_KEY_BYTES:]
