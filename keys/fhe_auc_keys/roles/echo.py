"""The echo: parties that are given a result tell each other which, and none reads it unless all were given the same.

Without it an aggregator that may lie could give each party another result, and a lie would have as many tries as there
are parties. To outsiders an echo tells nothing.
"""

from __future__ import annotations

import hashlib
import hmac

from fhe_auc.base.errors import DeserialisationError, VerificationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.session.manifest import Manifest

ECHO_BYTES = 32
_LABEL = b"fhe-auc echo 1\0"


class Echo:
    """The comparison of results between the parties of a session with sealed keys."""

    def of(self, result: bytes, manifest: Manifest, common_secret: bytes) -> dict[str, bytes]:
        """Return each party's echo of this result, 32 bytes, by name."""
        key = derived_key(common_secret, manifest.digest, _LABEL)
        stream = KeyStream(hmac.digest(key, hashlib.sha256(result).digest(), "sha256"))
        echoes = stream.words(len(manifest.parties), ECHO_BYTES // 8)
        return {name: echo.tobytes() for name, echo in zip(manifest.parties, echoes, strict=True)}

    def compare(self, echoes: tuple[bytes, ...], expected: dict[str, bytes], parties: tuple[str, ...]) -> None:
        """Raise `VerificationError` where one of the parties was given another result.

        Raises `DeserialisationError` for too few echoes, or too many.
        """
        if len(echoes) != len(parties):
            raise DeserialisationError(f"echoes of {len(echoes)} parties, of {len(parties)}")
        for party, echo in zip(parties, echoes, strict=True):
            if not hmac.compare_digest(echo, expected[party]):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )
