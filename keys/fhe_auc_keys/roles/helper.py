"""A session's helper: it has the key, or where there is none the seeds of the pads; parties speak once and hold none.

    2  all blobs              ->  makes the keys; its word on who counts, and the key of the sum of their pads
    3  the encrypted result   ->  decrypts it; the sums, sealed under the response keys

A helper is trusted not to collude with the aggregator: together they read every submission. It learns the sums that
parties learn. It never sees a submission, nor a digest of one that says anything: as it knows the pads, it could try
counts against it. Where vectors are added up it has no key, takes off the pads in round 2, and sees neither a
submission nor the sum; there is no round 3. The common pads, which it does not know, hide the sum from the aggregator
and the helper together: they need a party besides. The rounds of the others: `fhe_auc_keys.roles.helped`.

Parties sign their blobs, as HPKE does not say who has sealed one. Otherwise an aggregator could put one party among
many that it has made up. Where parties prove their counts (`fhe_auc.input_proofs`), the helper is given with the blobs
the key of the query, the aggregator's secret until then, and its answers. It takes off the pads of those whose proofs
hold, and names the others. It makes no pad key for a list that is too near to an earlier one (`session.party`).

Who counts, and whom it leaves out, is by its signed word alone. The aggregator passes the word on with the result. Whom
the aggregator alone calls left out raises an error, and still reads the genuine message.

Each answer of the helper is for one question in a session (`fhe_auc.machines.answers.answer`): two pad keys, or two
results decrypted, would tell what lies between.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, NamedTuple

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, TooFewPartiesError
from fhe_auc.base.names import NAME_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.input_proofs.sessions import KEY_BYTES, NOT_PROVED, RANDOMNESS_BYTES
from fhe_auc.results.evaluation import Outcome
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.computation import Keys, PaddedComputation, Result, Secret
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Rounds
from fhe_auc.session.party import PartySide, WhoCounts, too_near_for_a_result
from fhe_auc_keys.bundles.session_keys import GENERATE, SEED_BYTES
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, SIGNATURE_BYTES, bytes_of, is_signed, secret_in
from fhe_auc_keys.trust.sealing import OVERHEAD, PrivateKeys, seal_under
from fhe_auc_keys.trust.signatures import has_signed

PAD_KEY_ROUND = 2  # the round in which the helper makes the key of the sum of the pads
DECRYPT = 3  # and the one in which it decrypts the result
UNFIT = "its blob is not signed by it, or not sealed to the helper for this session"
WORD_BYTES = 128  # of a `Word`, at most, beside names: a party stands in it twice at most
_WORD = b"helper's word 1"
_RESPONSE = b"helper's response 1"


class Word(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the helper says, and has signed: on nobody else's word is a party left out."""

    counted: tuple[str, ...] = ()  # in the manifest's order, as are those left out; empty where there is no pad key
    unfit: tuple[str, ...] = ()  # left out, as their blobs do not unseal
    unproved: tuple[str, ...] = ()  # left out, as their proofs do not hold
    apart: tuple[str, ...] = ()  # sites for which there is none, by `fhe_auc.session.party.too_near`
    signature: bytes = b""

    @property
    def left_out(self) -> dict[str, str]:
        """Why each is left out, by name."""
        return dict.fromkeys(self.unfit, UNFIT) | dict.fromkeys(self.unproved, NOT_PROVED)

    def signed_by(self, helper: PrivateKeys, session: bytes) -> Word:
        """Return it with a signature for the session of this digest."""
        return msgspec.structs.replace(self, signature=helper.sign(_WORD, self._about(session)))

    def check(self, key: bytes, session: bytes) -> None:
        """Raise `DeserialisationError` unless the helper whose signing key this is has said so in that session."""
        if not has_signed(key, _WORD, self._about(session), self.signature):
            raise DeserialisationError("who counts and who is left out is not signed by the session's helper")

    def check_of(self, asked: tuple[str, ...], manifest: Manifest) -> None:
        """Raise `DeserialisationError` unless it can be about these parties, whose blobs the helper was given."""
        in_order = [tuple([name for name in asked if name in names]) for names in (self.unfit, self.unproved)]
        if [self.unfit, self.unproved] != in_order or set(self.unfit) & set(self.unproved):
            raise DeserialisationError("the helper leaves out strangers, or somebody twice")
        left = tuple([party for party in asked if party not in self.left_out])
        enough = len(left) >= manifest.min_parties and not self.apart
        if self.counted != (left if enough else ()) or not set(self.apart) <= set(manifest.parties):
            raise DeserialisationError("the helper counts others than those whom it does not leave out")

    def why_no_pad_key(self, asked: Collection[str], manifest: Manifest) -> EvaluationError | None:
        """Return why there is no pad key of those whose blobs the helper was given; None where there is."""
        if self.counted:
            return None
        if self.apart:
            return too_near_for_a_result(self.apart)
        named = ", ".join(map(repr, sorted(self.left_out)[:10])) or "nobody else's"
        hold = " and their proofs hold" if self.unproved else ""
        return TooFewPartiesError(
            f"the blobs of {len(set(asked) - set(self.left_out))} parties open{hold}, at least {manifest.min_parties} "
            f"are needed; unfit: {named}"
        )

    def _about(self, session: bytes) -> bytes:
        return encode((session, msgspec.structs.replace(self, signature=b"")))


