"""Seals on the aggregator's answers about proofs: who sees them in the folder of blobs reads no query's point.

Each file has a key of its own, and each row its place in it as nonce. A key is drawn from the query's, and so hangs on
all submissions: a place has one plaintext, also where a list is gone on with after a crash.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import derived_key
from fhe_auc.base.serialise import encode

_LABEL = b"fleet's answers 1"
_NONCE_BYTES = 12


class AnswersSeal:
    """Those in one file of a session, by the manifest's digest, under the query's key, 32 bytes (else `InputError`)."""

    def __init__(self, query: bytes, session: bytes, file: str) -> None:
        self._session, self._file = session, file
        self._cipher = ChaCha20Poly1305(derived_key(query, session, _LABEL, file))

    def seal(self, row: int, member: int, answers: bytes) -> bytes:
        """Return the answers about a member, in this row of the file."""
        return self._cipher.encrypt(row.to_bytes(_NONCE_BYTES, "big"), answers, encode((self._session, member)))

    def unseal(self, row: int, member: int, sealed: bytes) -> bytes:
        """Return what `seal` was given; raise `DeserialisationError` for anything else."""
        try:
            return self._cipher.decrypt(row.to_bytes(_NONCE_BYTES, "big"), sealed, encode((self._session, member)))
        except InvalidTag:
            raise DeserialisationError(
                f"{self._file!r}, row {row}: the answers about member {member} are not sealed under the list's key"
            ) from None
