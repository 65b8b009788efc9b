"""A party that is saved and restored between all rounds plays the same session, in every installed protocol."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, EvaluationError, MessageError
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.party import Party
from fhe_auc.session.protocol import Delivery, Protocol, Request, Session
from tests.support.pooled import exact_auc, rounding

GRID = np.linspace(0, 1, 16)
OPTIONS: dict[str, dict[str, Any]] = {
    "boundaries-federated": {"bins": 4},
    "boundaries-distributed-dp": {"bins": 4, "epsilon": 4.0, "height": 6},
    "boundaries-local-dp": {"bins": 4, "epsilon": 4.0, "height": 6},
    "dpauc-gaussian": {"epsilon": 4.0, "delta": 1e-5},
    "dpauc-laplace": {"epsilon": 4.0},
    "dpauc-rr": {"epsilon": 4.0},
    "histogram-distributed-dp": {"epsilon": 4.0},
    "histogram-local-dp": {"epsilon": 4.0},
    "ustat-hierarchy": {"epsilon": 4.0},
    "ustat-krr": {"epsilon": 4.0},
}


class Play:
    """A session whose parties go on, after every answer, as a copy made from what was saved."""

    def __init__(self, sites: list[PartyData], protocol: str) -> None:
        self.plugin: Protocol[Any] = registry.load(protocol)
        self.sites = {data.name: data for data in sites}
        request = Request(parties=tuple(self.sites), thresholds=GRID, options=OPTIONS.get(protocol, {}))
        self.session: Session = self.plugin.prepare(request)
        self.delivery: Delivery = self.session.delivery()
        self.aggregator: Aggregator = self.plugin.aggregator(self.session.manifest, self.delivery.aggregator)
        self.parties = {name: self.made(name) for name in self.sites}

    def made(self, name: str, state: bytes | None = None) -> Party[Any]:
        party = self.plugin.party(self.session.manifest, self.delivery.parties[name], self.sites[name])
        if state is not None:
            party.restore(state)
        return party

    def answered(self, message: bytes) -> bytes | None:
        for name, party in self.parties.items():
            self.aggregator.receive(name, party.respond(message))
            if not party.ended:
                self.parties[name] = self.made(name, party.saved())
                assert self.parties[name].saved() == party.saved()
        return self.aggregator.finish_round()

    def until_last(self) -> bytes:
        message = self.aggregator.start()
        while self.aggregator.round < self.aggregator.rounds:
            message = self.answered(message)  # type: ignore[assignment]
        return message


@pytest.fixture(scope="module")
def semi_honest(site_rows: list[PartyData]) -> tuple[Play, bytes]:
    play = Play(site_rows, "semi-honest")
    return play, play.until_last()


@pytest.mark.parametrize("protocol", registry.names())
def test_saved_and_restored_between_all_rounds_a_party_gets_what_it_would_have_got(
    protocol: str, site_rows: list[PartyData]
) -> None:
    play = Play(site_rows, protocol)
    last = play.until_last()
    name, party = next(iter(play.parties.items()))
    copy = play.made(name, party.saved())
    for each in (party, copy, *list(play.parties.values())[1:]):
        each.respond(last)
    found, again = ({**plain(each.result()), "seconds": None} for each in (party, copy))
    assert found == again
    outcome = party.result()
    assert outcome.rounds == play.aggregator.rounds
    assert set(outcome.seconds) >= {"submit", "recover"}  # what was measured before a restart is not forgotten
    if isinstance(outcome, Evaluation) and not np.isnan(outcome.binning_error):
        assert outcome.auc == pytest.approx(exact_auc(site_rows, GRID), abs=1e-6 + rounding(outcome.decimals))


def plain(outcome: Any) -> dict[str, Any]:
    found = {each.name: getattr(outcome, each.name) for each in dataclasses.fields(outcome)}
    if (histogram := found.get("histogram")) is not None:
        found["histogram"] = [histogram.edges.tolist(), histogram.positives.tolist(), histogram.negatives.tolist()]
    return {key: repr(value.tolist() if isinstance(value, np.ndarray) else value) for key, value in found.items()}


def test_a_restored_party_refuses_what_the_saved_one_would(semi_honest: tuple[Play, bytes]) -> None:
    play, last = semi_honest
    name, party = next(iter(play.parties.items()))
    copy = play.made(name, party.saved())
    opening = play.plugin.aggregator(play.session.manifest, play.delivery.aggregator).start()
    with pytest.raises(MessageError, match="with round 1, expected 2"):
        copy.respond(opening)
    copy.respond(last)
    assert len(copy.saved()) < 400  # nothing of what it kept is needed any more
    ended = play.made(name, copy.saved())
    with pytest.raises(MessageError):
        ended.respond(last)
    with pytest.raises(EvaluationError, match="the process that ended the session had it"):
        ended.result()


def test_a_state_is_refused_that_is_damaged_or_another_partys_or_sessions(
    semi_honest: tuple[Play, bytes], site_rows: list[PartyData]
) -> None:
    play, _ = semi_honest
    (north, party), (south, other) = list(play.parties.items())[:2]
    with pytest.raises(DeserialisationError, match="another session or party"):
        play.made(south, party.saved())
    with pytest.raises(DeserialisationError, match="another session or party"):
        Play(site_rows, "semi-honest").made(north, party.saved())
    state = party.saved()
    for position in (0, 7, 20, len(state) - 1):
        with pytest.raises(DeserialisationError):
            play.made(north, state[:position] + bytes([state[position] ^ 1]) + state[position + 1 :])
    with pytest.raises(EvaluationError, match="has begun already"):
        party.restore(other.saved())
