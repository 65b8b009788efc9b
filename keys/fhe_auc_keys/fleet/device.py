"""A device: it pads its sketch once, and reads the sums once. It has no key of the session.

What it answers tells most to whom asks it twice: which records count is the server's choice, so two sums of the same
rows could differ in this device alone. So a device remembers what it has answered, and answers for the same rows once;
only the helper's signed word that nothing was opened in a session frees the rows (`released`). And it has a floor for
how many must count beside it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError, InputError
from fhe_auc.base.serialise import KeptFormat, SecretStruct, decode, encode
from fhe_auc.input_proofs.sessions import RANDOMNESS_BYTES
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.own_checks import check_scores, warnings_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import KeysError, TamperedError
from fhe_auc_keys.fleet import fleet_session, tables
from fhe_auc_keys.roles.helper import totals_of
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import unseal_under
from fhe_auc_keys.trust.signatures import has_signed


class Record(NamedTuple):
    """What a device submits; the columns of `tables.RECORDS`. It tells nobody anything but the member."""

    member: int
    session: bytes  # the manifest's digest
    sketch: bytes  # padded, part after part, with its proof, and sealed to the aggregator
    blob: bytes  # sealed to the helper
    signature: bytes  # over the blob, the digest of the sealed sketch, and what the proof hangs on


@dataclass(frozen=True)
class Floor:
    """The least that a device asks of a session, whoever convenes it; `InputError` where a field cannot be that.

    `members` is how many members the fleet has at least, 2 or more. `share` is the share of the members, above 0 and at
    most 1, that must count at least: who plays fewer is never alone with one device.
    """

    members: int
    share: float

    def __post_init__(self) -> None:
        if self.members < 2 or not 0 < self.share <= 1:
            raise InputError(
                f"a floor has 2 members or more and a share above 0 and at most 1, got {self.members} and {self.share}"
            )

    def require(self, manifest: Manifest) -> None:
        """Raise `InputError` where a fleet's session is below the floor."""
        if manifest.size < self.members:
            raise InputError(
                f"the fleet has {manifest.size:,} members, fewer than this device's floor, {self.members:,}"
            )
        if manifest.min_parties < self.share * manifest.size:
            raise InputError(
                f"{manifest.min_parties:,} of {manifest.size:,} members are enough for the session, a smaller share "
                f"than this device's floor, {self.share:g}"
            )


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

    Raises `InputError` where the session is not a fleet's, has no such member, or is below the device's floor.
    """

    def __init__(self, announced: Announcement, index: int, identity: Identity, floor: Floor) -> None:
        self._loaded = fleet_session.loaded(announced.manifest.to_bytes())
        fleet = self._loaded.fleet
        if not 0 <= index < fleet.members:
            raise InputError(f"the session's fleet has members 0 to {fleet.members - 1}, and no {index}")
        self.manifest = self._loaded.manifest
        floor.require(self.manifest)
        self.index = index
        self._digest = self._loaded.digest
        self._helper, self._aggregator = fleet_session.helper_of(announced), announced.aggregator.encryption_key
        self._identity = identity

    def submit(self, data: PartyData, memory: bytes) -> Submitted:
        """Return the device's record of its rows, under a fresh pad; whatever `data` is named stays here.

        `memory` is `Submitted.memory` of its last submission, to whichever session; empty where there was none.

        Raises `InputError` where the rows do not fit the session, or are more than its row cap; `EvaluationError` where
        the device has answered this session, or, for the same labels and scores of any of its models, another one;
        `DeserialisationError` where the memory is damaged: an empty one would answer again.
        """
        remembered = self._remembered(data, memory)
        cap = self._loaded.fleet.row_cap
        if data.rows > cap:
            raise InputError(f"member {self.index} has {data.rows:,} rows, more than a device's cap, {cap:,}")
        check_scores(data, self.manifest.thresholds)
        seed, response_key = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(fleet_session.KEY_BYTES)
        task = self._loaded.task(self.manifest, data)
        padded = self._loaded.computation.under_pad(self.index, seed, task.encode(b""))
        info = fleet_session.sketch_info(self._digest, self.index)
        sketch = sealing.seal(self._aggregator, fleet_session.sealed_in(padded), info=info)
        info = fleet_session.blob_info(self._digest, self.index, hashlib.sha256(sketch).digest())
        blob = sealing.seal(self._helper.encryption_key, seed + response_key, info=info)
        randomness = padded.proof[:RANDOMNESS_BYTES]
        signature = self._identity.sign(fleet_session.BLOB, fleet_session.signed_of(blob, info, randomness))
        return Submitted(Record(self.index, self._digest, sketch, blob, signature), response_key, remembered)

    def _remembered(self, data: PartyData, memory: bytes) -> bytes:
        """Return the memory with this submission in it; errors as `submit`."""
        known = _FORMAT.unframe(memory) if memory else _Memory(secrets.token_bytes(32))
        rows = _digests_of(data, known.salt)
        mine = _DeviceAnswer(self.manifest.session, self._digest, self._helper.signing_key, rows)
        for each in known.answers:
            if each.session == mine.session:
                raise EvaluationError(f"member {self.index} has answered this session: a device answers once")
            if set(each.rows) & set(mine.rows):
                raise EvaluationError(
                    f"member {self.index} has answered for the same rows in session {each.session.hex()}: who sees "
                    "both results learns of single devices. It answers again once its rows have changed, or its memory "
                    "has been given the helper's word that nothing was opened in that session"
                )
        return _FORMAT.frame(_Memory(known.salt, (*known.answers, mine)))

    def read(self, data: PartyData, response_key: bytes, part: bytes, sums: bytes) -> Evaluation:
        """Return the result of the session in which this device has submitted `data`.

        `response_key` is from `submit`; `part` is the member's entry of the responses, `sums` the file beside them.
        Raises `DeserialisationError` where they are damaged, or not sealed under that key for this session; and, as of
        every party, `ResultCheckError` and `UndefinedAucError`.
        """
        try:
            text = unseal_under(response_key, part, sums, associated=encode((fleet_session.RESPONSE, self._digest)))
        except TamperedError as error:
            raise DeserialisationError(f"the sums are not sealed to member {self.index}: {error}") from None
        number, totals = decode(text, tuple[int, tuple[bytes, ...]], "sums")
        if not self.manifest.min_parties <= number <= self.manifest.size:
            raise DeserialisationError(f"the sums are of {number} members, fewer or more than the session may have")
        task = self._loaded.task(self.manifest, data)
        # Only how many count matters without authenticators, and members have no names.
        found: Evaluation = task.read_result(totals_of(totals), ("",) * number, b"")
        warnings = (*found.warnings, *warnings_of([data], self.manifest.thresholds))
        return replace(found, keys="helper", rounds=2, warnings=warnings)


def released(memory: bytes, word: bytes) -> bytes:
    """Return a device's memory in which the rows of one session are free again: for another session, by a fresh record.

    `word` is what that session's helper has signed: that nothing was opened. The device still answers that session
    never again. Raises `KeysError` where the word is of no session that it has answered, or not by its helper;
    `DeserialisationError` where the memory is damaged.
    """
    known = _FORMAT.unframe(memory)
    mine = next(
        (each for each in known.answers if has_signed(each.helper, fleet_session.UNOPENED, each.manifest, word)), None
    )
    if mine is None:
        raise KeysError(
            "that nothing was opened is said of no session that the device has answered, or not by the session's "
            "helper: ask for what its `fhe-auc fleet open` has written"
        )
    free = msgspec.structs.replace(mine, rows=())
    return _FORMAT.frame(_Memory(known.salt, tuple(free if each is mine else each for each in known.answers)))


def _digests_of(data: PartyData, salt: bytes) -> tuple[bytes, ...]:
    """Return, by model, what tells a device its own rows again: in whatever order, and beside whatever other models."""
    batches = list(data.batches())
    labels = np.concatenate([each.labels for each in batches]).astype("<i8")
    found = []
    for model in range(len(data.scores)):
        scores = np.concatenate([each.scores[model] for each in batches]).astype("<f8") + 0.0  # -0.0 is 0.0
        order = np.lexsort((labels, scores))
        found.append(hashlib.sha256(salt + labels[order].tobytes() + scores[order].tobytes()).digest())
    return tuple(found)


def write_records(place: str, records: Sequence[Record]) -> None:
    """Write records to a Parquet file, of which the folder is what the aggregator collects."""
    tables.write_file(place, tables.as_file(list(zip(*records, strict=True)), tables.RECORDS))
