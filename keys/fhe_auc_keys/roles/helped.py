"""Sessions with a helper, as aggregator and parties play them; nothing but the common secret is made beforehand.

    1  "begin"                ->  party: what it submits, padded; and a blob for the helper, the pad's seed and a
                                  response key
    2  all blobs              ->  helper: its signed word on who counts, and the key of the sum of their pads
    3  the encrypted result   ->  helper: the sums, sealed under the response keys
    4  that word, sealed sums ->  (nothing: each party that counts unseals, checks and reads them)

Where vectors are added up there is no key, and no round 3: the aggregator sends the bare sum with the word, and each
party that counts takes the common pads off, checks and reads. What the helper does: `fhe_auc_keys.roles.helper`.

Where parties prove their counts (`fhe_auc.input_proofs`), each sends its proof beside its submission. Once all are in,
the helper is given with the blobs the key of the query and the aggregator's answers. There is no round more.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.names import HELPER, NAME_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.input_proofs.sessions import NOT_PROVED, RANDOMNESS_BYTES, InputProofs, Received, Submissions
from fhe_auc.results.evaluation import Outcome
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import octet_rows
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator, AggregatorSide
from fhe_auc.session.computation import Keys, PaddedComputation, PaddedTask, Result, Secret
from fhe_auc.session.manifest import Manifest, name_of
from fhe_auc.session.party import Party, PartySide, R, WhoCounts
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Announce, Delivery, KeyKind, Session
from fhe_auc_keys.bundles.session_keys import SEED_BYTES, DealtSession, PartySecrets
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles import helper
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, SIGNATURE_BYTES, sealed_blob, totals_of
from fhe_auc_keys.roles.helper import Word
from fhe_auc_keys.trust.sealing import OVERHEAD, WRAPPED_BYTES, PrivateKeys, unseal_under


class HelpedSecrets(SecretStruct, frozen=True):
    """What a party starts from, as bytes: for `fhe_auc.session.protocol.Protocol.party`."""

    keys: tuple[bytes, tuple[bytes, bytes]]  # private, `PrivateKeys.components`
    helper_signing_key: bytes
    helper_encryption_key: bytes
    common_secret: bytes  # 32 bytes that the parties have in common


class HelpedSubmission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party sends: padded parts, a blob for the helper, and a proof where the session has any."""

    parts: tuple[bytes, ...]
    blob: bytes
    signature: bytes  # of it, and of what the proof's joint randomness comes from
    proof: bytes = b""


