"""When servers may look at proofs: once all submissions are fixed. Nobody can know the query before.

    query's key = HKDF(secret; the manifest's digest, the digest of ALL submissions)

Who knew the query could make a false proof that passes it. So whatever carries a session, `Submissions` is the only
way to a `QueryKey`, and has none while a submission is missing. The secret is the aggregator's; between machines it is
kept with the digest before an answer is worked out, so that no proof is asked at two points: that would tell counts.
"""

import hashlib
from typing import NewType

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.keystream import derived_key
from fhe_auc.base.serialise import encode

QueryKey = NewType("QueryKey", bytes)
"""32 bytes, of `Submissions.query_key`; the helper's copy comes from the aggregator."""

_QUERY = b"fhe-auc input proofs: query's key 1\0"


class Submissions:
    """All submissions that are asked about, `number` of them or of groups of them, by their digests, in order."""

    def __init__(self, number: int) -> None:
        self._missing, self._digest = number, hashlib.sha256(encode(number))

    def add(self, digest: bytes) -> None:
        """Fix the next one; raise `EvaluationError` where all are fixed."""
        if not self._missing:
            raise EvaluationError("all submissions are fixed: there is no further one")
        self._missing -= 1
        self._digest.update(encode(digest))

    @property
    def digest(self) -> bytes:
        """That of all, 32 bytes; `EvaluationError` while one is missing."""
        if self._missing:
            raise EvaluationError(f"{self._missing} submissions are not fixed: nothing can be asked before all are")
        return self._digest.digest()

    def query_key(self, secret: bytes, manifest: bytes) -> QueryKey:
        """Return the key of the query, by 32 secret bytes and the manifest's digest; errors as `digest`."""
        return QueryKey(derived_key(secret, manifest, _QUERY, self.digest.hex()))
