"""Sessions in which sites are away or vanish: the real roles need no more answers than the study's figure says."""

from __future__ import annotations

from math import comb

import pytest

from dropouts import ABSENCES, KEYS, SITES, ends, needed, play, probability
from fhe_auc.session.plan import Keys


@pytest.mark.parametrize("keys", KEYS)
def test_the_real_roles_end_sessions_by_the_rule_that_the_figure_is_drawn_by(keys: Keys) -> None:
    """Every number of three sites that submit, and of these that stay."""
    sites, least = 3, 3 if keys == "joint" else 2
    for submitted in range(sites + 1):
        for stayed in range(submitted + 1):
            away, vanished = range(submitted, sites), range(stayed, submitted)
            assert play(keys, sites, least, away, vanished) is ends(keys, sites, least, submitted, stayed)


def test_with_a_helper_34_of_40_sites_are_enough_though_33_of_them_vanish_and_33_are_not() -> None:
    assert play("helper", 40, 34, away=range(34, 40), vanished=range(1, 34))
    assert not play("helper", 40, 34, away=range(33, 40), vanished=())


def test_with_a_helper_40_sites_each_away_5_percent_of_the_time_have_a_result_in_99_of_100_sessions() -> None:
    """With sums of binomial coefficients, by hand."""

    def at_least(least: int, sites: int) -> float:
        return sum(comb(sites, away) * 0.05**away * 0.95 ** (sites - away) for away in range(sites - least + 1))

    for vanishing in (0.0, 0.05):
        assert probability("helper", 40, 34, 0.05, vanishing) == pytest.approx(at_least(34, 40), abs=1e-12)
    assert at_least(34, 40) > 0.99
    assert at_least(35, 40) == pytest.approx(0.986, abs=5e-4)
    for sites, all_there in ((40, 0.129), (50, 0.077)):
        assert probability("joint", sites, sites, 0.05) == pytest.approx(at_least(sites, sites), abs=1e-12)
        assert probability("sealed", sites, sites, 0.05) == pytest.approx(all_there, abs=5e-4)


def test_nobody_may_vanish_without_a_helper() -> None:
    for sites, absence in ((sites, absence) for sites in SITES for absence in ABSENCES):
        assert probability("joint", sites, sites, absence, absence) == pytest.approx((1 - absence) ** (2 * sites))
        least = needed("sealed", sites)
        assert probability("sealed", sites, least, absence, absence) < probability("sealed", sites, least, absence)
