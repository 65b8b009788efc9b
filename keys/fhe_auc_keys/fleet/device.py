"""A device: it pads its sketch once, and reads the sums once. It has no key of the session.

Which records count is the server's choice, so two sums of the same rows could differ in this device alone. So it
remembers what it has answered, and answers for the same rows once; only the helper's signed word that nothing was
opened in a session frees them (`released`). And it has a floor for how many must count beside it.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import KeptFormat, SecretStruct
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.own_checks import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import session
from fhe_auc_keys.roles.blobs import RESPONSE_KEY_BYTES, sealed_blob
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.signatures import has_signed


class Record(NamedTuple):
    """What a device submits; its bytes: docs/guide/record.md. It tells nobody anything but the member."""

    member: int
    sketch: bytes  # padded, with its proof, and sealed to the aggregator
    blob: bytes  # sealed to the helper: the pad's seed, and the response key
    signature: bytes  # over the blob, the session, the digest of the sealed sketch, and what the proof hangs on


@dataclass(frozen=True)
class Floor:
    """The least that a device asks of a session, whoever convenes it; `InputError` where a field cannot be that.

    `members` is how many members the fleet has at least, 2 or more. `share` is the share of the members, above 0 and at
    most 1, that must count at least: who plays fewer is never alone with one device. `epsilon`, if it is given, is the
    largest budget of a device that a session may have, and it must have one.
    """

    members: int
    share: float
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.members < 2 or not 0 < self.share <= 1:
            got = f"got {self.members} and {self.share}"
            raise InputError(f"a floor has 2 members or more and a share above 0 and at most 1, {got}")

    def require(self, manifest: Manifest) -> None:
        """Raise `InputError` where a fleet's session is below the floor."""
        size, least, floor = manifest.size, manifest.min_parties, "than this device's floor"
        if size < self.members:
            raise InputError(f"the fleet has {size:,} members, fewer {floor}, {self.members:,}")
        if least < self.share * size:
            what = f"{least:,} of {size:,} members are enough for the session"
            raise InputError(f"{what}, a smaller share {floor}, {self.share:g}")
        spends = registry.load(manifest.protocol).spends(manifest)
        if self.epsilon is not None and not (spends and spends.unit == "device" and spends.epsilon <= self.epsilon):
            asked = f"epsilon = {spends.epsilon:g} a {spends.unit}" if spends else "no noise"
            raise InputError(f"the session has {asked}, and this device takes part up to epsilon = {self.epsilon:g}")


@dataclass(frozen=True)
class Submitted:
    """What a device has made of its rows: the record alone leaves it."""

    record: Record
    response_key: bytes = field(repr=False)  # unseals the sums; kept until then
    memory: bytes = field(repr=False)  # for the next `Device.submit`; written to disk before the record leaves


