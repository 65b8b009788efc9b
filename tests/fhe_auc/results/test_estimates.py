"""Estimates as JSON, there and back."""

from __future__ import annotations

import json
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from fhe_auc.base.serialise import json_text
from fhe_auc.results.estimates import ONE_CLASS, GroupEstimate, too_few
from fhe_auc.results.intervals import Interval

shares = st.floats(0, 1)
estimates = st.builds(
    GroupEstimate,
    model=st.text(max_size=5),
    group=st.sampled_from(["", "sex: F", "sex: all"]),
    contrast=st.sampled_from(["", "a from others"]),
    auc=st.none() | shares,
    standard_error=st.none() | shares,
    binning_error=st.none() | shares,
    interval=st.none() | st.builds(Interval, shares, shares, shares, st.just("DeLong")),
    fraction=st.none() | st.fractions(0, 1),
    missing=st.sampled_from(["", ONE_CLASS, too_few(10)]),
)


@settings(max_examples=25)
@given(estimates, st.none() | st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)))
def test_estimates_are_the_same_after_json(estimate: GroupEstimate, rows: tuple[int, int] | None) -> None:
    positives, negatives = rows or (None, None)
    whole = GroupEstimate(
        **{name: getattr(estimate, name) for name in GroupEstimate.__slots__}
        | {"positives": positives, "negatives": negatives}
    )
    assert GroupEstimate.from_dict(json.loads(json_text(whole.as_dict()))) == whole


def test_numbers_of_rows_are_called_n_and_events() -> None:
    plain = GroupEstimate(model="", group="", auc=0.75, positives=3, negatives=4, fraction=Fraction(3, 4)).as_dict()
    assert (plain["n"], plain["events"], plain["group"], plain["fraction"]) == (7, 3, "all", "3/4")
