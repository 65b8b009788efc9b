"""Openings made late: where parties may be missing, the key holder opens once it is known who counts.

    key holder    `hold`          keeps the parties' seeds, and what else it takes, in its key store
    aggregator    `request`       closes the submissions, and says whose they are: the names alone, signed
    key holder    `open_late`     once: the opening of these parties' pads, sealed to the aggregator, signed
    aggregator    `read_opening`

One opening for all parties beside one for some of them would tell a party and the aggregator together what lies
between, so there is one. The key holder writes down names and opening, and erases the seeds, before anything leaves;
asked again for the same names it gives the same bytes, for others nothing. Some time after the session's end the seeds
are erased anyway (`fhe_auc_keys.site.key_erasure.purge`). It is told no digest of a submission: knowing the pads, it
could try counts against it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from threading import Event, Thread

import msgspec
from fhe_auc.session.counted_parties import not_opened, too_near

from fhe_auc.base.errors import EvaluationError
from fhe_auc.base.exchange import SHARED, Arrivals
from fhe_auc.base.files import write_atomically
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.serialise import KeptFormat, SecretStruct, decode, encode
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Session
from fhe_auc_keys.bundles.announcement import Announcement, claimed, open_announcement
from fhe_auc_keys.bundles.sealed_bundles import check_opening
from fhe_auc_keys.errors import ExpiredError, KeysError, StoreError, TamperedError
from fhe_auc_keys.roles import padded_roles
from fhe_auc_keys.roles.encrypted_protocol import EncryptedProtocol
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import sealing
from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.sealing import signed_bytes
from fhe_auc_keys.trust.signed_documents import Kind, claimed_body, open_signed, sign

_PAUSE = 0.2  # seconds between looks for a file

REQUEST_KIND = Kind(b"fhereqs", "request for an opening")
OPENING_KIND = Kind(b"fhelate", "late opening")


class _Request(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    session: bytes
    manifest: bytes  # digest
    counted: tuple[str, ...]


class _OpeningBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    request: _Request
    sealed: bytes


class _Held(SecretStruct, frozen=True):
    """What the key holder keeps; secret context and seeds are empty once it has opened, or may no more."""

    announcement: bytes
    not_after: int  # Unix seconds, the announcement's
    context: bytes  # empty where vectors are added up
    seeds: tuple[bytes, ...]  # in the manifest's order
    request: bytes = b""  # `_Request`, encoded: what it has opened
    opening: bytes = b""  # the document that answers it


_FORMAT = KeptFormat(b"fheheld", _Held, "session held")


def is_late(manifest: Manifest) -> bool:
    """Whether a session's opening is made once it is known who counts; raise `InputError` for an unknown protocol."""
    return _pads(manifest) is not None and padded_roles.is_late(manifest)


def hold(store: KeyStore, session: Session, announcement: bytes, not_after: datetime) -> None:
    """Keep what `open_late` takes, until `not_after`: secret key and seeds; nothing where no opening is late."""
    manifest = session.manifest
    if not isinstance(session, padded_roles.SealedPadsSession) or not is_late(manifest):
        return
    seeds = tuple(session.seeds[party] for party in manifest.parties)
    held = _Held(announcement, int(not_after.timestamp()), session.common.context, seeds)
    store.put("late", manifest.session.hex(), _FORMAT.frame(held))


def request(aggregator: Identity, manifest: Manifest, counted: tuple[str, ...]) -> bytes:
    """Return the aggregator's request for the opening of these parties' pads."""
    return sign(REQUEST_KIND, aggregator, _Request(manifest.session, manifest.digest, counted))


def asked(data: bytes) -> bytes:
    """Return the session that a request says it is for, unverified; `TamperedError` where it is no request."""
    return claimed_body(REQUEST_KIND, data, _Request).session