class _DeviceAnswer(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    session: bytes
    manifest: bytes  # its digest
    helper: bytes  # its signing key
    rows: tuple[bytes, ...]  # by model: SHA-256 of the memory's salt, labels and scores; none once they are `released`


class _Memory(SecretStruct, frozen=True):
    salt: bytes
    answers: tuple[_DeviceAnswer, ...] = ()


_FORMAT = KeptFormat(b"fhefmem", _Memory, "device's memory", version=4)


class Device:
    """The member of a fleet with this index, in one session; `announced` is from `open_announcement`.

    `signing` is the private key of its entry in the list of keys; it needs no other.

    Raises `InputError` where the session is not a fleet's, has no such member, or is below the device's floor.
    """

    def __init__(self, announced: Announcement, index: int, signing: Ed25519PrivateKey, floor: Floor) -> None:
        self._loaded = session.loaded(announced.manifest.to_bytes())
        self.manifest, self._digest, self.index = self._loaded.manifest, self._loaded.digest, index
        if not 0 <= index < self._loaded.fleet.members:
            raise InputError(f"the session's fleet has members 0 to {self._loaded.fleet.members - 1}, and no {index}")
        floor.require(self.manifest)
        self._helper, self._aggregator = session.helper_of(announced), announced.aggregator
        self._signing = signing

    def submit(self, data: PartyData, memory: bytes) -> Submitted:
        """Return the device's record of its rows, under a fresh pad; whatever `data` is named stays here.

        `memory` is `Submitted.memory` of its last submission, to whichever session; empty where there was none.

        Raises `InputError` where the rows do not fit the session, or are more than its row cap; `EvaluationError` where
        the device has answered this session, or, for the same labels and scores of any of its models, another one;
        `DeserialisationError` where the memory is damaged: an empty one would answer again.
        """
        known = _FORMAT.unframe(memory) if memory else _Memory(secrets.token_bytes(32))
        answer = self._answer(data, known)
        if data.rows > (cap := self._loaded.fleet.row_cap):
            raise InputError(f"member {self.index} has {data.rows:,} rows, more than a device's cap, {cap:,}")
        check_scores(data, self.manifest.thresholds)
        seed, response_key = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(RESPONSE_KEY_BYTES)
        values = self._loaded.task(self.manifest, data).encode(b"")
        parts, proof = self._loaded.computation.under_pad(self.index, seed, values)
        info = session.sketch_info(self._digest, self.index)
        sketch = sealing.seal(self._aggregator.encryption_key, b"".join((*parts, proof)), info=info)
        about = session.blob_about(self._digest, self.index, hashlib.sha256(sketch).digest())
        to, randomness = self._helper.encryption_key, proof[:RANDOMNESS_BYTES]
        signed = sealed_blob(to, self._signing, seed + response_key, about=about, randomness=randomness)
        remembered = _FORMAT.frame(_Memory(known.salt, (*known.answers, answer)))
        return Submitted(Record(self.index, sketch, *signed), response_key, remembered)

    def _answer(self, data: PartyData, known: _Memory) -> _DeviceAnswer:
        """Return what is to be remembered of this submission; errors as `submit`."""
        rows = _digests_of(data, known.salt)
        for each in known.answers:
            if each.session == self.manifest.session:
                raise EvaluationError(f"member {self.index} has answered this session: a device answers once")
            if {*each.rows} & {*rows}:
                raise EvaluationError(
                    f"member {self.index} has answered for the same rows in session {each.session.hex()}: who sees "
                    "both results learns of single devices. It answers again once its rows have changed, or its memory "
                    "has been given the helper's word that nothing was opened in that session"
                )
        return _DeviceAnswer(self.manifest.session, self._digest, self._helper.signing_key, rows)

    def read(self, data: PartyData, response_key: bytes, part: bytes, sums: bytes) -> Evaluation:
        """Return the result of the session in which this device has submitted `data`.

        `response_key` is from `submit`; `part` stands in the answers beside its record, `sums` is the file with them.
        Raises `DeserialisationError` where they are damaged, not sealed under that key for this session, or not signed
        by its helper; and, as of every party, `ResultCheckError` and `UndefinedAucError`.
        """
        try:
            content_key = session.opened_part(response_key, part, self._digest, self.index)
            number, totals = session.opened_sums(sums, self._helper.signing_key, content_key, self._digest)
        except TamperedError as error:
            raise DeserialisationError(f"the sums are not sealed to member {self.index}: {error}") from None
        if not self.manifest.min_parties <= number <= self.manifest.size:
            raise DeserialisationError(f"the sums are of {number} members, fewer or more than the session may have")
        # Only how many count matters without authenticators, and members have no names.
        found: Evaluation = self._loaded.task(self.manifest, data).read_result(totals, ("",) * number, b"")
        own = registry.load(self.manifest.protocol).own_warnings(self.manifest, [data])
        return replace(found, keys="helper", rounds=2, warnings=(*found.warnings, *own))


def released(memory: bytes, word: bytes) -> bytes:
    """Return a device's memory in which the rows of one session are free again: for another session, by a fresh record.

    `word` is what that session's helper has signed: that nothing was opened. The device still answers that session
    never again. Raises `KeysError` where the word is of no session that it has answered, or not by its helper;
    `DeserialisationError` where the memory is damaged.
    """
    known = _FORMAT.unframe(memory)
    for place, each in enumerate(known.answers):
        if has_signed(each.helper, session.UNOPENED, each.manifest, word):
            free = msgspec.structs.replace(each, rows=())
            return _FORMAT.frame(_Memory(known.salt, (*known.answers[:place], free, *known.answers[place + 1 :])))
    raise KeysError(
        "that nothing was opened is said of no session that the device has answered, or not by the session's helper: "
        "ask for what its `fhe-auc fleet open` has written"
    )


def _digests_of(data: PartyData, salt: bytes) -> tuple[bytes, ...]:
    """Return, by model, what tells a device its own rows again: in whatever order, and beside whatever other models."""
    labels, found = data.labels.astype("<i8"), []
    for own in data.scores:
        scores = own.astype("<f8") + 0.0  # -0.0 is 0.0
        order = np.lexsort((labels, scores))
        found.append(hashlib.sha256(salt + labels[order].tobytes() + scores[order].tobytes()).digest())
    return tuple(found)
