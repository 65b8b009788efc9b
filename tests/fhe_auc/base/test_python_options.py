"""Options of Python: values of any library become plain ones of one type, and all others are refused by their name."""

import enum
import inspect
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fhe_auc import InputError, federated_auc, federated_report, federated_thresholds
from fhe_auc.api import OPTIONS, options_for
from fhe_auc.base.python_options import converts

FUNCTIONS: list[Any] = [federated_auc, federated_report, federated_thresholds]


class Name(str, enum.Enum):
    """Names as some people keep them."""

    RISK = "risk"


class Number(enum.IntEnum):
    """Counts as some people keep them."""

    FIVE = 5


def taken(name: str, value: Any) -> Any:
    """What a function receives that has one of the options."""
    kept = converts(OPTIONS)(lambda **options: options)
    return kept(**{name: value})[name]


@pytest.mark.parametrize(
    ("name", "plain", "values"),
    [
        (
            "interval",
            0.75,
            [
                *(np.float64(0.75), np.float32(0.75), np.float16(0.75), np.longdouble(0.75), np.array(0.75)),
                *(pd.Series([0.75])[0], pd.array([0.75], "Float64")[0], pa.scalar(0.75), pl.Series([0.75])[0]),
                *(Decimal("0.75"), Fraction(3, 4)),
            ],
        ),
        (
            "min_cell",
            5,
            [
                *(np.int64(5), np.uint8(5), np.array(5), np.array([5])[0], pd.Series([5])[0], pa.scalar(5)),
                *(pd.array([5], "Int64")[0], Decimal(5), Decimal("5.00"), Fraction(5), Number.FIVE),
            ],
        ),
        ("max_rows", 1000, [np.int64(1000), np.uint16(1000), Decimal(1000)]),
        ("min_rows", 2, [np.uint8(2), pd.Series([2])[0], pa.scalar(2)]),
        (
            "drop_missing",
            True,
            [np.True_, np.array(True), pa.scalar(True), pd.array([True], "boolean")[0], pl.Series([True])[0]],
        ),
        ("label", "risk", [np.str_("risk"), pd.Index(["risk"])[0], pa.scalar("risk"), Name.RISK, np.array("risk")]),
        (
            "score",
            ["a", "b"],
            [
                *(("a", "b"), np.array(["a", "b"]), pd.Index(["a", "b"]), pd.Series(["a", "b"], dtype="string")),
                *(pa.array(["a", "b"]), pa.chunked_array([["a"], ["b"]]), pl.Series(["a", "b"]), iter("ab")),
                *(pd.Series(["a", "b"], dtype="category"), dict.fromkeys("ab").keys()),
            ],
        ),
        (
            "classes",
            ["0", "1", "2"],
            [range(3), np.arange(3), np.arange(3.0), pd.RangeIndex(3), pl.Series([0, 1, 2]), pa.array([0, 1, 2])],
        ),
        (
            "by",
            {"sex": ("0", "1")},
            [{"sex": np.arange(2)}, {np.str_("sex"): pd.Series([0.0, 1.0])}, {"sex": pa.array([0, 1])}],
        ),
        ("threshold", [0.25, 0.5], [np.array([0.25, 0.5]), pd.Series([0.25, 0.5]), [Decimal("0.25"), Fraction(1, 2)]]),
        ("positive_label", "1", [1, 1.0, np.int8(1), np.float32(1), pa.scalar(1), "1", " 1 ", b"1"]),
        ("interval", 0.9, [np.float32(0.9), np.array(0.9, "f4"), np.float16(0.9), np.longdouble("0.9")]),
        ("by", {"dose": ("0.1", "0.2")}, [{"dose": np.array([0.1, 0.2], kind)} for kind in ("f2", "f4", "f8")]),
        ("thresholds", "grid.txt", [Path("grid.txt"), np.str_("grid.txt")]),
    ],
)
def test_values_of_libraries_are_those_of_python(name: str, plain: Any, values: list[Any]) -> None:
    for value in values:
        found = taken(name, value)
        assert (found, type(found)) == (plain, type(plain))
        parts = found if isinstance(found, list) else list(found) if isinstance(found, dict) else [found]
        assert all(type(part) in (str, float, int, bool) for part in parts)


