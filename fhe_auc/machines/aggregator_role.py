"""The aggregator's part in a session, as its configuration says, through the places of an exchange: `passes`.

A pass takes what has arrived, closes the round where that is due, puts the next message there, and returns: it never
sleeps. Who is awaited, why, and until when, the journal's status says.
"""

import contextlib
import math
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.base.logs import RoleLog
from fhe_auc.base.names import HELPER
from fhe_auc.exchange.exchange import Arrivals, Exchange
from fhe_auc.machines.file_transport import (
    NOTHING,
    Own,
    message_name,
    newest_round,
    of_session,
    off,
    submission_name,
    time_of,
)
from fhe_auc.machines.site_state import Meeting, site_storage
from fhe_auc.question import thresholds as grids
from fhe_auc.session.aggregator import Aggregator, SessionRecord
from fhe_auc.session.journal import Journal, is_finished, read_record
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import ENVELOPE_BYTES

_DAY = 86_400.0  # seconds: what a round may take, unless configured
_POLL, _SLOW_POLL = 0.5, 5.0  # seconds; the longer it has waited, the slower
_NOT_GENUINE = "it is not whole, or not the party's for this round (the log says): it puts that back"


def passes(
    config: Mapping[str, Any], exchange: Exchange, meeting: Meeting, files: Mapping[str, bytes], clock: Clock = SYSTEM
) -> Generator[float, None, SessionRecord]:
    """Play the aggregator of one session, or go on with it; return who took part, which is written down as well.

    After each pass it yields the seconds until the next one. Who breaks it off closes it, and may begin anew.

    `files` open the session, as of `fhe_auc.machines.site_state.SiteStorage.opens`. Of the configuration, ``store`` and
    ``passphrase-file`` are as `site_storage` takes them. ``protocol``, ``thresholds``, ``min-parties``: what the
    session must be for; empty takes any. ``round-timeout``: seconds that a round may take. ``close-at``: with how many
    submissions the first round ends, whoever else may come; 0 waits for all. ``journal``: folder of
    `fhe_auc.session.journal`; where it holds a session that has begun, that goes on.

    Events are logged (`fhe_auc.base.logs`); the session's beginning and end are in the role's audit trail. Raises
    `InputError` where configuration and session do not fit; `EvaluationError`, which names the sites to blame, where
    the session could not be finished, another process runs it, or a round has begun that its journal has not sent.
    """
    with Journal(Path(str(config["journal"])), clock) as journal:
        before = read_record(journal.folder)
        if before is not None and is_finished(before):
            RoleLog(before["session"]).info("finished: all %d sites have its result", len(before["delivered"]))
            return msgspec.convert(before, SessionRecord)
        if before is not None and "counted" not in before:  # whoever waits for it is to see this run's
            journal.forget_record()
            before = None
        try:
            timeout = float(config.get("round-timeout") or _DAY)
            if not 0 < timeout < math.inf:
                raise InputError(f"round-timeout must be a number of seconds above 0, got {timeout}")
            joined = site_storage(clock).aggregator(config, files)
            joined.records.note("started")
            try:
                _require(joined.manifest, config)
                aggregator = joined.aggregator()
                aggregator.journal = journal
                rounds = _Rounds(aggregator, journal, exchange, meeting, timeout, int(config.get("close-at") or 0))
                record = yield from rounds.conducted()
            except Exception as error:
                with contextlib.suppress(OSError):
                    joined.records.note("stopped", error=type(error).__name__)
                raise
            told = msgspec.to_builtins(record)
            joined.records.note("ended", **{name: told[name] for name in ("counted", "missing", "delivered")})
        except Exception as error:
            failure = {"error": {"type": type(error).__name__, "message": str(error)}}
            with contextlib.suppress(OSError):  # the disk may be what failed
                journal.keep_record({**(before or {}), **failure})
            raise
        journal.keep_record(told)
        return record


