"""A party's side of a session's rounds: it answers the aggregator's messages, and reads the result.

`Party` does what is the same everywhere: envelopes, checks, order, costs. What its answers carry makes its `PartySide`,
which has the computation and the keys: one for each way of holding keys (`fhe_auc_keys.roles`), and one for protocols
without keys. A session's helper answers in the same frame. A party whose process ends after each answer goes on in the
next one: `Party.saved`, `Party.restore`. The other side, and the order of calls, are in `fhe_auc.session.aggregator`.

Two results of the same rows tell what lies between their lists of who counts: of one site in one list alone, its exact
counts. So a list is compared with every list of the same question that this role knows a result of, and with all
parties of the session: not with the last alone, as two steps of five sites and of six can lead to a list that one site
tells from the first. Sums and differences of more lists tell the counts of *cells*: of sites that all these lists have
or lack together. So a list must not part fewer than five sites from the others of their cell either.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Generic, TypeVar

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError
from fhe_auc.base.names import AGGREGATOR, HELPER, MAX_CHARACTERS
from fhe_auc.base.serialise import SecretStruct, frame, unframe
from fhe_auc.results.evaluation import Outcome
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import ENVELOPE_BYTES, MAC_KEY_BYTES, Message, Protection, Rounds, require_protection

R = TypeVar("R", bound=Outcome)  # what a session yields to each party

ENOUGH_APART = 5  # sites; the sum of so many sites' counts may be told
_LISTED_BYTES = 4 * MAX_CHARACTERS + 48  # of a party in the aggregator's list, at most: its name in UTF-8, a digest
_STATE_MAGIC = b"fhestat"


class WhoCounts:
    """Who counts in a session, as one of its parties or its helper knows it."""

    def __init__(self, manifest: Manifest, name: str) -> None:
        self._manifest, self._name = manifest, name
        self.protection: Protection | None = None  # this role's, for what parties tell each other
        self.listed: tuple[str, ...] = ()  # in signed sessions, as it was told last; a helper, as it decided
        self.earlier: Sequence[Collection[str]] = ()  # lists that this one is compared with (`too_near`)
        self.unpadded: tuple[str, ...] = ()  # of a helper: the parties whose pads its last answer took off
        self.unproved: tuple[str, ...] = ()  # and those whose input proofs did not hold

    def take(self, submissions: Sequence[tuple[str, bytes]], sent: bytes) -> None:
        """Take the aggregator's list; `MessageError` unless it has enough parties, and this one's submission `sent`."""
        listed, least = dict(submissions), self._manifest.min_parties
        strangers = set(listed) - set(self._manifest.parties)
        if strangers or len(listed) != len(submissions):
            raise MessageError("the list of submissions names a stranger, or a party twice", field="submissions")
        if len(listed) < least:
            raise MessageError(f"{len(listed)} submissions count, at least {least} are needed", field="submissions")
        if not sent or listed.get(self._name) != sent:
            raise MessageError(f"what party {self._name!r} submitted does not count", field="submissions")
        self.listed = tuple(sorted(listed))

    def check_number(self, parties: int) -> None:
        """Raise `DeserialisationError` where a result claims fewer parties than are needed, or more than there are."""
        most = len(self.listed) or len(self._manifest.parties)
        if not self._manifest.min_parties <= parties <= most or (self.listed and parties != most):
            raise DeserialisationError(f"{parties} parties counted, of {most}")

    def check(self, counted: tuple[str, ...]) -> None:
        """Raise `DeserialisationError` where these cannot be the parties that count, this one among them."""
        named = frozenset(counted)
        if counted != tuple(party for party in self._manifest.parties if party in named):
            raise DeserialisationError("the parties counted are not some of the session's, each once and in its order")
        if self.listed and named != frozenset(self.listed):
            raise DeserialisationError("the parties counted are not those whose submissions the aggregator has listed")
        if self._name not in named:
            raise DeserialisationError(f"what party {self._name!r} submitted does not count")
        self.check_number(len(counted))

    def too_near(self, counted: Collection[str]) -> tuple[str, ...]:
        """Return what `too_near` does of a list of who counts."""
        study = self._manifest.study
        return too_near(counted, self.earlier, 0 if study is None else study.most_away)


class PartySide(ABC, Generic[R]):
    """What a party's answers carry; it has a computation, and the keys that the party has.

    Its methods raise `DeserialisationError` for what the aggregator cannot have sent in good faith, and are as they
    were then; `EvaluationError` where the session cannot go on.
    """

    rounds: Rounds
    download_limit: int  # largest payload of the aggregator's messages, in bytes
    failure: EvaluationError | None = None  # why nothing follows its last answer

    @abstractmethod
    def answer(self, number: int, payload: bytes, who: WhoCounts) -> bytes:
        """Return what the answer of a round carries: of the first one, the submission."""

    @abstractmethod
    def read(self, payload: bytes, who: WhoCounts) -> R:
        """Return what the last message says."""

    def left_out(self, payload: bytes) -> str:
        """Return why the party does not count, where the last message says that in good faith; else an empty text."""
        return ""

    def check(self, payload: bytes, who: WhoCounts) -> None:
        """Raise `DeserialisationError` where the last message, by its own word, counts others than `who`."""

    def kept(self) -> bytes:
        """Return what it keeps between rounds, beyond what it is made from."""
        return b""

    def restore(self, kept: bytes) -> None:
        """Take what `kept` has returned; raise `DeserialisationError` where it cannot be that."""
        if kept:
            raise DeserialisationError("the state is that of another kind of party")


class _PartyState(SecretStruct, frozen=True):
    manifest: bytes
    party: str
    round: int
    ended: bool
    sent: bytes  # `Message.digest` of what it submitted last
    bytes_sent: int
    bytes_received: int
    seconds: dict[str, float]
    own: bytes  # `PartySide.kept`
    mac_key: bytes


class Party(Generic[R]):
    """A party of a session, or its helper; raises `EvaluationError` where the manifest has none of its name.

    It answers each round once. It cannot ensure that its *site* submits once: another party, made of the same material,
    would submit again, under secrets that are for one use (zero-sum masks, authenticators), and two results tell how
    the rows differ. `fhe_auc.machines.answers.answer` ensures that, across processes and crashes, and compares the
    number of rows with the site's cap; whoever makes parties without it must do both (`Study.require_rows`).
    """

    def __init__(self, manifest: Manifest, name: str, side: PartySide[R]) -> None:
        self._helps = name == HELPER and manifest.keys == "helper"
        if name not in manifest.parties and not self._helps:
            raise EvaluationError(f"{name!r} is not a party of this session")
        self.manifest = manifest
        self.digest = manifest.digest
        self.name = name
        self.who = WhoCounts(manifest, name)
        self.protection: Protection | None = None  # set before the first message of a session between machines
        self.own_warnings: tuple[str, ...] = ()  # warnings about this party's own rows, for its own result alone
        self.bytes_sent = 0
        self.bytes_received = 0
        self.ended = False  # whether this party answers nothing more
        self.failure: EvaluationError | None = None  # why the last answer, which nothing follows, gave no result
        self._side, self._rounds = side, side.rounds
        self.download_limit = side.download_limit  # largest payload of the aggregator's messages, in bytes
        self.last_round = side.rounds.number  # whose message has the result; it and the first one alone take rows
        everyone = range(1, side.rounds.number + 1)
        self._answered = [each for each in everyone if (each in side.rounds.of_helper) == self._helps]
        self._round = 0
        self._sent = b""
        self._mac_key = b""  # of its echo
        self._seconds: dict[str, float] = {}
        self._outcome: R | None = None

    def __reduce__(self) -> str:
        raise TypeError("a party is not pickled or copied: a second one would submit for it, too")

    @property
    def next_round(self) -> int:
        """The round that this party answers next."""
        return next((number for number in self._answered if number > self._round), self._round + 1)

    def respond(self, message: bytes) -> bytes:
        """Return the submission that answers the aggregator's message.

        In the last round the answer is the same whatever the result: `result` tells this party alone that a check has
        failed. An aggregator that learned it could choose what the check depends on. Later messages are not answered.

        Raises `MessageError` for a message that is wrong, damaged, out of order or replayed, and the party's state is
        as it was; `EvaluationError` where the session cannot go on.
        """
        started, parsed = time.perf_counter(), self._parsed(message)
        number, protection = parsed.round, self.protection
        content = parsed.unsealed if protection is None else parsed.unseal(protection, self.name if self._helps else "")
        last, payload, before = number == self._rounds.number, b"", self.who.listed
        self.who.protection = protection
        try:
            left_out = self._side.left_out(content) if last else ""
            if protection is not None and self._rounds.lists(number) and not left_out:
                self.who.take(parsed.submissions, self._sent)
            if left_out:
                raise EvaluationError(f"party {self.name!r} is left out: {left_out}")
            if last:
                self._side.check(content, self.who)
            if self.who.listed and (apart := self.who.too_near(self.who.listed)):
                raise too_near_for_a_result(apart)
            if last:
                self._outcome = self._side.read(content, self.who)
            else:
                payload = self._side.answer(number, content, self.who)
            self.failure = self._side.failure
        except DeserialisationError as error:
            self.who.listed = before
            raise MessageError(f"message of the aggregator refused: {error}", field=error.field) from None
        except EvaluationError as error:
            self.ended = True
            if not last:
                raise
            self.failure = error
        if (step := {1: "submit", self._rounds.number: "recover"}.get(number)) is not None:
            self._seconds[step] = time.perf_counter() - started
        self.ended = self.ended or self.failure is not None or number == self._answered[-1]
        return self._sends(number, payload, len(message))

    def _parsed(self, message: bytes) -> Message:
        """Return the message that is to be answered now; raise `MessageError` for another one."""
        limit = self._side.download_limit + ENVELOPE_BYTES + _LISTED_BYTES * len(self.manifest.parties)
        parsed = _parsed(message, limit)
        parsed.require_of(self.manifest, self.digest, sender=AGGREGATOR, round=self.next_round)
        if self.ended:
            raise MessageError(f"the session has ended for party {self.name!r}", field="round")
        require_protection(self.manifest, self.protection)
        return parsed

    def _sends(self, number: int, payload: bytes, received: int) -> bytes:
        """Return the submission of a round, whose message had so many bytes; the party has answered it then."""
        recipient = AGGREGATOR if self._rounds.is_sealed(number) else ""
        if self.protection is not None and number + 1 == self._rounds.echo:
            self._mac_key = secrets.token_bytes(MAC_KEY_BYTES)
            payload = self._mac_key + payload
        key = self._mac_key if number == self._rounds.echo else None
        sent = Message.of(self.manifest, self.protection, number, self.name, payload, recipient=recipient, mac_key=key)
        submission = sent.to_bytes()
        self._round, self._sent = number, b"" if self.protection is None else sent.digest
        self.bytes_received += received
        self.bytes_sent += len(submission)
        return submission

    def result(self) -> R:
        """Return what the session yields; raise `EvaluationError` where there is no result yet, or none for good."""
        if self._helps:
            raise EvaluationError("a helper has no result")
        if self.failure is not None:
            raise self.failure
        if self._outcome is None:
            why = "the process that ended the session had it" if self.ended else "the session has not ended"
            raise EvaluationError(f"party {self.name!r} has no result: {why}")
        return replace(
            self._outcome,
            study=self.manifest.study,
            keys=self.manifest.keys,
            warnings=(*self._outcome.warnings, *self.own_warnings),
            own_warnings=self.own_warnings,
            settings={**self._outcome.settings, "signed": self.protection is not None},
            seconds=self._seconds,
            rounds=len(self._answered),
            upload_bytes_per_party=self.bytes_sent,
            download_bytes_per_party=self.bytes_received,
        )

    def saved(self) -> bytes:
        """Return what another process needs to go on as this party, with the same manifest, material and rows.

        It is secret, and belongs into a key store, before the submission is sent: then no round is ever answered in two
        ways. It holds no result, and after the last round nothing secret.
        """
        secret = (b"", b"") if self.ended else (self._side.kept(), self._mac_key)
        where = self.digest, self.name, self._round, self.ended, self._sent
        return frame(_STATE_MAGIC, _PartyState(*where, self.bytes_sent, self.bytes_received, self._seconds, *secret))

    def restore(self, state: bytes) -> None:
        """Go on from what `saved` has returned.

        Raises `DeserialisationError` for a state that is damaged, of another version, session or party;
        `EvaluationError` where this party has answered already.
        """
        if self._round or self.ended:
            raise EvaluationError(f"party {self.name!r} has begun already, and is not put back")
        saved = unframe(_STATE_MAGIC, state, _PartyState, "party's state")
        if (saved.manifest, saved.party) != (self.digest, self.name) or not 0 <= saved.round <= self._rounds.number:
            raise DeserialisationError("the state is that of another session or party", field="session")
        if not saved.ended:
            self._side.restore(saved.own)
        self._round, self.ended, self._seconds = saved.round, saved.ended, saved.seconds
        self._mac_key = saved.mac_key
        self._sent, self.bytes_sent, self.bytes_received = saved.sent, saved.bytes_sent, saved.bytes_received


@lru_cache(maxsize=1)  # in one process, all parties are given the same bytes, and may keep the payload
def _parsed(message: bytes, limit: int) -> Message:
    return Message.from_bytes(message, limit=limit)


def too_near(counted: Collection[str], earlier: Iterable[Collection[str]], most_away: int) -> tuple[str, ...]:
    """Return the sites that a list, beside `earlier` ones, would tell apart; sorted, empty where a result may be made.

    They are missing from `counted`, or back in it, beside an earlier list, more than `most_away` and fewer than five;
    or the smaller parts of the cells of `earlier`, one of which has all parties, if these sites are more than
    `most_away`, and each part is fewer than five.
    """
    now, lists = frozenset(counted), [frozenset(each) for each in earlier]
    for before in lists:
        for apart in (before - now, now - before):
            if most_away < len(apart) < ENOUGH_APART:
                return tuple(sorted(apart))
    cells: dict[tuple[bool, ...], set[str]] = {}
    for site in frozenset[str]().union(*lists):
        cells.setdefault(tuple(site in each for each in lists), set()).add(site)
    # A list within one cell is no part of it: so many parties are enough for a result of their own.
    parts = (cell - now if now <= cell else min(cell & now, cell - now, key=len) for cell in cells.values())
    few = sorted(site for part in parts if len(part) < ENOUGH_APART for site in part)
    return tuple(few) if len(few) > most_away else ()


def too_near_for_a_result(apart: Iterable[str]) -> EvaluationError:
    """Return the error where these sites make a list too near to an earlier one."""
    return EvaluationError(
        f"no result: beside the results before it (or one of all parties), this one would tell the counts of "
        f"{', '.join(map(repr, apart))}, of which some lists have all and others none. Run it again when the same "
        "sites are there (session make --again). These two tell them: most-away in the study, for all sites; or a "
        "session of fewer parties, which a person agrees to at each site"
    )