def open_late(store: KeyStore, holder: Identity, trust: Trust, data: bytes, *, at: datetime) -> bytes:
    """Return the opening that a request asks for, for `read_opening`; the same bytes for the same names again.

    Raises `StoreError` where the key holder's `store` has no such session, `ExpiredError` where it has ended, and
    `KeysError`: not a request, or not signed by the session's aggregator (subclasses as of `open_signed`); its names
    cannot be those of parties that count; the opening for others has been made; or their list is too near to another
    one (`fhe_auc.session.counted_parties`).
    """
    session = asked(data)
    name = session.hex()
    if name not in store.names("late"):
        raise StoreError(f"the key store holds no seeds of a session {name}: it is another, or has ended")
    held = held_in(store, session)
    announced = open_announcement(held.announcement, trust, holder=holder.name, at=at)
    found, asking = open_signed(REQUEST_KIND, data, _Request, trust, signer=announced.aggregator.name, at=at)
    if found.fingerprint != announced.aggregator.fingerprint:
        raise TamperedError(f"{found.name!r} has not signed the request with its certificate of this session")
    _check_counted(announced.manifest, asking)
    if not held.opening and not held.seeds:
        raise ExpiredError("the session has ended, and its seeds are erased: make a new session")
    if held.opening:
        if held.request != encode(asking):
            raise KeysError("the opening for other parties has been made; a session has one, so make a new session")
        return held.opening
    if apart := too_near(asking.counted, _earlier(store, announced), announced.study.most_away):
        raise KeysError(str(not_opened(apart)))
    manifest, mode = announced.manifest, _pads(announced.manifest)
    seeds = dict(zip(manifest.parties, held.seeds, strict=True))
    if mode is None:
        raise KeysError(f"protocol {manifest.protocol!r} has no openings")
    made = mode.opening(manifest, held.context, {party: seeds[party] for party in asking.counted})
    check_opening(made, held.context, held.seeds)
    sealed = sealing.seal(announced.aggregator.encryption_key, made, info=_about(asking))
    document = sign(OPENING_KIND, holder, _OpeningBody(asking, sealed))
    opened = _Held(held.announcement, held.not_after, b"", (), encode(asking), document)
    store.put("late", name, _FORMAT.frame(opened), replace=True)
    return document


def _earlier(store: KeyStore, announced: Announcement) -> Iterator[tuple[str, ...]]:
    """Yield all parties of a session, and whom this key holder has opened in other sessions of theirs and its study."""
    parties, study = announced.manifest.parties, announced.study
    yield parties
    for name in store.names("late"):
        held = held_in(store, bytes.fromhex(name))
        if held.request:
            other = claimed(held.announcement).manifest
            if set(other.parties) == set(parties) and other.study and other.study.question == study.question:
                yield decode(held.request, _Request, "request").counted


def read_opening(
    data: bytes, aggregator: Identity, trust: Trust, announced: Announcement, counted: tuple[str, ...], *, at: datetime
) -> bytes:
    """Return the opening of these parties' pads; errors as `open_signed`, and `KeysError` where it is for others."""
    _, found = open_signed(OPENING_KIND, data, _OpeningBody, trust, signer=announced.holder.name, at=at)
    manifest = announced.manifest
    if found.request != _Request(manifest.session, manifest.digest, counted):
        raise KeysError("the late opening is for another session, or for other parties than those that count")
    return aggregator.unseal(found.sealed, info=_about(found.request))