GRID = [0.0, 0.25, 0.5]


@pytest.mark.parametrize(
    "make",
    [
        *(tuple, np.array, pd.Series, pd.Index, pl.Series, pa.array, np.ma.array, lambda grid: np.array(grid, "f4")),
        lambda grid: pd.Series(grid, index=[7, 8, 9], dtype="Float64"),
        lambda grid: pd.Series(grid, dtype=pd.ArrowDtype(pa.float32())),
        lambda grid: pa.chunked_array([grid[:1], grid[1:]]),
        lambda grid: pl.Series(grid, dtype=pl.Float32),
        lambda grid: [Decimal(str(point)) for point in grid],
        lambda grid: pd.Series([Decimal(str(point)) for point in grid]),
        lambda grid: pa.array([Decimal(str(point)) for point in grid], pa.decimal128(5, 2)),
        lambda grid: [Fraction(point) for point in grid],
        lambda grid: [np.float32(point) for point in grid],
    ],
)
def test_thresholds_come_from_columns_of_any_library(make: Any) -> None:
    assert taken("thresholds", make(GRID)).tolist() == GRID


@pytest.mark.parametrize(
    "missing",
    [
        np.ma.masked_array(GRID, [0, 1, 0]),  # type: ignore[no-untyped-call, unused-ignore]
        pd.Series([0.0, None, 0.5], dtype="Float64"),
        pl.Series([0.0, None, 0.5]),
        pa.array([0.0, None, 0.5]),
        [0.0, Decimal("nan"), 0.5],
    ],
)
def test_a_missing_threshold_is_told_by_its_position(missing: Any) -> None:
    with pytest.raises(InputError, match=r"^threshold 1 "):
        taken("thresholds", missing)


WRONG: dict[str, list[Any]] = {
    "label": [None, 5, b"died", ["died"], pd.Series(["died"])],
    "score": [None, 5, {"a", "b"}, {"a": "b"}, ["a", 1], b"risk", [["a"]]],
    "site": [3, ["site"], Path("site"), True],
    "by": [3, {"sex"}, {"sex": "FM"}, {"sex": None}, {"sex": ["F", None]}, {1: ["F", "M"]}, [("sex", "age")]],
    "cluster": [7, ["pid"], 0.5],
    "protocol": [3, ["verified"], b"verified"],
    "thresholds": [object(), {0.1: 0.2}, [["a"]], 100, True, [0.1, "x"], pd.DataFrame({"a": GRID})],
    "interval": ["0.9", True, [0.9], np.array([0.9]), pd.NA, np.ma.masked, float("nan"), pa.scalar(None), b"0.9"],
    "progress": ["yes", 1, 0.5],
    "positive_label": [["yes"], {"yes"}, pd.NA, float("nan"), "NA", object(), np.array(["yes"])],
    "drop_missing": [None, 1, 0, "no", np.int8(1), [True]],
    "score_scale": [None, 3, ["logit"]],
    "classes": ["abc", 3, {"a", "b"}, ["a", None], [["a"]]],
    "cross_groups": [1, "yes", None],
    "heterogeneity": [1, "no", np.array([True])],
    "each_pair": [1.0, "yes"],
    "min_cell": [None, "5", 5.0, np.float64(5), True, np.True_, [5], Decimal("5.5"), Decimal("inf"), Decimal("snan")],
    "keys": [3, ["sealed"], True],
    "backend": [3, True],
    "max_rows": [None, "10", 2.5, np.float64(10), 2**70, 10**5000, pd.NA],
    "min_rows": ["10", 2.0, [2]],
    "row_caps": ["5", 5.0, {"a": "5"}, {"a": 0}, True, [5]],
    "cheat": [3, True],
    "threshold": ["0.5", ["0.5"], True, [[0.5]], {0.5}, float("nan")],
    "cost_ratio": ["3", True, [3], float("nan")],
    "alert_rate": ["0.1", False],
    "title": [None, 5, b"t"],
    "bins": ["5", 5.0, True, None],
    "bootstrap": ["200", 200.0, True, None],
    "weight": [3, ["ipw"], Path("ipw")],
    "max_weight": ["50", True, [50]],
    "weight_step": ["0.001", True, [0.1]],
    "time": [3, ["days"], True],
    "event": [1, ["status"], b"status"],
    "event_codes": ["1,0", 1, {"1", "0"}, [["1", "0"]]],  # the first without times
    "horizon": ["365", True, ["365"], {365}],
    "time_grid": ["days", ["days"], True],
}


