"""Both roles survive what fails, and compare who counted (protocol: nothing). What they refuse: any session."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from fhe_auc.base.errors import EvaluationError, MessageError, TooFewPartiesError
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.party import too_near, too_near_for_a_result
from fhe_auc.session.protocol import Request
from nothing_protocol import Adding, Nothing, Telling
from tests.support.roles import SessionRoles, unencrypted


@pytest.fixture
def roles(site_rows: list[PartyData]) -> SessionRoles:
    return unencrypted(Nothing(), site_rows, thresholds=np.linspace(0, 1, 16), min_parties=2)


def test_below_min_parties_ten_of_the_missing_are_named_at_most() -> None:
    request = Request(parties=tuple(f"site {number}" for number in range(30)), thresholds=np.linspace(0, 1, 16))
    aggregator = Nothing().aggregator(Nothing().prepare(request).manifest, b"")
    aggregator.start()
    with pytest.raises(TooFewPartiesError) as caught:
        aggregator.finish_round()
    text = str(caught.value)
    assert text.startswith("0 of 30 parties submitted, at least 30 are needed; missing: 'site 0', ")
    assert text.endswith("'site 9', …")
    assert text.count("site ") == 10


def test_a_party_that_cannot_submit_ends_for_good_and_a_round_that_cannot_be_closed_stays_open(
    roles: SessionRoles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> bytes:
        raise EvaluationError("fails on purpose")

    with monkeypatch.context() as patched:
        patched.setattr(Telling, "answer", fails)
        opening, north = roles.aggregator.start(), Nothing().party(roles.session.manifest, b"", roles.sites[0])
        for error, why in ((EvaluationError, "fails on purpose"), (MessageError, "has ended for party 'north'")):
            with pytest.raises(error, match=why):
                north.respond(opening)
            assert (north.ended, north.bytes_sent) == (True, 0)
    monkeypatch.setattr(Adding, "close", fails)
    for party in roles.parties:
        roles.aggregator.receive(party.name, party.respond(opening))
    for _ in range(2):
        with pytest.raises(EvaluationError, match="fails on purpose"):
            roles.aggregator.finish_round()
    assert roles.aggregator.round == 1


# --- Who counted ------------------------------------------------------------------------------------------------------


ALL = tuple(f"site {number:02}" for number in range(16))


def without(*away: int) -> tuple[str, ...]:
    return tuple(name for number, name in enumerate(ALL) if number not in away)


@pytest.mark.parametrize(
    ("away", "before", "most_away", "told"),
    [
        ((), (), 0, ()),
        ((3,), (), 0, (3,)),
        ((), (3,), 0, (3,)),  # it is back, which tells the same
        ((3,), (), 1, ()),
        ((3,), (4,), 1, ()),
        ((3, 4), (), 1, (3, 4)),
        ((0, 1, 2, 3), (), 0, (0, 1, 2, 3)),
        ((0, 1, 2, 3), (), 4, ()),
        ((0, 1, 2, 3, 4), (), 0, ()),
        ((0, 1, 2, 3, 4), (4, 5, 6, 7, 8, 9), 0, (0, 1, 2, 3)),
        ((0, 1, 2, 3, 4), (5, 6, 7, 8, 9), 0, ()),
    ],
)
def test_sites_in_one_list_alone_are_none_as_many_as_agreed_or_five(
    away: Sequence[int], before: Sequence[int], most_away: int, told: Sequence[int]
) -> None:
    found = too_near(without(*away), [ALL, without(*before)], most_away)
    assert found == tuple(ALL[each] for each in told)


def test_a_list_is_compared_with_all_before_it_since_two_wide_steps_end_one_site_away_from_the_first() -> None:
    first, second, third = without(0, 1, 2, 3, 4), without(*range(10)), without(0, 1, 2, 3)
    assert not too_near(first, [ALL], 0)
    assert not too_near(second, [ALL, first], 0)
    assert not too_near(third, [second], 0)  # of the last one alone, nothing shows
    assert too_near(third, [second, first], 0) == (ALL[4],)


def test_sums_of_several_lists_tell_no_site_either_though_each_pair_is_five_sites_apart() -> None:
    some, others, with_one_more = range(5), range(5, 10), range(11)
    opened = [ALL, without(*some), without(*others)]
    assert not any(too_near(without(*with_one_more), [each], 0) for each in opened)
    # All less both others, less what the last one lacks, is the site that only the last one lacks.
    assert too_near(without(*with_one_more), opened, 0) == (ALL[10],)
    assert not too_near(without(*with_one_more), opened, 1)


def test_whatever_five_or_more_sites_are_away_no_lists_opened_tell_fewer() -> None:
    opened: list[tuple[str, ...]] = [ALL]
    for away in combinations(range(16), 5):
        if not too_near(without(*away), opened, 0):
            opened.append(without(*away))
    assert len(opened) == 3
    cells = Counter(tuple(site in each for each in opened) for site in ALL)
    assert min(cells.values()) == 5
    for one, other in combinations(opened, 2):
        assert not 0 < len(set(one) - set(other)) < 5
        assert not 0 < len(set(other) - set(one)) < 5


def test_the_error_names_the_sites_one_remedy_and_two_that_tell_their_counts() -> None:
    safe, telling = str(too_near_for_a_result(("north", "south"))).split("These two tell them")
    assert all(said in safe for said in ("'north', 'south'", "session make --again"))
    assert all(said in telling for said in ("most-away", "session of fewer parties"))
