"""Nights with sites away: which lists of who counts the helper opens and sites read, by what their stores remember."""

import functools
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.clock import SYSTEM
from fhe_auc.base.errors import EvaluationError, MessageError, UndefinedAucError
from fhe_auc.base.names import AGGREGATOR, HELPER
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc_keys.roles import local_consortium
from fhe_auc_keys.site.key_store_sites import Records
from tests.support.stored_sites import Consortium

HELPED = {"protocol": "histogram-federated", "keys": "helper", "max_rows": 500}
DECRYPTED = {**HELPED, "protocol": "exact"}  # by the helper, after the pads are opened
ONE_AWAY = r"no result: .* tell the counts of 'site 2'"


def rows(number: int) -> list[PartyData]:
    generator = np.random.default_rng(5)
    return [
        PartyData.from_arrays(f"site {each}", [1, 0, *(generator.random(30) < 0.4)], generator.random(32))
        for each in range(number)
    ]


SITES = rows(3)
NAMES = tuple(data.name for data in SITES)
MANY = rows(8)
FIVE_AWAY, SIX_AWAY = (tuple(data.name for data in MANY[2:end]) for end in (7, 8))
SITE_7 = r"no result: .* tell the counts of 'site 7'"


class PowerCutError(Exception):
    """The process dies."""


class Night(Consortium):
    """A session whose roles' stores remember those before; all play, but for the sites that are away."""

    def __init__(self, sites: list[PartyData], folder: Path, *before: Consortium, **request: Any) -> None:
        super().__init__(sites, folder, **{"min_parties": 2, **request})
        for night in before:
            self.remember(night)

    def remember(self, night: Consortium) -> None:
        """Have all stores know what they know of another night."""
        for name in self.made.sites.keys() & night.made.sites.keys():
            with night.store(name) as old, self.store(name) as new:
                if night.id.hex() in old.names("state"):
                    new.put("state", night.id.hex(), old.get("state", night.id.hex()))

    def done(self, party: Party[Any], records: Records) -> None:
        self.results[party.name] = party.failure or party.result()

    def played(self, *away: str, until: int = 99) -> dict[str, Any]:
        """What the sites have read in the end; they play up to a round."""
        self.adder = self.aggregator()
        return self.go_on(self.adder.start(), away, until)

    def go_on(self, message: bytes | None, away: Collection[str] = (), until: int = 99) -> dict[str, Any]:
        while message is not None and self.adder.round < until:
            for name in self.adder.asked:
                if name not in away:
                    self.adder.receive(name, self.answer(name, message))
            message = self.adder.finish_round()
        self.message = message
        return self.results


@pytest.fixture(autouse=True)
def agreed(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Set the study's most-away, at first 0, though all is on one machine."""

    def agree(most_away: int) -> None:
        study = msgspec.structs.replace(local_consortium.TRIAL, most_away=most_away)
        monkeypatch.setattr(local_consortium, "TRIAL", study)

    agree(0)
    return agree


def counts(results: dict[str, Any]) -> tuple[int, int]:
    found = results[NAMES[0]].histogram
    return int(found.positives.sum()), int(found.negatives.sum())


def test_two_nights_one_with_a_site_and_one_without_would_tell_its_counts_and_the_helper_opens_one(
    tmp_path: Path, agreed: Callable[[int], None]
) -> None:
    """Where the study lets one be away, they do tell them, also to who reads the results alone."""
    first = Night(SITES, tmp_path / "all", **HELPED)
    both = [counts(first.played())]
    second = Night(SITES, tmp_path / "refused", first, **HELPED)
    with pytest.raises(EvaluationError, match=ONE_AWAY):
        second.played(NAMES[2])
    assert second.results == {}
    assert b"helped" not in second.kept(HELPER)
    third = Night(SITES, tmp_path / "repeated", first, second, **HELPED)  # a failure is repeated, and leaves no list
    assert counts(third.played()) == both[0]

    agreed(1)
    fourth = Night(SITES, tmp_path / "agreed", first, second, third, **HELPED)
    both.append(counts(fourth.played(NAMES[2])))
    told = tuple(one - other for one, other in zip(*both, strict=True))
    assert told == (SITES[2].y_true.sum(), (~SITES[2].y_true).sum())
    fifth = Night(SITES, tmp_path / "back", first, fourth, **HELPED)
    assert counts(fifth.played()) == both[0]

    agreed(0)  # again: it was away, and would be back
    sixth = Night(SITES, tmp_path / "not back", fourth, **HELPED)
    with pytest.raises(EvaluationError, match=ONE_AWAY):
        sixth.played()


def test_a_first_night_without_a_site_is_not_opened_and_other_parties_are_another_beginning(tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match=ONE_AWAY):
        Night(SITES, tmp_path / "first", **HELPED).played(NAMES[2])
    first = Night(SITES, tmp_path / "all", **HELPED)
    first.played()
    fewer = Night(SITES[:2], tmp_path / "of fewer", first, **HELPED)  # which a person has opened at each site
    assert set(fewer.played()) == set(NAMES[:2])


def test_two_sessions_side_by_side_are_not_both_decrypted(tmp_path: Path) -> None:
    """Five sites are away in both, others in one than in the other: the helper opens all pads before either ends."""
    one, other = (Night(MANY, tmp_path / name, **DECRYPTED) for name in ("one", "other"))
    one.played(*FIVE_AWAY, until=3)
    other.played(*(data.name for data in MANY[3:]), until=3)
    assert len(one.go_on(one.message)) == 3
    other.remember(one)
    with pytest.raises(EvaluationError, match=SITE_7):
        other.go_on(other.message)
    assert other.results == {}


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"protocol": "semi-honest"}, id="keys", marks=pytest.mark.slow),
        pytest.param({"protocol": "dpauc-laplace", "options": {"epsilon": 4.0}}, id="none"),
    ],
)
def test_where_no_helper_looks_every_site_does_before_it_reads(tmp_path: Path, asked: dict[str, Any]) -> None:
    first = Night(SITES, tmp_path / "first", **asked)
    assert all(not isinstance(each, EvaluationError) for each in first.played().values())
    second = Night(SITES, tmp_path / "second", first, **asked)
    second.played(NAMES[2])
    for name in NAMES[:2]:
        assert re.match(ONE_AWAY, str(second.results[name]))
    third = Night(SITES, tmp_path / "third", first, second, **asked)
    assert all(not isinstance(each, EvaluationError) for each in third.played().values())


