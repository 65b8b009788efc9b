"""Sessions with a helper, whatever it opens: parties pad, and seal their pads' seeds to it in blobs.

    1  "begin"      ->  party: what it submits, padded; and a blob for the helper
    2  all blobs    ->  helper: the opening of the sum of the pads of those whose blobs open

HPKE does not say who has sealed a blob, so parties sign theirs. Otherwise an aggregator could put one party among many
that it has made up. What follows: `fhe_auc_keys.roles.helper_roles`.

Where parties prove their counts (`fhe_auc.input_proofs`), each sends its proof beside its submission. Once all are in,
the helper is given with the blobs the key of the query, the aggregator's secret until then, and its answers. It opens
the pads of those whose proofs hold, and names the others. There is no round more.

The helper signs who counts and whom it leaves out (`fhe_auc_keys.roles.helper_word`). It does not open a list that is
too near to an earlier one (`fhe_auc.session.counted_parties`), and says so in the same word.
"""

from __future__ import annotations

import hashlib
import secrets
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError, MessageError
from fhe_auc.base.keystream import COMMON_SECRET_BYTES
from fhe_auc.base.names import HELPER, NAME_BYTES
from fhe_auc.base.serialise import SecretStruct, decode, encode
from fhe_auc.input_proofs.sessions import (
    KEY_BYTES,
    PART_BYTES,
    InputProof,
    InputProofs,
    Opened,
    QueryKey,
    Submissions,
    Submitted,
)
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.computation import Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party, R
from fhe_auc.session.protocol import Delivery, Session
from fhe_auc_keys.bundles.roster import Member, Roster
from fhe_auc_keys.bundles.session_keys import SEED_BYTES, DealtSession, PartySecrets, check_common_secret, name_of
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.roles.helper_word import WORD_BYTES, Told, Word
from fhe_auc_keys.roles.key_mode import KeyedParty, KeyMode, read_material, reading_material
from fhe_auc_keys.roles.local_consortium import Consortium
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity, has_signed, signed_bytes

OPEN = 2  # the round in which the helper opens the sum of the pads
_BLOB = b"helper's blob 1"
_SIGNATURE_BYTES = 64


class HelpedSecrets(SecretStruct, frozen=True):
    """What a party starts from, as bytes: for `fhe_auc.session.protocol.Protocol.party`."""

    identity: bytes  # private keys, `Identity.to_bytes`
    helpers: tuple[Member]  # the one that there is
    common_secret: bytes  # 32 bytes that the parties have in common


class HelperMaterial(SecretStruct, frozen=True):
    """What a helper starts from, as bytes: for `fhe_auc.session.protocol.Protocol.helper`."""

    identity: bytes
    roster: Roster  # of the parties
    helpers: Roster  # of the one that there is


