"""The protocol that does nothing: its rounds, saved state, and each step's failure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, InputError, MessageError, TooFewPartiesError
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import SessionRecord, conduct
from fhe_auc.session.nothing import STEPS, Nothing
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Request

NAMES = ("north", "south", "east")
SITES = [PartyData.from_arrays(name, [0, 1] * rows, [0.25, 0.75] * rows) for rows, name in enumerate(NAMES, start=1)]
ROWS = 2 + 4 + 6


class Play:
    """All roles of one session."""

    def __init__(self, fails: str | None = None, **changes: Any) -> None:
        options = {} if fails is None else {"fails": fails}
        asked = Request(parties=NAMES, thresholds=np.linspace(0, 1, 5), options=options, **changes)
        self.session = Nothing().prepare(asked)
        self.delivery = self.session.delivery()
        self.aggregator = Nothing().aggregator(self.session.manifest, self.delivery.aggregator)
        self.parties = {data.name: self.party(data) for data in SITES}

    def party(self, data: PartyData) -> Party[Evaluation]:
        return Nothing().party(self.session.manifest, self.delivery.parties[data.name], data)

    def exchange(self, message: bytes) -> Iterator[tuple[str, bytes]]:
        for name, party in self.parties.items():
            yield name, party.respond(message)

    def submitted(self) -> Play:
        """Round 1, with everybody's submission."""
        for name, submission in self.exchange(self.aggregator.start()):
            self.aggregator.receive(name, submission)
        return self

    def run(self) -> SessionRecord:
        return conduct(self.aggregator, self.exchange)


def test_a_session_runs_and_says_nothing_of_the_model() -> None:
    play = Play()
    record = play.run()
    assert (record.counted, record.missing, record.delivered, record.refused) == (NAMES, (), NAMES, ())
    for party in play.parties.values():
        found = party.result()
        assert (found.auc, found.binning_error, found.parties, found.rounds) == (0.5, 0.5, 3, 2)
        assert f"nothing was computed of {ROWS} rows" in found.warnings


def test_every_step_is_tried_and_a_role_that_cannot_be_made_says_so_before_anything_is_sent() -> None:
    assert set(STEPS) == {"prepare", "aggregator", "party", "submit", "accept", "close", "receive", "read"}
    for step in ("prepare", "aggregator", "party"):
        with pytest.raises(InputError, match=f"^{step} fails on purpose$"):
            Play(step)
    with pytest.raises(InputError, match=r"fails must be one of prepare, aggregator, .*, got 'never'"):
        Play("never")


def test_a_party_that_cannot_submit_ends_for_good_and_one_that_refuses_a_message_stays_as_it_was() -> None:
    play = Play("submit")
    opening, north = play.aggregator.start(), play.parties["north"]
    with pytest.raises(EvaluationError, match="submit fails on purpose"):
        north.respond(opening)
    assert (north.ended, north.submitted, north.bytes_sent) == (True, False, 0)
    with pytest.raises(MessageError, match="the session has ended for party 'north'"):
        north.respond(opening)
    play = Play("receive").submitted()
    result, north = play.aggregator.finish_round(), play.parties["north"]
    assert result is not None
    before = north.saved()
    with pytest.raises(MessageError, match="message of the aggregator refused: receive fails on purpose"):
        north.respond(result)
    assert (north.saved(), north.ended, north.failure) == (before, False, None)


def test_a_submission_that_is_refused_leaves_the_session_open_as_does_a_round_that_cannot_be_closed() -> None:
    play = Play("accept")
    opening = play.aggregator.start()
    with pytest.raises(MessageError, match="submission of party 'south' refused: accept fails on purpose"):
        play.aggregator.receive("south", play.parties["south"].respond(opening))
    assert play.aggregator.refusals == {"south": "accept fails on purpose"}
    with pytest.raises(TooFewPartiesError, match="0 of 3 parties submitted"):
        play.aggregator.finish_round()
    play = Play("close").submitted()
    for _ in range(2):
        with pytest.raises(EvaluationError, match="close fails on purpose"):
            play.aggregator.finish_round()
    assert play.aggregator.round == 1


def test_an_aggregator_is_not_told_that_a_result_failed_its_check() -> None:
    good, bad = Play(), Play("read")
    assert bad.run().delivered == good.run().delivered == NAMES
    for name, party in bad.parties.items():
        assert party.bytes_sent == good.parties[name].bytes_sent
        with pytest.raises(EvaluationError, match="read fails on purpose"):
            party.result()