def test_the_same_parties_named_in_another_order_are_no_other_beginning(tmp_path: Path) -> None:
    """Agreed studies open them, so a list of them would be compared with none."""
    first = Night(MANY, tmp_path / "first", **HELPED)
    assert len(first.played(*FIVE_AWAY)) == 3
    turned = Night(MANY[::-1], tmp_path / "turned", first, **HELPED)
    with pytest.raises(EvaluationError, match=SITE_7):
        turned.played(*SIX_AWAY)
    assert turned.results == {}


def test_a_list_counts_as_read_from_before_its_result_is_written_and_where_that_is_one_label_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = SYSTEM.now() + timedelta(minutes=1)
    monkeypatch.setattr(SYSTEM, "now", lambda: at)  # the same message, made twice, is to have the same bytes

    class Dying(Night):
        def done(self, party: Party[Any], records: Records) -> None:
            super().done(party, records)
            raise PowerCutError

    cut = Dying(MANY, tmp_path / "cut")
    cut.played(*FIVE_AWAY, until=2)
    for name in cut.adder.asked:
        with pytest.raises(PowerCutError):
            cut.answer(name, cut.message)
    undefined = Night([PartyData.from_arrays(data.name, [1] * 32, data.y_score) for data in MANY], tmp_path / "one")
    undefined.played(*FIVE_AWAY)
    for first, type_of in ((cut, Evaluation), (undefined, UndefinedAucError)):
        assert {type(each) for each in first.results.values()} == {type_of}
        second = Night(MANY, tmp_path / f"after {type_of.__name__}", first)
        second.played(*SIX_AWAY)
        for name in ("site 0", "site 1"):
            assert re.match(SITE_7, str(second.results[name]))
    cut.done, cut.results = functools.partial(Night.done, cut), {}  # type: ignore[method-assign]
    shown = cut.copied(tmp_path / "shown another list")
    assert isinstance(shown, Night)
    shown.done = functools.partial(Night.done, shown)  # type: ignore[method-assign]
    assert re.match(SITE_7, str(shown.played(*SIX_AWAY)["site 0"]))
    assert set(cut.go_on(cut.message)) == {"site 0", "site 1", "site 7"}  # with power, it goes on


def test_another_helper_or_one_that_has_lost_a_session_opens_and_a_site_that_lies_reads_what_others_refuse(
    tmp_path: Path,
) -> None:
    first, second = (Night(MANY, tmp_path / name, **HELPED) for name in ("first", "second"))
    first.played(*FIVE_AWAY)
    second.remember(first)
    for name in (HELPER, "site 0"):
        with second.store(name) as store:
            store.remove("state", first.id.hex())
    second.played(*SIX_AWAY)
    assert isinstance(second.results["site 0"], Evaluation)
    assert re.match(SITE_7, str(second.results["site 1"]))


def test_a_server_that_shows_a_site_another_list_than_the_helper_s_is_refused_and_the_right_one_is_read(
    tmp_path: Path,
) -> None:
    night = Night(SITES, tmp_path / "night", **DECRYPTED)
    night.played(until=4)
    adder, message = night.adder, night.message
    listed = Message.from_bytes(message, limit=10**8)
    shown = Message.of(
        adder.manifest,
        adder.protection,
        4,
        AGGREGATOR,
        bytes(listed.payload),
        recipient="",
        submissions=listed.submissions[:2],
    )
    for name in NAMES:
        with pytest.raises(MessageError, match=r"not those whose submissions|does not count"):
            night.answer(name, shown.to_bytes())
    assert set(night.go_on(message)) == set(NAMES)
    assert night.results[NAMES[0]].positives == sum(data.y_true.sum() for data in SITES)
