"""Random numbers from a key, by ChaCha20: equal keys give equal numbers, and nobody without the key can tell them."""

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import encode

COMMON_SECRET_BYTES = 32
_NONCE = bytes(16)

UNIFORM_BITS = 52  # of a fraction: one less than a double holds, so that (n + ½)/2^52 is exact, and never 0 or 1


class KeyStream:
    """The stream of one key, 32 bytes (ValueError for others); what has been drawn is not drawn again."""

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"

    def words(self, *shape: int) -> NDArray[np.uint64]:
        """Return uniform numbers in [0, 2^64), of that shape."""
        drawn = np.empty(shape, "<u8")
        self.fill(drawn)
        return drawn

    def fill(self, into: NDArray[np.uint64]) -> None:
        """Write uniform numbers in [0, 2^64) into a contiguous array: those that `words` would have returned."""
        if into.size:
            self._encryptor.update_into(bytes(into.nbytes), into.data.cast("B"))

    def fractions(self, *shape: int) -> NDArray[np.float64]:
        """Return numbers uniform in (0, 1), of that shape: (n + ½)/2^52, n an integer in [0, 2^52)."""
        return np.asarray(((self.words(*shape) >> np.uint64(64 - UNIFORM_BITS)) + 0.5) / 2.0**UNIFORM_BITS)


def fill_rows(keys: Sequence[bytes], rows: NDArray[np.uint64]) -> None:
    """Write into each row of an array what `KeyStream.fill` writes under the key in its place."""
    nothing = bytes(rows.shape[1] * rows.itemsize)
    for key, row in zip(keys, rows.view(np.uint8), strict=True):
        Cipher(algorithms.ChaCha20(key, _NONCE), mode=None).encryptor().update_into(nothing, row)


def derived_key(secret: bytes, session: bytes, label: bytes, *purpose: str | int) -> bytes:
    """Return a key of 32 bytes for one purpose (HKDF-SHA256, RFC 5869; `session` is its salt).

    `secret` is 32 bytes that the aggregator does not know (`InputError` for another length), `session` the manifest's
    digest or the session's id, `label` that of the part that asks; no key is for two purposes.
    """
    if len(secret) != COMMON_SECRET_BYTES:
        raise InputError(f"a common secret has {COMMON_SECRET_BYTES} bytes, got {len(secret)}")
    return HKDF(hashes.SHA256(), 32, session, label + encode(purpose)).derive(secret)
