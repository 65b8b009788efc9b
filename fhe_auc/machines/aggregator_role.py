"""The aggregator's part in a session, as its configuration says, over any transport: `passes`, and `run`.

A pass takes what has arrived, closes the round where that is due, sends the next message, and returns: it never sleeps.
Who is awaited, why, and until when, the journal's status says.
"""

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.names import HELPER
from fhe_auc.machines.site_state import Joined, site_storage
from fhe_auc.question import thresholds as grids
from fhe_auc.session.aggregator import Aggregator, SessionRecord
from fhe_auc.session.journal import Journal, is_finished, read_record
from fhe_auc.session.manifest import Manifest

DEFAULTS: Mapping[str, str | int | float] = {
    "session": "",
    "store": "",
    "passphrase-file": "",
    "protocol": "",
    "thresholds": "",
    "min-parties": 0,
    "round-timeout": 86_400.0,
    "close-at": 0,
    "journal": "",
}
"""The entries that `run` reads of a configuration, with their defaults."""


class Transport(ABC):
    """Carries the messages of one session, whose aggregator has keys; a round may take `timeout` seconds."""

    close_at = 0  # set before the session starts, where round 1 ends with so many submissions; 0: it waits for all

    def __init__(self, aggregator: Aggregator, journal: Journal, timeout: float) -> None:
        if aggregator.protection is None:
            raise EvaluationError("between machines messages are sealed and signed, and the aggregator has no keys")
        self.aggregator = aggregator
        self.journal = journal
        self.timeout = timeout
        self._told: dict[str, Any] = {}
        self.log = RoleLog(aggregator.manifest.session.hex())
        self.failures: dict[str, str] = {}  # by party, or its node: why there is no answer in this round
        self.skipped: dict[str, str] = {}  # by file: why it does not count
        self.stuck: list[str] = []  # of these, what stays as it is
        self.trouble = ""  # what is wrong on this side
        self.clocks: dict[str, tuple[float, str]] = {}  # by member: when it was heard, and how far its clock is off
        self.replaced: tuple[int, str] = 0, ""  # how often others have changed what it has written, and what last
        self.left_out: dict[str, str] = {}  # parties that have submitted and do not count, and why

    @abstractmethod
    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes] | float]:
        """Send a message to all parties; yield (party, submission) until all have answered, or the time is over.

        Where there is nothing to do for a while, that is yielded, in seconds; or it waits itself. Parties whose
        submission the aggregator has already, from before a crash, are not asked.
        """

    def awaited(self) -> list[str]:
        """Return the parties whose submission of this round is waited for: nobody, once those that are in will do."""
        asked = self.aggregator.asked
        missing = [party for party in asked if not self.aggregator.has_accepted(party)]
        enough = self.close_at and self.aggregator.round == 1 and len(asked) - len(missing) >= self.close_at
        return [] if enough else missing

    def tell(self, awaited: Mapping[str, str], deadline: float) -> None:
        """Write down who is awaited, and why, where that has changed; the round ends at `deadline` (monotonic)."""
        aggregator = self.aggregator
        state: dict[str, Any] = {"round": aggregator.round, "awaited": dict(awaited)}
        told: dict[str, Any] = {"skipped": dict(self.skipped), "left-out": dict(self.left_out), "stuck": self.stuck}
        told |= {
            "clocks": dict(self.clocks),
            "trouble": self.trouble,
            "replaced": self.replaced if self.replaced[0] else (),
        }
        state |= {name: found for name, found in told.items() if found}
        if state != self._told:
            self._told = state
            self.journal.tell(
                deadline=deadline,
                session=aggregator.manifest.session.hex(),
                rounds=aggregator.rounds,
                counted=len(aggregator.counted),
                **state,
            )


Connect: TypeAlias = Callable[[Aggregator, Journal, float], Transport]
"""Makes the transport of an aggregator with its journal, of which a round may take so many seconds."""


def run(config: Mapping[str, Any], connect: Connect) -> SessionRecord:
    """Play the aggregator of one session to its end; parameters, result and errors as of `passes`."""
    session = passes(config, connect)
    while True:
        try:
            time.sleep(next(session))
        except StopIteration as ended:
            record: SessionRecord = ended.value
            return record