class HelpedSubmission(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party sends: padded parts, a blob for the helper, and a proof where the session has any."""

    parts: tuple[bytes, ...]
    blobs: tuple[bytes]  # the one for the helper
    signature: bytes  # of it, and of what the proof's joint randomness comes from
    proof: InputProof | None = None


class _SignedBlob(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    party: str
    blobs: tuple[bytes]
    signature: bytes
    randomness: tuple[bytes, ...] = ()  # the proof's `parts`, which the party has signed
    answers: bytes = b""  # the aggregator's, about the proof


class Blobs(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the aggregator asks the helper to open."""

    signed: tuple[_SignedBlob, ...]
    key: bytes = b""  # of the query, where parties prove their counts

    def __repr__(self) -> str:
        return f"<blobs of {len(self.signed)} parties, and the key of the query (secret)>"


class OpeningAggregator(Aggregator):
    """Keeps submissions until the helper has said whose blobs open, and adds these up."""

    blob_bytes: ClassVar[int]  # of each party's blob
    opening_type: ClassVar[type[Any]]  # of the helper's answer: `word`, public `context`, `opening`
    _keys: Any = None  # what is computed under; none is made where too few count

    def __init__(self, manifest: Manifest, computation: Any) -> None:
        super().__init__(manifest)
        self._computation = computation
        self._submissions: dict[str, HelpedSubmission] = {}
        self._digests: dict[str, bytes] = {}
        self._word = Word()

    @property
    def submission_limit(self) -> int:  # type: ignore[override] # it depends on who answers
        """Largest payload of an answer in this round, in bytes."""
        if self.round == OPEN:
            return int(self._computation.opening_limit) + 2 * NAME_BYTES * len(self.manifest.parties) + WORD_BYTES
        return int(self._computation.payload_limit)

    @property
    def helper_rounds(self) -> range:  # type: ignore[override] # those between the first and the last
        """Rounds that the helper answers."""
        return range(2, self.rounds)

    def _listed(self, number: int) -> tuple[tuple[str, bytes], ...]:
        """The helper sees no digest of a submission; parties look for their own."""
        return tuple((party, self._digests[party]) for party in self.counted) if number == self.rounds else ()

    def _accept(self, party: str, payload: bytes) -> None:
        if self.round == 1:
            submission = decode(payload, HelpedSubmission, "submission")
            if (len(submission.blobs[0]), len(submission.signature)) != (self.blob_bytes, _SIGNATURE_BYTES):
                raise DeserialisationError("a submission whose blob, or its signature, is of another length")
            self._computation.running_sum().add(submission.parts)  # raises where they cannot be added
            self._check_proof(party, submission)
            self._submissions[party] = submission
        elif self.round == OPEN:
            word = self._kept(payload)
            word.check_of(self.counted, self.manifest)
            self._word = word

    def _kept(self, payload: bytes) -> Word:
        """Keep the opening that the helper has made; return its word, or raise `DeserialisationError`."""
        answer: Any = decode(payload, self.opening_type, "opening")
        if answer.word.counted:
            try:
                public = self._computation.load_public(answer.context)
                self._keys = self._computation.opened(public, answer.opening)
            except InputError as error:  # of another session
                raise DeserialisationError(str(error)) from None
        return cast("Word", answer.word)

    def _count(self, answered: tuple[str, ...]) -> None:
        if self.round == 1:
            self._digests = {party: self._parties.digests[party] for party in answered}
            super()._count(answered)
        elif self.round == OPEN:
            left_out = self._word.left_out
            self._parties.refusals.update(left_out)
            super()._count(tuple(party for party in self.counted if party not in left_out))

    def _check_proof(self, party: str, submission: HelpedSubmission) -> None:
        proofs, proof = self._computation.proofs, submission.proof
        if (proofs is None) != (proof is None):
            raise DeserialisationError("a submission without a proof, or with one where the session has none")
        if proofs is not None:
            proofs.check(self.manifest.parties.index(party), submission.parts[0], proof)

    def _close(self) -> bytes:
        if self.round == 1:
            return encode(self._blobs({party: self._submissions[party] for party in self.counted}))
        if (error := self._word.unopened(self.counted, self.manifest)) is not None:
            raise error
        content = self._content()
        return encode(Told(self._word, content)) if self.round == self.rounds - 1 else content

    def _content(self) -> bytes:
        """Return what those are told who answer the next round."""
        total = self._computation.running_sum()
        for party in self.counted:
            total.add(self._submissions[party].parts)
        return encode(Result(self.counted, self._computation.aggregate(self._keys, total.totals)))

    def _query_key(self, sent: Mapping[str, HelpedSubmission]) -> QueryKey:
        """Return the key for the query of proofs: of all submissions of those who count, so that there is none before.

        Between machines the secret is kept with the list; errors as of `fhe_auc_keys.store.fixed_lists.fix` then.
        """
        fixed = Submissions(len(self.counted))
        for party, submission in sent.items():
            fixed.add(hashlib.sha256(encode((party, submission))).digest())
        if self.protection is None:
            return fixed.query_key(secrets.token_bytes(KEY_BYTES), self.digest)
        if self.fix_list is None:
            raise EvaluationError("between machines an aggregator asks about proofs once its key store has the list")
        return fixed.query_key(self.fix_list(fixed.digest), self.digest)

    def _blobs(self, sent: Mapping[str, HelpedSubmission]) -> Blobs:
        """Return what the helper is asked to open; all submissions are in, so that the query may become known to it."""
        blobs = [_SignedBlob(party, each.blobs, each.signature) for party, each in sent.items()]
        proofs: InputProofs | None = self._computation.proofs
        if proofs is None:
            return Blobs(tuple(blobs))
        index = self.manifest.parties.index
        submitted = [Submitted(index(party), each.parts[0], each.proof) for party, each in sent.items() if each.proof]
        key = self._query_key(sent)
        told = zip(blobs, submitted, proofs.answers(key, submitted), strict=True)
        return Blobs(
            tuple(
                msgspec.structs.replace(blob, randomness=own.proof.parts, answers=answers)
                for blob, own, answers in told
            ),
            key,
        )


class PaddingParty(KeyedParty[R]):
    """Pads and submits in the first round, and reads the result in the last; it has no key of the session."""

    def __init__(self, manifest: Manifest, computation: Any, own: HelpedSecrets, task: Any) -> None:
        super().__init__(manifest, task.party)
        self.answers = 1, self.rounds
        self._computation, self._task = computation, task
        self._identity = Identity.from_bytes(own.identity)
        (self._helper,) = own.helpers
        self._common_secret = own.common_secret
        self.download_limit = self._result_limit() + (2 * NAME_BYTES + 64) * len(manifest.parties) + WORD_BYTES

    def _result_limit(self) -> int:
        """Return more bytes than a result has, beside what it holds of each party."""
        return int(self._computation.payload_limit)

    @abstractmethod
    def _read(self, word: Word, content: bytes) -> R:
        """Return what the result says."""

    def _told(self, payload: bytes) -> Told:
        """Return what the last message says; raise `DeserialisationError` where that is not the helper's word."""
        told = decode(payload, Told, "result")
        told.word.check(self._helper.signing_key, self.digest)
        return told

    def _check_listed(self, message: Message) -> None:
        """Raise `MessageError` unless the aggregator lists whom the helper counts, or this one is left out by that."""
        if message.round == 1:
            super()._check_listed(message)
            return
        try:
            word = self._told(message.unsealed).word
            if self.name not in word.left_out:
                super()._check_listed(message)
                self._check_named(word.counted)
        except DeserialisationError as error:
            raise MessageError(str(error), field=error.field) from None

    def _for_helper(self) -> bytes:
        """Return what the helper is to learn beside the seed."""
        return b""

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        if round_number > 1:
            with self._timed("recover"):
                told = self._told(payload)
                told.word.check_counts(self.name)
                self._check_named(told.word.counted)
                self._end(self._read(told.word, told.content))
            return b""
        with self._timed("submit"):
            seed, associated = secrets.token_bytes(SEED_BYTES), _associated(self.digest, self.name)
            index = self.manifest.parties.index(self.name)
            parts, proof = self._computation.under_pad(self._task, index, seed, self._common_secret)
            key, secret = self._helper.encryption_key, seed + self._for_helper()
            blob = sealing.seal(key, secret, info=signed_bytes(_BLOB, associated))
            randomness = () if proof is None else proof.parts
            signature = self._identity.sign(_BLOB, _signed_of(associated, blob, randomness))
            return encode(HelpedSubmission(parts, (blob,), signature, proof))


class OpeningHelper(Party[Any]):
    """Opens the sum of the pads of those whose blobs open; it answers rounds 2 to the last but one, and has no rows."""

    asked_alone = True
    secret_bytes: ClassVar[int]  # in each blob, first the seed of a pad

    def __init__(self, manifest: Manifest, computation: Any, own: HelperMaterial) -> None:
        self._identity = Identity.from_bytes(own.identity)
        if [member.signing_key for member in own.helpers.members] != [self._identity.signing_key]:
            raise InputError(f"{self._identity.name!r} is not the session's helper")
        super().__init__(manifest, HELPER)
        most = len(manifest.parties)
        blob = NAME_BYTES + sealing.OVERHEAD + self.secret_bytes + 8 + _SIGNATURE_BYTES + 16
        if computation.proofs is not None:
            blob += computation.proofs.answer_bytes + 2 * PART_BYTES + 16
        self.download_limit = max(blob * most + KEY_BYTES, computation.payload_limit + NAME_BYTES * most)
        self._computation = computation
        self._keys = own.roster.signing_keys

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name == HELPER and manifest.keys == "helper"

    def _check_listed(self, message: Message) -> None:
        """The helper is told no digests."""

    def result(self) -> NoReturn:
        """Raise `EvaluationError`: a helper is given no result."""
        raise EvaluationError("a helper has no result")

    def _secret_in(self, signed: _SignedBlob) -> bytes | None:
        """Return what a party has sealed; None where it has not signed its blob, or that does not open."""
        (blob,), associated = signed.blobs, _associated(self.digest, signed.party)
        about, key = _signed_of(associated, blob, signed.randomness), self._keys.get(signed.party, b"")
        if not has_signed(key, _BLOB, about, signed.signature):
            return None
        try:
            secret = self._identity.unseal(blob, info=signed_bytes(_BLOB, associated))
        except TamperedError:
            return None
        return secret if len(secret) == self.secret_bytes else None

    def _secrets_in(self, payload: bytes) -> tuple[dict[str, bytes], Word]:
        """Return the secrets of the parties that count, by name in the manifest's order, and what the helper says.

        They count if their blobs open and their proofs, if any, hold. Where too few do, or their list is too near to
        an earlier one, there are no secrets, and the helper's part has ended: nothing is opened, and the aggregator is
        told whom to blame. Raises `DeserialisationError` for another list.
        """
        asked = decode(payload, Blobs, "list of blobs")
        blobs = {blob.party: blob for blob in asked.signed}
        if len(blobs) != len(asked.signed) or [*blobs] != [party for party in self.manifest.parties if party in blobs]:
            raise DeserialisationError("the blobs are not of parties of the session, each once and in its order")
        opened = {name: secret for name, blob in blobs.items() if (secret := self._secret_in(blob)) is not None}
        unfit = tuple(party for party in blobs if party not in opened)
        index, proofs = self.manifest.parties.index, self._computation.proofs
        shown = (
            Opened(index(name), secret[:SEED_BYTES], blobs[name].randomness, blobs[name].answers)
            for name, secret in opened.items()
        )
        unproved = () if proofs is None else proofs.unproved(asked.key, opened, shown)
        counted = {name: secret for name, secret in opened.items() if name not in unproved}
        enough = len(counted) >= self.manifest.min_parties
        apart = self._too_near(counted) if enough else ()
        counted = counted if enough and not apart else {}
        word = Word(tuple(counted), unfit, unproved, apart).signed_by(self._identity, self.digest)
        self.failure = word.unopened(blobs, self.manifest)
        self.ended = self.failure is not None
        self.opened = self.listed = word.counted
        self.unproved = unproved
        return counted, word


@dataclass(frozen=True)
class HelperSession(DealtSession):
    """A session whose keys its helper will make; who convenes it has drawn the common secret."""

    common_secret: bytes = field(repr=False)

    def secrets_of(self, party: str) -> PartySecrets:
        """Return what each party gets."""
        return PartySecrets(b"", self.common_secret)

    def delivery(self) -> Delivery:
        """Return what all roles start from: certified identities and their rosters."""
        parties = self.manifest.parties
        consortium = Consortium(parties)
        roster, helping = (Roster.of(consortium.peers(names)) for names in (parties, (consortium.helper,)))
        member, secret = (helping.members[0],), self.common_secret
        own = {name: encode(HelpedSecrets(consortium.identities[name].to_bytes(), member, secret)) for name in parties}
        helper = HelperMaterial(consortium.identities[consortium.helper].to_bytes(), roster, helping)
        return Delivery(b"", own, helper=encode(helper))


class HelperMode(KeyMode):
    """A helper opens the sum of the parties' pads; nothing but the common secret is made beforehand."""

    aggregator_type: ClassVar[type[OpeningAggregator]]
    party_type: ClassVar[Callable[..., PaddingParty[Any]]]
    helper_type: ClassVar[type[OpeningHelper]]

    def prepare(self, plan: Any, announced: Callable[..., Manifest]) -> Session:
        """Name the session, and draw the common secret; a fleet's has none."""
        common_secret = secrets.token_bytes(COMMON_SECRET_BYTES)
        manifest = announced(common_secret=name_of(common_secret))
        return HelperSession(manifest, common_secret) if manifest.fleet is None else Session(manifest)

    def aggregator(self, manifest: Manifest, material: bytes) -> OpeningAggregator:
        """Return the aggregator, which starts from nothing."""
        return self.aggregator_type(manifest, self.computation(manifest))

    def party(self, manifest: Manifest, material: bytes, task: Any) -> PaddingParty[Any]:
        """Return the party; `material` is `HelpedSecrets`."""
        own = read_material(material, HelpedSecrets)
        with reading_material():
            check_common_secret(own.common_secret, manifest)
        return self.party_type(manifest, self.computation(manifest), own, task)

    def helper(self, manifest: Manifest, material: bytes) -> OpeningHelper:
        """Return the helper; `material` is `HelperMaterial`."""
        return self.helper_type(manifest, self.computation(manifest), read_material(material, HelperMaterial))


def _signed_of(associated: bytes, blob: bytes, randomness: tuple[bytes, ...]) -> bytes:
    """Return what a party signs: its blob, and the parts of its proof's joint randomness if it has one."""
    return associated + hashlib.sha256(blob).digest() + encode(randomness)


def _associated(session: bytes, party: str) -> bytes:
    return encode((session, party))
