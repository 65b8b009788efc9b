"""Listed score values: each has a bin of its own, other scores are refused, and thresholds alone say which they are."""

import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs

from fhe_auc.base.errors import InputError
from fhe_auc.question import binning, thresholds
from fhe_auc.question.binning import bins_of, numbers, of_one_number
from fhe_auc.question.study import Study
from fhe_auc.rows.own_rows import check_scores
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, new_manifest
from tests.support.chosen import federated_auc

WIDE = st.floats(-1e300, 1e300, allow_subnormal=False)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:9", range(10)),
        ("-3:3:0.5", np.arange(-3, 3.5, 0.5)),
        ("0:1:0.05", np.arange(21) / 20),
        ("0, 1.5,3", (0, 1.5, 3)),
        ("3,-1", (3, -1)),
    ],
)
def test_texts_name_values_exactly(text: str, values: list[float]) -> None:
    assert binning.parse_listed(text) == list(values)
    assert (binning.listed(thresholds.parse(f"values:{text}")) == np.sort(numbers(np.array(values, float)))).all()


@pytest.mark.parametrize(
    "text", ["", "9", "0:9:2", "3:1", "0:9:0", "0:x", "1,nan", "1,inf", "1,1", "1,1.00000001", "0:2500"]
)
def test_what_lists_no_values_is_refused_in_studies_too(text: str) -> None:
    with pytest.raises(InputError, match="score values"):
        thresholds.parse(f"values:{text}")
    if text:
        with pytest.raises(InputError, match="score values"):
            Study(model="m", outcome="o", cohort="c", period="p", score_values=text)


@given(st.lists(st.one_of(WIDE, st.floats(0, 1)), min_size=2, max_size=20))
def test_every_value_has_a_bin_of_its_own_and_nothing_else_is_taken(values: list[float]) -> None:
    own = np.unique(numbers(np.array(values)))
    assume(len(own) > 1)
    grid = binning.thresholds_of(own)
    bins = bins_of(own, grid)
    assert len(set(bins.tolist())) == len(own)
    assert of_one_number(grid)[bins].all()
    assert (binning.listed(grid) == own).all()
    check_scores(PartyData.from_arrays("north", np.arange(len(own)) % 2, own), grid)
    between = float(own[0] / 2 + own[1] / 2)
    assume(numbers(np.array([between]))[0] not in own)
    with pytest.raises(InputError, match=re.escape(f"row 1: score is {between!r}, but these thresholds are of listed")):
        check_scores(PartyData.from_arrays("south", [0, 1], [own[0], between]), grid)


@pytest.mark.parametrize("grid", ["uniform:2", "uniform:11", "hybrid:1000", "dpauc:20"])
def test_no_other_grid_is_taken_for_listed_values(grid: str) -> None:
    assert binning.listed(thresholds.parse(grid)) is None
    assert binning.listed(thresholds.decimals(2)) is None


def test_a_session_refuses_a_score_that_is_not_listed_with_party_row_value_and_the_nearest() -> None:
    sites = {"north": ([0, 1, 1], [3, 7, 9]), "south": ([0, 1, 0], [0, 5, 4.5])}
    with pytest.raises(InputError, match=r"party 'south', row 2: score is 4\.5, .* of which 4 is the nearest"):
        federated_auc(sites, thresholds="values:0:9")
    sites["south"] = ([0, 1, 0], [0, 5, np.float32(4)])
    assert federated_auc(sites, thresholds="values:0:9").fraction == 1


def test_a_manifest_has_the_thresholds_of_the_values_that_its_study_lists() -> None:
    study = Study(model="m", outcome="o", cohort="c", period="p", score_values="0:9")
    assert study.listed is not None
    assert ("score values", "", "0:9; others are refused") in study.lines()
    for values in ("0:9", "0:8"):
        request = Request(parties=("north", "south"), thresholds=thresholds.parse(f"values:{values}"))
        made = new_manifest(registry.load("dpauc-laplace"), request, options={"epsilon": 1.0})
        named = {"fingerprints": (b"a" * 32, b"b" * 32), "aggregator": b"c" * 32, "study": study}
        if values == study.score_values:
            assert structs.replace(made, **named).study == study
        else:
            with pytest.raises(InputError, match="not those of the score values that its study lists"):
                structs.replace(made, **named)