def passes(
    config: Mapping[str, Any], connect: Connect, files: Mapping[str, bytes] | None = None, clock: Clock = SYSTEM
) -> Generator[float, None, SessionRecord]:
    """Play the aggregator of one session, or go on with it; return who took part, which is written down as well.

    After each pass it yields the seconds until the next one. Who breaks it off closes it, and may begin anew.

    Of the configuration, ``session`` (the announcement, beside which a bundle may lie; `files`, if given, are what is
    in them), ``store`` and ``passphrase-file`` are as the plug-in of `fhe_auc.machines.site_state` takes them.
    ``protocol``, ``thresholds``, ``min-parties``: what the session must be for; empty takes any. ``round-timeout``:
    seconds that a round may take. ``close-at``: with how many submissions the first round ends, whoever else may come;
    0 waits for all. ``journal``: folder of `fhe_auc.session.journal`, by default beside ``session``; where it holds a
    session that has begun, that goes on.

    Events are logged (`fhe_auc.base.logs`); the session's beginning and end are in the role's audit trail. Raises
    `InputError` where configuration and session do not fit; `EvaluationError`, which names the sites to blame, where
    the session could not be finished, or another process runs it.
    """
    with Journal(journal_folder(config), clock) as journal:
        before = read_record(journal.folder)
        if before is not None and "counted" not in before:  # whoever waits for it is to see this run's
            journal.forget_record()
            before = None
        finished = is_finished(before)
        try:
            timeout = float(config.get("round-timeout") or DEFAULTS["round-timeout"])
            if not 0 < timeout < math.inf:
                raise InputError(f"round-timeout must be a number of seconds above 0, got {timeout}")
            config = {**config, "round-timeout": timeout}
            joined = site_storage(clock).aggregator(config, files)
            journal.bind(joined.manifest.session)
            if before is not None and finished:
                RoleLog(before["session"]).info("finished: all %d sites have its result", len(before["delivered"]))
                return SessionRecord.from_dict(before)
            joined.records.note("started")
            try:
                record = yield from _conducted(config, joined, journal, connect)
            except Exception as error:
                with contextlib.suppress(OSError):
                    joined.records.note("stopped", error=type(error).__name__)
                raise
            told = record.as_dict()
            joined.records.note("ended", **{name: told[name] for name in ("counted", "missing", "delivered")})
        except Exception as error:
            failure = {"error": {"type": type(error).__name__, "message": str(error)}}
            with contextlib.suppress(OSError):  # the disk may be what failed
                if not finished:
                    journal.keep_record({**(before or {}), **failure})
            raise
        journal.keep_record(told)
        return record


def journal_folder(config: Mapping[str, Any]) -> Path:
    """Return the folder of a session's journal; raise `InputError` where no session is configured."""
    if not config.get("session"):
        raise InputError("session is not configured")
    return Path(str(config.get("journal") or f"{config['session']}.journal"))


def _conducted(
    config: Mapping[str, Any], joined: Joined, journal: Journal, connect: Connect
) -> Generator[float, None, SessionRecord]:
    manifest, timeout = joined.manifest, config["round-timeout"]
    _require(manifest, config)
    aggregator = joined.aggregator()
    aggregator.journal = journal
    transport = connect(aggregator, journal, timeout)
    transport.close_at = int(config.get("close-at") or 0)
    log, parties = transport.log, len(manifest.parties)
    log.info("the session begins, or goes on: %s, %d parties", manifest.protocol, parties)
    try:
        message: bytes | None = aggregator.start()
        while message is not None:
            yield from _round(transport, aggregator, message)
            message = aggregator.finish_round()
        record = aggregator.result()
    except EvaluationError as error:
        few = isinstance(error, TooFewPartiesError)
        advice = ": have them answer, or ask for a session without them" if few else ""
        reasons = {**transport.failures, **aggregator.refusals}  # what is known of the sites that did not answer
        if told := "; ".join(f"{who}: {why}" for who, why in list(reasons.items())[:10]):
            raise type(error)(f"{error} [{told}]{advice}") from None
        raise
    ended = "the session has ended: %d of %d parties counted, %d have confirmed the last round"
    log.info(ended, len(record.counted), parties, len(record.delivered))
    return record


def _round(transport: Transport, aggregator: Aggregator, message: bytes) -> Iterator[float]:
    """Send a round's message, and take what comes, until nobody is awaited any more; yield pauses."""
    log, awaited = transport.log, len(transport.awaited())
    log.round = aggregator.round
    log.info("round %d of %d: %d bytes for each party, %d awaited", log.round, aggregator.rounds, len(message), awaited)
    transport.failures = {}
    for party, why in aggregator.refusals.items():
        if aggregator.round > 1 and party not in (*aggregator.counted, *transport.left_out, HELPER):
            transport.left_out[party] = why
            log.warning("left out: %s", why, extra={"party": party})
    for arrived in transport.exchange(message):
        if isinstance(arrived, float):
            yield arrived
            continue
        party, submission = arrived
        known = aggregator.has_accepted(party)
        try:
            aggregator.receive(party, submission)
        except MessageError as error:
            log.warning("%s", error)
        if not known and aggregator.has_accepted(party):
            awaited -= 1
            transport.failures.pop(party, None)
            log.info("submission of %d bytes accepted, %d awaited", len(submission), awaited, extra={"party": party})
    for party in transport.awaited():
        why = transport.failures.get(party, "why is not known")
        log.warning("no submission in this round: %s", why, extra={"party": party})


def _require(manifest: Manifest, config: Mapping[str, Any]) -> None:
    protocol, thresholds, least = (config.get(name) for name in ("protocol", "thresholds", "min-parties"))
    if protocol and protocol != manifest.protocol:
        raise InputError(f"the session is for protocol {manifest.protocol!r}, not {protocol!r}")
    if thresholds and not np.array_equal(grids.resolve(str(thresholds)), manifest.thresholds):
        raise InputError(f"the session is not for the thresholds {thresholds!r}")
    if least and int(least) != manifest.min_parties:
        raise InputError(f"the session goes on from {manifest.min_parties} parties on, not from {least}")
    enough = int(config.get("close-at") or 0)
    least, most = manifest.min_parties, len(manifest.parties)
    if enough and not least <= enough <= most:
        remedy = ": leave it out, or have sessions made with a helper and --min-parties" if least == most else ""
        raise InputError(f"close-at: submissions close with {least} to {most} of them, not {enough}{remedy}")
