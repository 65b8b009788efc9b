"""The bundled data are what their README says, by scikit-learn and by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from fhe_auc.base.errors import InputError
from fhe_auc.metrics.trapezoid import trapezoid
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from tests.support.pooled import pooled, pooled_counts

# name: parties, rows, positive rows, 2·P·N·AUC
KNOWN = {"covid-clinics": (78, 7612, 433, 4894534), "credit-default": (6, 15000, 3409, 50162189)}
EACH = pytest.mark.parametrize("name", datasets.NAMES)


@pytest.mark.parametrize("name", ["covid", "", "../covid_clinics", "covid_clinics"])
def test_an_unknown_data_set_is_refused_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match=rf"no data set {name!r}; there are covid-clinics, credit-default"):
        datasets.load(name)


@EACH
def test_every_score_as_threshold_gives_the_known_auc_exactly_and_fewer_within_the_resolution(name: str) -> None:
    from sklearn.metrics import roc_auc_score

    parties = datasets.load(name)
    rows = pooled(parties)
    area = trapezoid(pooled_counts(parties, np.unique(rows.y_score)))
    n_parties, n_rows, positives, two_u = KNOWN[name]
    assert len({party.name for party in parties}) == len(parties) == n_parties
    assert (len(rows.y_true), int(rows.y_true.sum())) == (n_rows, positives)
    assert (area.num, area.den) == (two_u, 2 * positives * (n_rows - positives))
    expected = roc_auc_score(rows.y_true, rows.y_score)
    assert area.auc == pytest.approx(expected, abs=1e-12)
    assert area.fraction == Fraction(two_u, area.den)
    for spec in ("uniform:2", "uniform:10", "uniform:100", "uniform:1000", "hybrid:100", "hybrid"):
        area = trapezoid(pooled_counts(parties, thresholds.parse(spec)))
        assert abs(area.auc - expected) <= area.binning_error + 1e-12
    assert abs(area.auc - expected) < 5e-4


def test_the_clinics_include_one_class_and_one_row_parties_and_the_age_bands_keep_their_names() -> None:
    parties = datasets.load("covid-clinics")
    assert sum(len(set(party.y_true.tolist())) == 1 for party in parties) == 55
    assert min(len(party.y_true) for party in parties) == 1
    names = {party.name for party in datasets.load("credit-default")}
    assert names == {"(0, 25]", "(25, 30]", "(30, 35]", "(35, 40]", "(40, 50]", "(50, 99]"}
