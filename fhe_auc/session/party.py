"""A party's side of a session's rounds: it answers the aggregator's messages, and reads the result.

The base class does what is the same everywhere; a protocol fills in what each answer carries. A party whose process
ends after each answer goes on in the next one: `Party.saved` and `Party.restore`. The other side, and the order of
calls, are in `fhe_auc.session.aggregator`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Generic, TypeVar

import msgspec

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError
from fhe_auc.base.names import AGGREGATOR, MAX_CHARACTERS
from fhe_auc.base.serialise import frame, unframe
from fhe_auc.results.evaluation import Outcome
from fhe_auc.session.counted_parties import not_opened, too_near
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import ENVELOPE_BYTES, Message, Protection, Rounds, in_envelope, require_protection

R = TypeVar("R", bound=Outcome)  # what a session yields to each party

_LISTED_BYTES = 4 * MAX_CHARACTERS + 48  # of a party in the aggregator's list, at most: its name in UTF-8, a digest
_STATE_MAGIC = b"fhestat"


class _PartyState(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    manifest: bytes
    party: str
    round: int
    ended: bool
    sent: bytes  # `Message.digest` of what it submitted last
    bytes_sent: int
    bytes_received: int
    seconds: dict[str, float]
    own: bytes  # what the kind of party adds

    def __repr__(self) -> str:
        return f"<state of party {self.party!r} after round {self.round} (secret)>"


class Party(Rounds, ABC, Generic[R]):
    """Base of every protocol's party; raises `EvaluationError` where the manifest has no party of its name.

    It answers each round once. It cannot ensure that its *site* submits once: another party, made of the same material,
    would submit again, under secrets that are for one use (zero-sum masks, authenticators), and two results tell how
    the rows differ. `fhe_auc.machines.site_state.answer` ensures that, across processes and crashes, and compares the
    number of rows with the site's cap; whoever makes parties without it must do both (`Study.require_rows`).
    """

    answers: tuple[int, ...] = ()  # rounds that this party answers; empty: all
    submission_round: int = 1  # in which this party submits its rows; later rounds do not need them
    download_limit: int  # largest payload of the aggregator's messages, in bytes
    protection: Protection | None = None  # set before the first message of a session between machines
    asked_alone = False  # whether the aggregator's messages are sealed to this role
    opened: tuple[str, ...] = ()  # of a helper: the parties whose pads its last answer has opened
    listed: tuple[str, ...] = ()  # in signed sessions: who counts, as this role was told last; a helper, as it decided
    earlier: Sequence[Collection[str]] = ()  # lists that this one is compared with (`counted_parties.too_near`)
    unproved: tuple[str, ...] = ()  # and those whose input proofs did not hold
    own_warnings: tuple[str, ...] = ()  # warnings about this party's own rows, for its own result alone

    def __init__(self, manifest: Manifest, name: str) -> None:
        if not self._belongs(manifest, name):
            raise EvaluationError(f"{name!r} is not a party of this session")
        self.manifest = manifest
        self.digest = manifest.digest
        self.name = name
        self.bytes_sent = 0
        self.bytes_received = 0
        self._round = 0
        self.ended = False  # whether this party answers nothing more
        self._sent = b""
        self._listed: frozenset[str] | None = None  # parties that the aggregator has listed last, in signed sessions
        self._seconds: dict[str, float] = {}
        self._outcome: R | None = None
        self.failure: EvaluationError | None = None  # why the last answer, which nothing follows, gave no result

    def respond(self, message: bytes) -> bytes:
        """Return the submission that answers the aggregator's message.

        In the last round the answer is the same whatever the result: `result` tells this party alone that a check has
        failed. An aggregator that learned it could choose what the check depends on. Later messages are not answered.

        Raises `MessageError` for a message that is wrong, damaged, out of order or replayed, and the party's state is
        as it was; `EvaluationError` where the session cannot go on.
        """
        limit = self.download_limit + ENVELOPE_BYTES + _LISTED_BYTES * len(self.manifest.parties)
        parsed = _parsed(message, limit)
        parsed.require(
            protocol=self.manifest.protocol,
            session=self.manifest.session,
            manifest=self.digest,
            sender=AGGREGATOR,
            round=self.next_round,
        )
        if self.ended:
            raise MessageError(f"the session has ended for party {self.name!r}", field="round")
        protection = require_protection(self.manifest, self.protection)
        if protection is None:
            content = parsed.unsealed
        else:
            content = parsed.opened(protection, self.name if self.asked_alone else "")
            if self._is_sealed(parsed.round - 1):
                self._check_listed(parsed)
        try:
            if self.listed and (apart := self._too_near(self.listed)):
                raise not_opened(apart)
            payload = self._answer(parsed.round, content)
        except DeserialisationError as error:
            raise MessageError(f"message of the aggregator refused: {error}", field=error.field) from None
        except EvaluationError as error:
            self.ended = True
            if parsed.round < self.rounds:
                raise
            self.failure, payload = error, b""
        self._round = parsed.round
        self.ended = self.ended or parsed.round == (self.answers or (self.rounds,))[-1]
        recipient = AGGREGATOR if self._is_sealed(parsed.round) else ""
        sent = in_envelope(self.manifest, protection, parsed.round, self.name, payload, recipient=recipient)
        submission = sent.to_bytes()
        self._sent = b"" if protection is None else sent.digest
        self.bytes_received += len(message)
        self.bytes_sent += len(submission)
        return submission

    def result(self) -> R:
        """Return what the session yields; raise `EvaluationError` where there is no result yet, or none for good."""
        if self.failure is not None:
            raise self.failure
        if self._outcome is None:
            why = "the process that ended the session had it" if self.ended else "the session has not ended"
            raise EvaluationError(f"party {self.name!r} has no result: {why}")
        return replace(
            self._outcome,
            study=self.manifest.study,
            warnings=(*self._outcome.warnings, *self.own_warnings),
            settings={**self._outcome.settings, "signed": self.protection is not None},
            rounds=len(self.answers) or self._round,
            upload_bytes_per_party=self.bytes_sent,
            download_bytes_per_party=self.bytes_received,
        )

    @staticmethod
    def _belongs(manifest: Manifest, name: str) -> bool:
        return name in manifest.parties

    @property
    def next_round(self) -> int:
        """The round that this party answers next."""
        return next((number for number in self.answers if number > self._round), self._round + 1)

    @property
    def submitted(self) -> bool:
        """Whether this party has submitted its rows."""
        return self._round >= self.submission_round

    def saved(self) -> bytes:
        """Return what another process needs to go on as this party, with the same manifest, material and rows.

        It is secret, and belongs into a key store, before the submission is sent: then no round is ever answered in two
        ways. It holds no result, and after the last round nothing secret.
        """
        own = b"" if self.ended else self._own_state()
        where = self.digest, self.name, self._round, self.ended, self._sent
        return frame(_STATE_MAGIC, _PartyState(*where, self.bytes_sent, self.bytes_received, self._seconds, own))

    def restore(self, state: bytes) -> None:
        """Go on from what `saved` has returned.

        Raises `DeserialisationError` for a state that is damaged, of another version, session or party;
        `EvaluationError` where this party has answered already.
        """
        if self._round or self.ended:
            raise EvaluationError(f"party {self.name!r} has begun already, and is not put back")
        saved = unframe(_STATE_MAGIC, state, _PartyState, "party's state")
        if (saved.manifest, saved.party) != (self.digest, self.name) or not 0 <= saved.round <= self.rounds:
            raise DeserialisationError("the state is that of another session or party", field="session")
        if not saved.ended:
            self._restore_own(saved.own)
        self._round, self.ended, self._seconds = saved.round, saved.ended, saved.seconds
        self._sent, self.bytes_sent, self.bytes_received = saved.sent, saved.bytes_sent, saved.bytes_received

    def _own_state(self) -> bytes:
        """Return what this kind of party keeps between rounds, beyond what it is made from."""
        return b""

    def _restore_own(self, own: bytes) -> None:
        """Take what `_own_state` has returned; raise `DeserialisationError` where it cannot be that."""
        if own:
            raise DeserialisationError("the state is that of another kind of party")

    def _check_listed(self, message: Message) -> None:
        """Raise `MessageError` unless the aggregator lists enough parties, among them this one with its submission."""
        if message.round == 1 and not message.submissions:
            return
        listed = dict(message.submissions)
        strangers = set(listed) - set(self.manifest.parties)
        if strangers or len(listed) != len(message.submissions):
            raise MessageError("the list of submissions names a stranger, or a party twice", field="submissions")
        if len(listed) < self.manifest.min_parties:
            raise MessageError(
                f"{len(listed)} submissions count, at least {self.manifest.min_parties} are needed", field="submissions"
            )
        if not self._sent or listed.get(self.name) != self._sent:
            raise MessageError(f"what party {self.name!r} submitted does not count", field="submissions")
        self._listed, self.listed = frozenset(listed), tuple(sorted(listed))

    def _too_near(self, counted: Collection[str]) -> tuple[str, ...]:
        """Return what `too_near` does of a list of who counts."""
        study = self.manifest.study
        return too_near(counted, self.earlier, 0 if study is None else study.most_away)

    def _check_counted(self, parties: int) -> None:
        """Raise `DeserialisationError` where a result claims fewer parties than are needed, or more than there are."""
        most = len(self.manifest.parties) if self._listed is None else len(self._listed)
        if not self.manifest.min_parties <= parties <= most or (self._listed is not None and parties != most):
            raise DeserialisationError(f"{parties} parties counted, of {most}")

    def _check_named(self, counted: tuple[str, ...]) -> None:
        """Raise `DeserialisationError` where these cannot be the parties that count, this one among them."""
        named = frozenset(counted)
        if counted != tuple(party for party in self.manifest.parties if party in named):
            raise DeserialisationError("the parties counted are not some of the session's, each once and in its order")
        if self._listed not in (None, named):
            raise DeserialisationError("the parties counted are not those whose submissions the aggregator has listed")
        if self.name not in named:
            raise DeserialisationError(f"what party {self.name!r} submitted does not count")
        self._check_counted(len(counted))

    @abstractmethod
    def _answer(self, round_number: int, payload: bytes) -> bytes:
        """Return what this party's submission of the round carries.

        In the last round it is empty, and ``self._outcome`` is set or `EvaluationError` raised.
        """


@lru_cache(maxsize=1)  # in one process, all parties are given the same bytes, and may keep the payload
def _parsed(message: bytes, limit: int) -> Message:
    return Message.from_bytes(message, limit=limit)
