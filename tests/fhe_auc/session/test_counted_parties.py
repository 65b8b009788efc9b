"""Which lists of who counts may follow one another: two results tell what lies between."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest

from fhe_auc.session.party import too_near, too_near_for_a_result

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