def test_the_table_has_every_keyword_of_every_function() -> None:
    keywords = {name for each in FUNCTIONS for name in inspect.signature(each).parameters} - {"rows", "options"}
    assert keywords == {*OPTIONS, "row_caps"} == set(WRONG)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_type_is_refused_by_the_name_of_the_option_before_a_row_is_read(name: str) -> None:
    for function in FUNCTIONS:
        if name in inspect.signature(function).parameters:
            for value in WRONG[name]:
                with pytest.raises(InputError) as refused:
                    function(None, **{"bins": 5, name: value} if function is federated_thresholds else {name: value})
                message = str(refused.value)
                assert name.removesuffix("s") in message
                assert len(message) < 200
                assert message.isprintable()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_none_is_taken_where_the_signature_says_so(function: Any) -> None:
    own = {name: each for name, each in inspect.signature(function).parameters.items() if name in OPTIONS}
    optional = {name for name, each in own.items() if type(None) in get_args(each.annotation)}
    with pytest.raises(InputError, match=r"^parties must be a list of pairs"):
        function(None, **dict.fromkeys(optional), **{"bins": 5} if function is federated_thresholds else {})


@pytest.mark.parametrize("bins", [5.0, "5", True, None, [5]])
def test_a_number_of_bins_is_one_by_its_place_too(bins: Any) -> None:
    with pytest.raises(InputError, match=r"^bins must be a whole number, got "):
        federated_thresholds(None, bins)
    with pytest.raises(InputError, match=r"^parties must be a list of pairs"):
        federated_thresholds(None, np.uint16(5))  # type: ignore[arg-type]


def test_no_message_shows_rows() -> None:
    rows = pd.DataFrame({"died": [0, 1], "ssn": ["078-05-1120", "219-09-9999"]})
    kinds: tuple[Any, ...] = (
        rows["ssn"],
        rows,
        rows["ssn"].to_numpy(),
        pl.Series(rows["ssn"]),
        pa.Table.from_pandas(rows),
    )
    for name in ("label", "positive_label", "interval", "min_cell", "keys"):
        for value in kinds:
            with pytest.raises(InputError, match=f"^{name} .*, got (list|DataFrame)$"):
                federated_auc(rows, **{name: value})


@pytest.mark.parametrize(
    ("protocol", "options", "plain"),
    [
        ("verified", {"epsilon": np.int64(1), "colluders": np.uint8(2)}, {"epsilon": 1.0, "colluders": 2}),
        (
            "verified",
            {"epsilon": Decimal("0.5"), "epsilon_unit": np.str_("row")},
            {"epsilon": 0.5, "epsilon_unit": "row"},
        ),
        ("dpauc-laplace", {"epsilon": pa.scalar(2.5), "clip": np.False_}, {"epsilon": 2.5, "clip": False}),
        ("verified", {"round_scores": np.int32(2), "epsilon": None}, {"round_scores": 2}),
    ],
)
def test_options_of_protocols_are_of_the_type_that_these_say(
    protocol: str, options: dict[str, Any], plain: dict[str, Any]
) -> None:
    found = options_for(federated_auc, protocol, options)
    assert found == plain
    assert [type(value) for value in found.values()] == [type(value) for value in plain.values()]


@pytest.mark.parametrize(
    ("protocol", "name", "value"),
    [
        ("verified", "epsilon", "1"),
        ("verified", "epsilon", True),
        ("verified", "epsilon", [1.0]),
        ("verified", "round_scores", 2.0),
        ("verified", "epsilon_unit", 1),
        ("dpauc-laplace", "clip", "false"),
        ("dpauc-laplace", "clip", 0),
        ("malicious", "tolerance", "small"),
    ],
)
def test_an_option_of_a_protocol_of_another_type_is_refused_by_its_name(protocol: str, name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} must be "):
        federated_auc(None, protocol=protocol, **{name: value})