class SignedBlob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party has sealed to the helper, as the aggregator passes it on."""

    party: str
    blob: bytes
    signature: bytes
    randomness: bytes = b""  # the front of its proof, which the party has signed
    answers: bytes = b""  # the aggregator's, about the proof


class Blobs(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the aggregator asks the helper to take the pads off of."""

    signed: tuple[SignedBlob, ...]
    key: bytes = b""  # of the query, where parties prove their counts

    def __repr__(self) -> str:
        return f"<blobs of {len(self.signed)} parties, and the key of the query (secret)>"


class PadKeyOf(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The helper's first answer: whose pads it takes off, and what does."""

    word: Word
    context: bytes  # public; empty where vectors are added up
    pad_key: bytes


class Response(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The sums as the helper returns them."""

    sealed: bytes
    parts: tuple[bytes, ...]  # for each party that counts, in the manifest's order


class HelperMaterial(SecretStruct, frozen=True):
    """What a helper starts from, as bytes: for `fhe_auc.session.protocol.Protocol.helper`."""

    keys: tuple[bytes, tuple[bytes, bytes]]  # private, `PrivateKeys.components`
    signing_key: bytes  # of the session's helper
    parties: dict[str, bytes]  # signing keys


class _KeptKeys(SecretStruct, frozen=True):
    context: bytes = b""  # secret
    response_keys: tuple[tuple[str, bytes], ...] = ()  # of those that count, in the manifest's order
    unproved: tuple[str, ...] = ()


class Helper(PartySide[Outcome], Generic[Keys, Secret]):
    """Makes the keys, takes the pads off the sum, and decrypts one result; it has no rows.

    Raises `InputError` where the material is not that of the session's helper.
    """

    def __init__(
        self, manifest: Manifest, computation: PaddedComputation[Keys, Secret], material: HelperMaterial
    ) -> None:
        self._private = PrivateKeys.from_components(*material.keys)
        if material.signing_key != self._private.signing_key:
            raise InputError("these keys are not those of the session's helper")
        self.rounds = rounds(computation)
        self._manifest, self._digest, self._computation = manifest, manifest.digest, computation
        self._signing_keys = material.parties
        self._secret_bytes = secret_bytes(computation)
        most, proofs = len(manifest.parties), computation.proofs
        blob = NAME_BYTES + OVERHEAD + self._secret_bytes + 8 + SIGNATURE_BYTES + 16
        if proofs is not None:
            blob += proofs.answer_bytes + RANDOMNESS_BYTES + 16
        self.download_limit = max(blob * most + KEY_BYTES, computation.payload_limit + NAME_BYTES * most)
        self._kept = _KeptKeys()

    def kept(self) -> bytes:
        """Return the secret key and the response keys."""
        return encode(self._kept)

    def restore(self, kept: bytes) -> None:
        """Take them back."""
        self._kept = decode(kept, _KeptKeys, "helper's state")

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return the key of the sum of the pads, or the sums that a result holds."""
        return self._pad_key(payload, who) if number == PAD_KEY_ROUND else self._decrypted(payload)

    def read(self, payload: bytes, who: WhoCounts) -> Outcome:
        """Raise `EvaluationError`: a helper is given no result."""
        raise EvaluationError("a helper has no result")

    def _pad_key(self, payload: bytes, who: WhoCounts) -> bytes:
        counted, word = self._secrets_in(payload, who)
        if not counted:
            return encode(PadKeyOf(word, b"", b""))
        index, computation = self._manifest.parties.index, self._computation
        pads = computation.sum_of_pads([(index(party), text[:SEED_BYTES]) for party, text in counted.items()])
        response_keys = tuple([(party, text[SEED_BYTES:]) for party, text in counted.items()])
        made = new_pad_key(computation, pads)
        self._kept = _KeptKeys(made.context, response_keys, word.unproved)
        return encode(PadKeyOf(word, made.public, made.pad_key))

    def _decrypted(self, payload: bytes) -> bytes:
        result, keys = decode(payload, Result, "result"), dict(self._kept.response_keys)
        if result.counted != tuple(keys):
            raise EvaluationError("the result is not of the parties whose pads were taken off")
        totals = self._computation.decrypt(self._computation.secret(self._kept.context), result.content)
        about = response_of(self._digest, tuple(keys), self._kept.unproved)
        self._kept = _KeptKeys()
        text = encode(bytes_of(totals))
        content_key = secrets.token_bytes(RESPONSE_KEY_BYTES)
        sealed, parts = seal_under(keys.values(), text, associated=about, content_key=content_key)
        return encode(Response(sealed, tuple(parts)))

    def secret_in(self, signed: SignedBlob) -> bytes | None:
        """Return what a party has sealed; None where it has not signed its blob, or that does not unseal."""
        about, key = about_of(self._digest, signed.party), self._signing_keys.get(signed.party, b"")
        if not is_signed(key, signed.blob, signed.signature, about=about, randomness=signed.randomness):
            return None
        secret = secret_in(signed.blob, self._private, about=about)
        return secret if secret is not None and len(secret) == self._secret_bytes else None

    def _secrets_in(self, payload: bytes, who: WhoCounts) -> tuple[Mapping[str, bytes], Word]:
        """Return the secrets of the parties that count, by name in the manifest's order, and what the helper says.

        They count if their blobs unseal and their proofs, if any, hold. Where too few do, or their list is too near to
        an earlier one, there are no secrets, and the helper's part has ended: there is no pad key, and the aggregator
        is told whom to blame. Raises `DeserialisationError` for another list.
        """
        asked, manifest = decode(payload, Blobs, "list of blobs"), self._manifest
        blobs = {signed.party: signed for signed in asked.signed}
        if len(blobs) != len(asked.signed) or [*blobs] != [party for party in manifest.parties if party in blobs]:
            raise DeserialisationError("the blobs are not of parties of the session, each once and in its order")
        fit = {name: secret for name, signed in blobs.items() if (secret := self.secret_in(signed)) is not None}
        unfit = tuple([party for party in blobs if party not in fit])
        unproved = tuple([name for name, secret in fit.items() if not self._proved(secret, blobs[name], asked.key)])
        counted = {name: secret for name, secret in fit.items() if name not in unproved}
        enough = len(counted) >= manifest.min_parties
        apart = who.too_near(counted) if enough else ()
        counted = counted if enough and not apart else {}
        word = Word(tuple(counted), unfit, unproved, apart).signed_by(self._private, self._digest)
        self.failure = word.why_no_pad_key(blobs, manifest)
        who.unpadded = who.listed = word.counted
        who.unproved = unproved
        return counted, word

    def _proved(self, secret: bytes, signed: SignedBlob, key: bytes) -> bool:
        """Return whether a party's proof holds, where the session has any; `key` is the query's."""
        if (proofs := self._computation.proofs) is None:
            return True
        index, seed = [self._manifest.parties.index(signed.party)], secret[:SEED_BYTES]
        randomness = octet_rows([signed.randomness], RANDOMNESS_BYTES)
        answers, (pad, *_) = octet_rows([signed.answers], proofs.answer_bytes), self._computation.pads(index, [seed])
        return bool(proofs.held(key, index, [seed], pad, randomness, answers)[0])


class NewPadKey(NamedTuple):
    """What takes the sum of some pads off, and the keys under which it is."""

    context: bytes  # secret; the helper's, for the result; empty where vectors are added up, as is the next
    public: bytes
    pad_key: bytes

    def __repr__(self) -> str:
        return "<a pad key, and the secret key (secret)>"


def new_pad_key(computation: PaddedComputation[Keys, Secret], pads: Sequence[Words]) -> NewPadKey:
    """Return new keys, and the pad key for a sum of pads: a session has one only."""
    public, context = b"", b""
    if computation.parameters is not None:
        pair = GENERATE[computation.parameters.scheme](computation.parameters)
        public, context = pair.public.to_bytes(), pair.secret.to_bytes()
    return NewPadKey(context, public, computation.pad_key(computation.secret(context), pads))


def rounds(computation: PaddedComputation[Keys, Secret]) -> Rounds:
    """Return the rounds of a session with a helper: one fewer where there is nothing to decrypt."""
    last = PAD_KEY_ROUND + 1 if computation.parameters is None else DECRYPT + 1
    return Rounds(last, of_helper=range(PAD_KEY_ROUND, last))


def secret_bytes(computation: PaddedComputation[Keys, Secret]) -> int:
    """Return how many bytes a blob holds: first the seed of a pad, then, where there is a key, a response key."""
    return SEED_BYTES + (0 if computation.parameters is None else RESPONSE_KEY_BYTES)


def response_of(session: bytes, counted: tuple[str, ...], unproved: tuple[str, ...]) -> bytes:
    """Return what the sums are sealed for."""
    return encode((_RESPONSE, session, counted, unproved))


def about_of(session: bytes, party: str) -> bytes:
    """Return what a party's blob is about."""
    return encode((session, party))