def ask_by_file(
    folders: Sequence[Path],
    aggregator: Identity,
    trust: Trust,
    announced: Announcement,
    patience: float,
    counted: tuple[str, ...],
    *,
    at: datetime,
) -> bytes:
    """Write the request to SESSION.request in all folders, wait `patience` seconds for a SESSION.opening; return that.

    What does not count there is named in the log, and waited out: it may be half a copy. `at` is when the session was
    opened under `trust`, whose revocation lists may end while it runs. Raises `OSError` where the request can be
    written nowhere.
    """
    files = [_files(folder, announced.manifest) for folder in folders]
    document = request(aggregator, announced.manifest, counted)
    unwritten = _unwritten(document, [asked for asked, _ in files])
    if len(unwritten) == len(files):
        raise unwritten[files[0][0]]
    arrivals = Arrivals(RoleLog(announced.manifest.session.hex()))

    def read(data: bytes) -> bytes:
        return read_opening(data, aggregator, trust, announced, counted, at=at)

    deadline = time.monotonic() + patience
    while True:
        for _, answer in files:
            if (opening := arrivals.take(answer, read)) is not None:
                return opening
        if time.monotonic() > deadline:
            why = "".join(f"; what is there does not count: {each}" for each in arrivals.skipped.values())
            raise EvaluationError(
                f"the key holder has not opened the sum of {len(counted)} parties' pads: it makes "
                f"{files[0][1].name} of {str(files[0][0])!r} by `fhe-auc keys open-late`{why}"
            )
        time.sleep(_PAUSE)
        unwritten = _unwritten(document, unwritten)


def _unwritten(document: bytes, files: Iterable[Path]) -> dict[Path, OSError]:
    """Write a document to files; return those to which that has failed, and why."""
    failures: dict[Path, OSError] = {}
    for file in files:
        try:
            write_atomically(file, document, mode=SHARED)
        except OSError as error:
            failures[file] = error
    return failures


@contextmanager
def answering_by_file(
    store: KeyStore, holder: Identity, trust: Trust, folder: Path, manifest: Manifest
) -> Iterator[None]:
    """Answer this session's request in `folder` meanwhile; in the end, close the store, and raise as `open_late`."""
    ended, errors = Event(), list[Exception]()
    asked, opening = _files(folder, manifest)

    def answer() -> None:
        while not ended.wait(_PAUSE):
            if asked.exists():
                try:
                    made = open_late(store, holder, trust, asked.read_bytes(), at=datetime.now(timezone.utc))
                    write_atomically(opening, made, mode=0o600)
                except Exception as error:
                    errors.append(error)
                return

    thread = Thread(target=answer, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        store.close()
    if errors:
        raise errors[0]


def _files(folder: Path, manifest: Manifest) -> tuple[Path, Path]:
    name = manifest.session.hex()
    return folder / f"{name}.request", folder / f"{name}.opening"


def is_held(store: KeyStore, session: bytes) -> bool:
    """Return whether a session can still be opened late, from here."""
    return session.hex() in store.names("late") and bool(held_in(store, session).seeds)


def erase(store: KeyStore, session: bytes) -> None:
    """Erase a session's seeds and secret key, where they are held here; an opening that was made stays."""
    if is_held(store, session):
        left = msgspec.structs.replace(held_in(store, session), context=b"", seeds=())
        store.put("late", session.hex(), _FORMAT.frame(left), replace=True)


def held_in(store: KeyStore, session: bytes) -> _Held:
    """Return what is kept of a session held here; errors as `fhe_auc_keys.store.key_store.KeyStore.load`."""
    return store.load("late", session.hex(), _FORMAT)


def _pads(manifest: Manifest) -> padded_roles.SealedPads | None:
    """Return the key mode of a session in which a key holder opens pads; None for another."""
    plugin = registry.load(manifest.protocol)
    mode = plugin.mode_of(manifest) if isinstance(plugin, EncryptedProtocol) and manifest.keys == "sealed" else None
    return mode if isinstance(mode, padded_roles.SealedPads) else None


def _check_counted(manifest: Manifest, asked: _Request) -> None:
    """Raise `KeysError` where a request is of another manifest, or its names cannot be those that count."""
    named = set(asked.counted)
    in_order = tuple(party for party in manifest.parties if party in named)
    if asked.manifest != manifest.digest or asked.counted != in_order or len(in_order) < manifest.min_parties:
        raise KeysError(
            "the request is for another session, or its parties are not some of the session's, each once and in its "
            f"order, and at least {manifest.min_parties}"
        )


def _about(asked: _Request) -> bytes:
    """Return what the seal of an opening is bound to."""
    return signed_bytes(OPENING_KIND.purpose, encode(asked))