class Told(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What parties are told in the last round."""

    word: Word
    content: bytes  # a `Response`, or a `Result` where there is no key


class HelpedAggregator(AggregatorSide, Generic[Keys, Secret]):
    """Keeps submissions until the helper has said whose blobs unseal, and adds these up, under the helper's key."""

    def __init__(self, manifest: Manifest, computation: PaddedComputation[Keys, Secret]) -> None:
        self.rounds = helper.rounds(computation)
        self.computation, self._manifest, self._limit = computation, manifest, computation.payload_limit
        self.submissions: dict[str, HelpedSubmission] = {}
        self.word = Word()
        self.keys: Keys | None = None  # what is computed under; there is nothing where too few count
        self._asked = manifest.parties  # whose blobs the helper is given
        self._response = b""  # the helper's, encoded

    def limit(self, number: int) -> int:
        """Return the largest payload of an answer: it depends on who answers."""
        if number == helper.PAD_KEY_ROUND:
            return self.computation.pad_key_limit + 2 * NAME_BYTES * len(self._manifest.parties) + helper.WORD_BYTES
        return _response_limit(self.computation) if number == helper.DECRYPT else self._limit

    def accept(self, number: int, party: str, payload: bytes) -> None:
        """Keep a submission, or what the helper has answered."""
        if number == 1:
            submission = decode(payload, HelpedSubmission, "submission")
            lengths = OVERHEAD + helper.secret_bytes(self.computation), SIGNATURE_BYTES
            if (len(submission.blob), len(submission.signature)) != lengths:
                raise DeserialisationError("a submission whose blob, or its signature, is of another length")
            self.computation.running_sum().add(submission.parts)  # raises where they cannot be added
            proofs = self.computation.proofs
            if (proofs is None) != (not submission.proof):
                raise DeserialisationError("a submission without a proof, or with one where the session has none")
            if proofs is not None and not self._received(proofs, party, submission).whole.all():
                raise DeserialisationError("its proof is none, or not about the numbers that it has submitted")
            self.submissions[party] = submission
        elif number == helper.PAD_KEY_ROUND:
            answer = decode(payload, helper.PadKeyOf, "pad key")
            answer.word.check_of(self._asked, self._manifest)
            if answer.word.counted:
                try:
                    self.keys = self.computation.keys(answer.context, answer.pad_key)
                except InputError as error:  # of another session
                    raise DeserialisationError(str(error)) from None
            self.word = answer.word
        else:
            response = decode(payload, helper.Response, "response")
            if [len(part) for part in response.parts] != [WRAPPED_BYTES] * len(self.word.counted):
                raise DeserialisationError("the helper's response is not one for all parties that count")
            self._response = payload

    def counts(self, number: int, parties: tuple[str, ...]) -> tuple[str, ...]:
        """Return those whom the helper does not leave out."""
        if number == 1:
            self._asked = parties
        self.refusals = self.word.left_out
        return tuple([party for party in parties if party not in self.refusals])

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        """Return the blobs, the result, or what the helper has decrypted."""
        if number == 1:
            return encode(self._blobs({party: self.submissions[party] for party in counted}, keep))
        error = self.word.why_no_pad_key(self._asked, self._manifest)
        if error is not None or self.keys is None:
            raise error or EvaluationError("the helper has not answered")
        if number == helper.DECRYPT:
            return encode(Told(self.word, self._response))
        total = self.computation.running_sum()
        for party in counted:
            total.add(self.submissions[party].parts)
        result = encode(Result(counted, self.computation.aggregate(self.keys, total.totals)))
        return encode(Told(self.word, result)) if self.computation.parameters is None else result

    def _blobs(self, sent: Mapping[str, HelpedSubmission], keep: Callable[[bytes], bytes]) -> helper.Blobs:
        """Return what the helper is given; all submissions are in, so that the query may become known to it.

        The query's key hangs on all of them, so that there is none before; its secret is kept with their list.
        """
        blobs = [helper.SignedBlob(party, own.blob, own.signature) for party, own in sent.items()]
        proofs = self.computation.proofs
        if proofs is None:
            return helper.Blobs(tuple(blobs))
        fixed = Submissions(len(self._asked))
        for party, own in sent.items():
            fixed.add(hashlib.sha256(encode((party, own))).digest())
        key, told = fixed.query_key(keep(fixed.digest), self._manifest.digest), []
        for blob, (party, own) in zip(blobs, sent.items(), strict=True):
            digits = self.computation.unpacked(0, own.parts[0])[:, : proofs.digits]
            index = [self._manifest.parties.index(party)]
            answers = proofs.answers(key, index, digits, self._received(proofs, party, own)).tobytes()
            told.append(msgspec.structs.replace(blob, randomness=own.proof[:RANDOMNESS_BYTES], answers=answers))
        return helper.Blobs(tuple(told), key)

    def _received(self, proofs: InputProofs, party: str, sent: HelpedSubmission) -> Received:
        padded, proof = octet_rows([sent.parts[0]], len(sent.parts[0])), octet_rows([sent.proof], proofs.proof_bytes)
        return proofs.received([self._manifest.parties.index(party)], padded, proof)


class HelpedParty(PartySide[R], Generic[Keys, Secret, R]):
    """Pads and submits in the first round, and reads the result in the last; it has no key of the session."""

    def __init__(
        self, manifest: Manifest, computation: PaddedComputation[Keys, Secret], own: HelpedSecrets, task: PaddedTask[R]
    ) -> None:
        self.rounds = helper.rounds(computation)
        self._manifest, self._computation, self._task, self._own = manifest, computation, task, own
        self._digest, self._private = manifest.digest, PrivateKeys.from_components(*own.keys)
        self._response_key = b""  # under which the helper seals the sums
        limit = computation.payload_limit if computation.parameters is None else _response_limit(computation)
        self.download_limit = limit + (2 * NAME_BYTES + 64) * len(manifest.parties) + helper.WORD_BYTES

    def kept(self) -> bytes:
        """Return the response key, if there is any: there is none before the submission, nor where there is no key."""
        return self._response_key

    def restore(self, kept: bytes) -> None:
        """Take it back."""
        if len(kept) not in (0, 0 if self._computation.parameters is None else RESPONSE_KEY_BYTES):
            raise DeserialisationError("the state is that of another kind of party")
        self._response_key = kept

    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return the submission."""
        seed, about = secrets.token_bytes(SEED_BYTES), helper.about_of(self._digest, self._task.party)
        index, values = self._manifest.parties.index(self._task.party), self._task.encode(self._own.common_secret)
        parts, proof = self._computation.under_pad(index, seed, values)
        self._response_key = secrets.token_bytes(helper.secret_bytes(self._computation) - SEED_BYTES)
        to, secret, randomness = self._own.helper_encryption_key, seed + self._response_key, proof[:RANDOMNESS_BYTES]
        blob, signature = sealed_blob(to, self._private.signing, secret, about=about, randomness=randomness)
        return encode(HelpedSubmission(parts, blob, signature, proof))

    def left_out(self, payload: bytes) -> str:
        """Return why the helper leaves this party out, if it does."""
        return self._told(payload).word.left_out.get(self._task.party, "")

    def check(self, payload: bytes, who: WhoCounts) -> None:
        """Raise `DeserialisationError` unless the helper counts whom the aggregator lists, this party among them."""
        who.check(self._told(payload).word.counted)

    def read(self, payload: bytes, who: WhoCounts) -> R:
        """Return what the sums say."""
        told = self._told(payload)
        word = told.word
        if self._computation.parameters is None:
            result = decode(told.content, Result, "result")
            if result.counted != word.counted:
                raise DeserialisationError("the sum is of other parties than those that the helper counts")
            totals = self._computation.decrypt(self._computation.secret(b""), result.content)
        else:
            totals = self._unsealed(word, decode(told.content, helper.Response, "response"))
        found = self._task.read_result(totals, word.counted, self._own.common_secret)
        named = (f"{', '.join(word.unproved)} not counted: {NOT_PROVED}",) if word.unproved else ()
        return replace(found, unproved_parties=word.unproved, warnings=(*found.warnings, *named))

    def _told(self, payload: bytes) -> Told:
        """Return what the last message says; raise `DeserialisationError` where that is not the helper's word."""
        told = decode(payload, Told, "result")
        told.word.check(self._own.helper_signing_key, self._digest)
        return told

    def _unsealed(self, word: Word, response: helper.Response) -> list[Residues]:
        """Return the sums that the helper has sealed to this party; its response key is used then."""
        associated = helper.response_of(self._digest, word.counted, word.unproved)
        part = dict(zip(word.counted, response.parts, strict=False)).get(self._task.party, b"")
        try:
            sums = unseal_under(self._response_key, part, response.sealed, associated=associated)
        except TamperedError as error:
            who = self._task.party
            raise DeserialisationError(f"the sums of {HELPER} are not sealed to {who!r}: {error}") from None
        totals = totals_of(decode(sums, tuple[bytes, ...], "sums"))
        self._response_key = b""
        return totals


@dataclass(frozen=True)
class HelpedSession(DealtSession):
    """A session whose keys its helper will make; who convenes it has drawn the common secret."""

    def delivery(self) -> Delivery:
        """Return what all roles start from, with keys of their own: in one process nobody has to know them."""
        own = {name: PrivateKeys.generate() for name in self.manifest.parties}
        trustee, secret = PrivateKeys.generate(), self.common.common_secret
        parties = {
            name: encode(HelpedSecrets(keys.components, trustee.signing_key, trustee.encryption_key, secret))
            for name, keys in own.items()
        }
        signing_keys = {name: keys.signing_key for name, keys in own.items()}
        material = helper.HelperMaterial(trustee.components, trustee.signing_key, signing_keys)
        return Delivery(b"", parties, helper=encode(material))


@dataclass(frozen=True)
class HelperKeys(KeyKind[R], Generic[Keys, Secret, R]):
    """A helper has the key, if there is any, in place of the parties, which pad."""

    computation: Callable[[Manifest], PaddedComputation[Keys, Secret]]
    task: Callable[[Manifest, PartyData], PaddedTask[R]]

    def prepare(self, plan: Plan, announce: Announce) -> Session:
        """Name the session, and draw the common secret; a fleet's has none."""
        common_secret = secrets.token_bytes(COMMON_SECRET_BYTES)
        manifest = announce(b"", name_of(common_secret))
        if manifest.fleet is not None:
            return Session(manifest)
        return HelpedSession(manifest, PartySecrets(b"", common_secret))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator, which starts from nothing."""
        return Aggregator(manifest, HelpedAggregator(manifest, self.computation(manifest)))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party; `material` is `HelpedSecrets`."""
        task, own = self.task(manifest, data), helped_secrets(material, manifest)
        return Party(manifest, task.party, HelpedParty(manifest, self.computation(manifest), own, task))

    def helper(self, manifest: Manifest, material: bytes) -> Party[Outcome]:
        """Return the helper; `material` is `HelperMaterial`."""
        own = decode(material, helper.HelperMaterial, "material")
        return Party(manifest, HELPER, helper.Helper(manifest, self.computation(manifest), own))


def helped_secrets(material: bytes, manifest: Manifest) -> HelpedSecrets:
    """Return what a party's material holds; `DeserialisationError` for no such, `InputError` for another session's."""
    own = decode(material, HelpedSecrets, "material")
    manifest.check_common_secret(own.common_secret)
    return own


def _response_limit(computation: PaddedComputation[Keys, Secret]) -> int:
    """Return more bytes than a `Response` has."""
    return computation.plan.download_bytes + 1024
