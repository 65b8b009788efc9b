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
    """That parties of a session with sealed keys compare the result that each was given."""

    def of(self, given: bytes, manifest: Manifest, common_secret: bytes) -> dict[str, bytes]:
        """Return what each party tells the others, by name, if all were given `given`."""
        key = derived_key(common_secret, manifest.digest, _LABEL)
        stream = KeyStream(hmac.digest(key, hashlib.sha256(given).digest(), "sha256"))
        told = stream.words(len(manifest.parties), ECHO_BYTES // 8).tobytes()
        starts = range(0, len(told), ECHO_BYTES)
        return {name: told[at : at + ECHO_BYTES] for name, at in zip(manifest.parties, starts, strict=True)}

    def compare(self, told: tuple[bytes, ...], expected: dict[str, bytes], parties: tuple[str, ...]) -> None:
        """Raise `VerificationError` where one of these was given another result, `DeserialisationError` for too few."""
        if len(told) != len(parties):
            raise DeserialisationError(f"echoes of {len(told)} parties, of {len(parties)}")
        for party, theirs in zip(parties, told, strict=True):
            if not hmac.compare_digest(theirs, expected[party]):
                raise VerificationError(
                    f"party {party!r} was given another result than this one, or its word was changed on the way: "
                    "no number is given",
                    check="echo",
                )
