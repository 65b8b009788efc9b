"""A device: it pads its sketch once, and reads the sums once. It has no key of the session."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.counts import PartyData
from fhe_auc.rows.own_rows import check_scores, warnings_of
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.bundles.session_keys import SEED_BYTES
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.session import (
    BLOB,
    KEY_BYTES,
    RESPONSE,
    blob_info,
    helper_of,
    loaded,
    signed_of,
    sketch_info,
)
from fhe_auc_keys.roles.helper_roles import totals_of
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.group_sealing import unseal_under
from fhe_auc_keys.trust.identity import Identity


class Record(NamedTuple):
    """What a device submits; the columns of `tables.RECORDS`. It tells nobody anything but the member."""

    member: int
    session: bytes  # the manifest's digest
    sketch: bytes  # padded, part after part, and sealed to the aggregator
    blob: bytes  # sealed to the helper
    signature: bytes  # over the blob, and the digest of the sealed sketch


@dataclass(frozen=True)
class Submitted:
    """A record, and the key with which its device unseals the sums; the device keeps that until then."""

    record: Record
    response_key: bytes = field(repr=False)


class Device:
    """The member of a fleet with this index, in one session.

    `announced` is verified (`fhe_auc_keys.bundles.announcement.open_announcement`). `identity` is the
    member's. Whether the fleet has it as a member, `Fleet.has` says, given `known_by`.

    Raises `InputError` where the session is not a fleet's, or has no member of this index.
    """

    def __init__(self, announced: Announcement, index: int, identity: Identity) -> None:
        self._loaded = loaded(announced.manifest.to_bytes())
        fleet = self._loaded.fleet
        if not 0 <= index < fleet.members:
            raise InputError(f"the session's fleet has members 0 to {fleet.members - 1}, and no {index}")
        self.manifest = self._loaded.manifest
        self.index = index
        self._digest = self._loaded.digest
        self._helper, self._aggregator = helper_of(announced).encryption_key, announced.aggregator.encryption_key
        self._identity = identity

    def __repr__(self) -> str:
        return f"<Device {self.index}>"

    @property
    def known_by(self) -> bytes:
        """The key by which the fleet must know this member, 32 bytes."""
        return self._identity.signing_key

    def submit(self, data: PartyData) -> Submitted:
        """Return the device's record of its rows, under a fresh pad; whatever `data` is named stays here.

        Raises `InputError` where the rows do not fit the session, or are more than its row cap.
        """
        cap = self._loaded.fleet.row_cap
        if data.rows > cap:
            raise InputError(f"member {self.index} has {data.rows:,} rows, more than a device's cap, {cap:,}")
        check_scores(data, self.manifest.thresholds)
        seed, response_key = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(KEY_BYTES)
        task = self._loaded.plugin.task(self.manifest, data)
        padded = b"".join(self._loaded.computation.under_pad(task, self.index, seed, b""))
        info = sketch_info(self._digest, self.index)
        sketch = sealing.seal(self._aggregator, padded, info=info, associated=b"")
        info = blob_info(self._digest, self.index, hashlib.sha256(sketch).digest())
        blob = sealing.seal(self._helper, seed + response_key, info=info, associated=b"")
        signature = self._identity.sign(BLOB, signed_of(blob, info))
        return Submitted(Record(self.index, self._digest, sketch, blob, signature), response_key)

    def read(self, data: PartyData, response_key: bytes, part: bytes, sums: bytes) -> Evaluation:
        """Return the result.

        Parameters
        ----------
        data : PartyData
            The device's rows.
        response_key : bytes
            From `submit`.
        part, sums : bytes
            The member's entry of the responses, and the file ``sums`` beside them.

        Raises
        ------
        DeserialisationError
            They are not sealed under that key for this session, or damaged.
        ResultCheckError, UndefinedAucError
            As of every party: the sums cannot be those of such rows, or are of one label.
        """
        try:
            text = unseal_under(response_key, part, sums, associated=encode((RESPONSE, self._digest)))
        except TamperedError as error:
            raise DeserialisationError(f"the sums are not sealed to member {self.index}: {error}") from None
        number, totals = decode(text, tuple[int, tuple[bytes, ...]], "sums")
        if not self.manifest.min_parties <= number <= self.manifest.size:
            raise DeserialisationError(f"the sums are of {number} members, fewer or more than the session may have")
        task = self._loaded.plugin.task(self.manifest, data)
        # Only how many count matters without authenticators, and members have no names.
        found: Evaluation = task.read(totals_of(totals), ("",) * number, b"")
        warnings = (*found.warnings, *warnings_of([data], self.manifest.thresholds))
        return replace(found, keys="helper", rounds=2, warnings=warnings)


def write_records(place: str, records: Sequence[Record]) -> None:
    """Write records to a Parquet file, of which the folder is what the aggregator collects."""
    tables.write(place, tables.as_file(list(zip(*records, strict=True)), tables.RECORDS))
