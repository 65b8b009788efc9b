"""The aggregator's part in a session, as its configuration says, over any transport: `run`."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fhe_auc import thresholds as grids
from fhe_auc.errors import EvaluationError, InputError
from fhe_auc.journal import Journal, is_finished
from fhe_auc.manifest import Manifest
from fhe_auc.rounds import Aggregator, SessionRecord, conduct
from fhe_auc.site_state import Joined, site_storage

__all__ = ["DEFAULTS", "Transport", "journal_folder", "run"]

DEFAULTS: Mapping[str, str | int | float] = {
    "session": "",
    "holder": "",
    "store": "",
    "passphrase-file": "",
    "late-opening": "",
    "protocol": "",
    "thresholds": "",
    "min-parties": 0,
    "round-timeout": 86_400.0,
    "journal": "",
}
"""What `run` reads of a configuration, with what is meant where nothing is said."""


class Transport(ABC):
    """Carries the messages of one session of `aggregator`, for `run`; its `journal` is told who is awaited.

    A round may take `timeout` seconds.
    """

    def __init__(self, aggregator: Aggregator, journal: Journal, timeout: float) -> None:
        self._aggregator = aggregator
        self._journal = journal
        self._timeout = timeout
        self._told: dict[str, Any] = {}
        self.failures: dict[str, str] = {}
        """By party, or what the transport knows instead: why there was no answer in the last round."""

    @abstractmethod
    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        """Send a message to all parties; yield (party, submission) until all have answered, or the time is over.

        Parties whose submission the aggregator has already, from before a crash, are not asked.
        """

    def awaited(self) -> list[str]:
        """Return the parties whose submission of this round is still missing."""
        return [party for party in self._aggregator.counted if not self._aggregator.has_accepted(party)]

    def tell(self, awaited: Mapping[str, str], deadline: float) -> None:
        """Write down who is awaited, and why, where that has changed; the round ends at `deadline` (monotonic)."""
        aggregator = self._aggregator
        state = {"round": aggregator.round, "awaited": dict(awaited)}
        if state != self._told:
            self._told = state
            self._journal.tell(
                deadline=deadline,
                session=aggregator.manifest.session.hex(),
                rounds=aggregator.rounds,
                counted=len(aggregator.counted),
                **state,
            )


def run(
    config: Mapping[str, Any],
    connect: Callable[[Aggregator, Journal, float], Transport],
    *,
    report: Callable[[str], None],
) -> SessionRecord:
    """Play the aggregator of one session, or go on with it; return who took part, which is written down as well.

    Parameters
    ----------
    config : mapping
        ``session`` (a file from the key holder), ``holder``, ``store``, ``passphrase-file`` and ``late-opening`` are as
        the plug-in of `fhe_auc.site_state` takes them. ``protocol``, ``thresholds``, ``min-parties``: what the session
        must be for; empty takes any. ``round-timeout``: seconds that a round may take. ``journal``: folder of
        `fhe_auc.journal`, by default beside ``session``; where it holds a session that has begun, that goes on.
    connect : callable
        Takes the aggregator, its journal and a round's seconds, and returns what carries the session's messages.
    report : callable
        Told in one line what happens.

    Raises
    ------
    InputError
        The configuration is not right, or the session is not for what it says.
    EvaluationError
        The session could not be finished, or another process runs it; the text names the sites that are to blame.
    """
    with Journal(journal_folder(config)) as journal:
        before = journal.record
        if before is not None and "counted" not in before:  # whoever waits for it is to see this run's
            journal.forget_record()
            before = None
        finished = before is not None and is_finished(before)
        try:
            joined = site_storage().aggregator({**config, "round-timeout": _timeout(config)})
            journal.bind(joined.manifest.session)
            if before is not None and finished:
                report(f"session {before['session']} is finished: all {len(before['delivered'])} sites have its result")
                return SessionRecord.from_dict(before)
            record = _run(config, joined, journal, connect, report)
        except Exception as error:
            told = {"error": {"type": type(error).__name__, "message": str(error)}}
            with contextlib.suppress(OSError):  # the disk may be what failed
                if not finished:
                    journal.keep_record({**(before or {}), **told})
            raise
        journal.keep_record(record.as_dict())
        return record


def _timeout(config: Mapping[str, Any]) -> float:
    timeout = float(config.get("round-timeout") or DEFAULTS["round-timeout"])
    if not 0 < timeout < float("inf"):
        raise InputError(f"round-timeout must be a number of seconds above 0, got {timeout}")
    return timeout


def journal_folder(config: Mapping[str, Any]) -> Path:
    """Return the folder of a session's journal; raise `InputError` where no session is configured."""
    if not config.get("session"):
        raise InputError("session is not configured")
    return Path(str(config.get("journal") or f"{config['session']}.journal"))


def _run(
    config: Mapping[str, Any],
    joined: Joined,
    journal: Journal,
    connect: Callable[[Aggregator, Journal, float], Transport],
    report: Callable[[str], None],
) -> SessionRecord:
    manifest, timeout = joined.manifest, _timeout(config)
    _require(manifest, config)
    aggregator = joined.aggregator()
    aggregator.journal = journal
    transport = connect(aggregator, journal, timeout)
    if (open_late := aggregator.open_late) is not None:

        def opened(counted: tuple[str, ...]) -> bytes:
            transport.tell({"the key holder": "asked for the opening"}, time.monotonic() + timeout)
            return open_late(counted)

        aggregator.open_late = opened
    report(f"session {manifest.session.hex()}, {manifest.protocol}, {len(manifest.parties)} parties")
    try:
        found = conduct(aggregator, transport.exchange, refused=lambda error: report(str(error)))
    except EvaluationError as error:
        raise _blaming(error, transport, aggregator) from None
    report(
        f"session {found.session.hex()} ended; counted: {len(found.counted)} of {len(manifest.parties)}, "
        f"{len(found.delivered)} have confirmed the last round"
    )
    return found


def _blaming(error: EvaluationError, transport: Transport, aggregator: Aggregator) -> EvaluationError:
    """Return the error with what is known of the sites that did not answer."""
    reasons = {**transport.failures, **aggregator.refusals}
    told = "; ".join(f"{who}: {why}" for who, why in list(reasons.items())[:10])
    return type(error)(f"{error} [{told}]") if told else error


def _require(manifest: Manifest, config: Mapping[str, Any]) -> None:
    """Raise `InputError` where the session is not what the configuration says."""
    protocol, thresholds, least = (config.get(name) for name in ("protocol", "thresholds", "min-parties"))
    if protocol and protocol != manifest.protocol:
        raise InputError(f"the session is for protocol {manifest.protocol!r}, not {protocol!r}")
    if thresholds and not np.array_equal(grids.resolve(str(thresholds)), manifest.thresholds):
        raise InputError(f"the session is not for the thresholds {thresholds!r}")
    if least and int(least) != manifest.min_parties:
        raise InputError(f"the session goes on from {manifest.min_parties} parties on, not from {least}")
