"""Who counts in a session with a helper, and whom it leaves out: by the helper's signed word alone.

The aggregator passes the word on with the result. Whom the aggregator alone calls left out raises an error, and still
reads the genuine message.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, TooFewPartiesError
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.sessions import NOT_PROVED
from fhe_auc.session.counted_parties import not_opened
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.trust.identity import Identity, has_signed

UNFIT = "its blob is not signed by it, or not sealed to the helper for this session"
WORD_BYTES = 128  # of a `Word`, at most, beside names: a party stands in it twice at most
_WORD = b"helper's word 1"


class Word(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper says, and has signed: on nobody else's word is a party left out."""

    counted: tuple[str, ...] = ()  # in the manifest's order, as are those left out; empty where nothing is opened
    unfit: tuple[str, ...] = ()  # left out, as their blobs do not open
    unproved: tuple[str, ...] = ()  # left out, as their proofs do not hold
    apart: tuple[str, ...] = ()  # sites for which nothing is opened, by `fhe_auc.session.counted_parties.too_near`
    signature: bytes = b""

    @property
    def left_out(self) -> dict[str, str]:
        """Why each is left out, by name."""
        return dict.fromkeys(self.unfit, UNFIT) | dict.fromkeys(self.unproved, NOT_PROVED)

    def signed_by(self, helper: Identity, session: bytes) -> Word:
        """Return it with a signature for the session of this digest."""
        return msgspec.structs.replace(self, signature=helper.sign(_WORD, self._about(session)))

    def check(self, key: bytes, session: bytes) -> None:
        """Raise `DeserialisationError` unless the helper whose signing key this is has said so in that session."""
        if not has_signed(key, _WORD, self._about(session), self.signature):
            raise DeserialisationError("who counts and who is left out is not signed by the session's helper")

    def check_counts(self, party: str) -> None:
        """Raise `EvaluationError` where it leaves a party out."""
        if party in self.left_out:
            raise EvaluationError(f"party {party!r} is left out: {self.left_out[party]}")

    def check_of(self, asked: tuple[str, ...], manifest: Manifest) -> None:
        """Raise `DeserialisationError` unless it can be about these parties, whose blobs the helper was given."""
        in_order = (tuple(each for each in asked if each in names) for names in (self.unfit, self.unproved))
        if (self.unfit, self.unproved) != tuple(in_order) or set(self.unfit) & set(self.unproved):
            raise DeserialisationError("the helper leaves out strangers, or somebody twice")
        left = tuple(party for party in asked if party not in self.left_out)
        opens = len(left) >= manifest.min_parties and not self.apart
        if self.counted != (left if opens else ()) or not set(self.apart) <= set(manifest.parties):
            raise DeserialisationError("the helper counts others than those whom it does not leave out")

    def unopened(self, asked: Collection[str], manifest: Manifest) -> EvaluationError | None:
        """Return why nothing is opened of those whose blobs the helper was given; None where it is."""
        if self.counted:
            return None
        if self.apart:
            return not_opened(self.apart)
        named = ", ".join(map(repr, sorted(self.left_out)[:10])) or "nobody else's"
        hold = " and their proofs hold" if self.unproved else ""
        return TooFewPartiesError(
            f"the blobs of {len(set(asked) - set(self.left_out))} parties open{hold}, at least {manifest.min_parties} "
            f"are needed; unfit: {named}"
        )

    def _about(self, session: bytes) -> bytes:
        return encode((session, msgspec.structs.replace(self, signature=b"")))


class Told(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What parties are told in the last round."""

    word: Word
    content: bytes