@dataclass
class _Rounds:
    """The rounds of a session whose aggregator has keys, each of which may take `timeout` seconds.

    Round 1 ends with `close_at` submissions; 0: it waits for all.
    """

    aggregator: Aggregator
    journal: Journal
    exchange: Exchange
    meeting: Meeting
    timeout: float
    close_at: int

    def __post_init__(self) -> None:
        aggregator, journal, meeting = self.aggregator, self.journal, self.meeting
        self._log = RoleLog(aggregator.manifest.session.hex())
        self._place = meeting.place(meeting.aggregator)
        self._view = Arrivals(self.exchange, self._log, journal.clock, of_session)
        self._failures: dict[str, str] = {}  # by party: why there is no answer in this round
        self._trouble = ""  # what is wrong on this side
        self._clocks: dict[str, tuple[float, str]] = {}  # by member: when it was heard, and how far its clock is off
        self._replaced: tuple[int, str] = 0, ""  # how often others have changed what it has written, and what last
        self._left_out = set[str]()  # parties that have submitted and do not count
        self._told: dict[str, Any] = {}
        begun = newest_round(self._view, self._place, meeting.session, protection=aggregator.protection)
        journal.require_sent(begun and begun.number, self._view.shown(self._place))

    def conducted(self) -> Generator[float, None, SessionRecord]:
        """Play all rounds; yield pauses."""
        aggregator, log = self.aggregator, self._log
        parties = len(aggregator.manifest.parties)
        log.info("the session begins, or goes on: %s, %d parties", aggregator.manifest.protocol, parties)
        try:
            message: bytes | None = aggregator.start()
            while message is not None:
                yield from self._round(message)
                message = aggregator.finish_round()
            record = aggregator.result()
        except EvaluationError as error:
            few = isinstance(error, TooFewPartiesError)
            advice = ": have them answer, or ask for a session without them" if few else ""
            reasons = {**self._failures, **aggregator.refusals}  # what is known of the sites that did not answer
            if told := "; ".join(f"{who}: {why}" for who, why in list(reasons.items())[:10]):
                raise type(error)(f"{error} [{told}]{advice}") from None
            raise
        ended = "the session has ended: %d of %d parties counted, %d have confirmed the last round"
        log.info(ended, len(record.counted), parties, len(record.delivered))
        return record

    def _round(self, message: bytes) -> Iterator[float]:
        """Send a round's message, and take what comes, until nobody is awaited any more; yield pauses."""
        aggregator, log, waiting = self.aggregator, self._log, len(self._awaited())
        log.round = aggregator.round
        sent = "round %d of %d: %d bytes for each party, %d awaited"
        log.info(sent, log.round, aggregator.rounds, len(message), waiting)
        self._failures = {}
        for party, why in aggregator.refusals.items():
            if aggregator.round > 1 and party not in (*aggregator.counted, *self._left_out, HELPER):
                self._left_out.add(party)
                log.warning("left out: %s", why, extra={"party": party})
        yield from self._exchanged(message)
        for party in self._awaited():
            why = self._failures.get(party, "why is not known")
            log.warning("no submission in this round: %s", why, extra={"party": party})

    def _exchanged(self, message: bytes) -> Iterator[float]:
        """Put a message into this role's place, and take submissions until all are there, or time is over."""
        aggregator, clock, view = self.aggregator, self.journal.clock, self._view
        helps = aggregator.asked == (HELPER,)
        own = Own(view, self._place + message_name(aggregator.round, to_helper=helps), message)
        file, longest = submission_name(aggregator.round), aggregator.submission_limit + ENVELOPE_BYTES
        members = {party: self.meeting.helper if helps else party for party in aggregator.asked}
        places = {party: self.meeting.place(member) for party, member in members.items()}
        view.names(self._place)
        own.keep(lambda: message)  # else the round does not begin
        started = clock.monotonic()
        while True:
            over = clock.monotonic() > started + self.timeout
            before, self._trouble = self._trouble, ""
            view.begin()
            view.names(self._place)
            try:
                if why := own.keep(lambda: message):
                    self._replaced = self._replaced[0] + 1, f"{view.shown(own.name)}: {why}"
                    self._log.warning("%s", self._replaced[1])
            except (OSError, InputError) as error:
                self._trouble = f"the message is not there: {error}"
                if self._trouble != before:
                    self._log.warning("%s", self._trouble)
            for party in self._awaited():
                view.names(places[party])
                if (data := view.read(places[party] + file, longest)) is not None:
                    self._take(party, data)
                    if not aggregator.has_accepted(party):
                        view.name(places[party] + file, _NOT_GENUINE)
                    else:
                        why = off(time_of(data), time_of(message), clock.now().timestamp())
                        self._clocks[members[party]] = clock.monotonic(), why
            reasons = dict.fromkeys(self._awaited(), NOTHING)
            for party in reasons:
                why = view.skipped.get(places[party] + file) or view.skipped.get(places[party], "")
                reasons[party] = aggregator.refusals.get(party) or why or NOTHING
            self._tell(reasons, started + self.timeout)
            if not reasons or over:
                self._failures = {party: f"{why} in {view.shown(places[party])}" for party, why in reasons.items()}
                return
            yield max(_POLL, min((clock.monotonic() - started) / 100, _SLOW_POLL))

    def _take(self, party: str, submission: bytes) -> None:
        try:
            self.aggregator.receive(party, submission)
        except MessageError as error:
            self._log.warning("%s", error)
        if self.aggregator.has_accepted(party):
            accepted = "submission of %d bytes accepted, %d awaited"
            self._log.info(accepted, len(submission), len(self._awaited()), extra={"party": party})

    def _awaited(self) -> list[str]:
        """Return the parties whose submission of this round is waited for: nobody, once those that are in will do."""
        asked = self.aggregator.asked
        missing = [party for party in asked if not self.aggregator.has_accepted(party)]
        enough = self.close_at and self.aggregator.round == 1 and len(asked) - len(missing) >= self.close_at
        return [] if enough else missing

    def _tell(self, awaited: Mapping[str, str], deadline: float) -> None:
        """Write down who is awaited, and why, where that has changed; the round ends at `deadline` (monotonic)."""
        view = self._view
        state: dict[str, Any] = {
            "round": self.aggregator.round,
            "rounds": self.aggregator.rounds,
            "awaited": dict(awaited),
            "skipped": {view.shown(name): why for name, why in view.skipped.items()},
            "stuck": [view.shown(name) for name in view.stuck],
            "clocks": dict(self._clocks),
            "trouble": self._trouble,
            "replaced": self._replaced,
        }
        if state != self._told:
            self._told = state
            self.journal.tell(deadline=deadline, **state)


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
        remedy = ": leave it out, or have sessions made with a helper and min-parties" if least == most else ""
        raise InputError(f"close-at: submissions close with {least} to {most} of them, not {enough}{remedy}")
