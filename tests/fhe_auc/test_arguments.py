"""Keywords of the public functions: one sentence says which one is meant, or which protocols have it."""

import inspect
import re
from typing import Any

import pytest

from fhe_auc import InputError, federated_auc, federated_report, federated_thresholds
from fhe_auc.base.options import Option, Options
from fhe_auc_protocols.exact_auc.exact_protocols import Verified

ROWS = [([0, 1], [0.2, 0.9])]
TABLE = {"y_true": [0, 1], "a": [0.2, 0.9], "b": [0.2, 0.9], "c": [0.2, 0.9]}
USUAL = ["label", "score", "site", "by", "cluster", "protocol", "thresholds", "interval", "progress"]
FUNCTIONS: list[Any] = [federated_auc, federated_report, federated_thresholds]


def asked(function: Any, **values: Any) -> Any:
    return function(ROWS, *[5] * (function is federated_thresholds), **values)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_signature_shows_every_keyword_the_usual_ones_first(function: Any) -> None:
    rows, *others = inspect.signature(function).parameters.values()
    keywords = [each.name for each in others if each.kind is each.KEYWORD_ONLY]
    usual = [name for name in USUAL if name in keywords]
    assert (rows.name, keywords[: len(usual)], others[-1].kind) == ("rows", usual, rows.VAR_KEYWORD)
    assert all(each.annotation is not each.empty for each in others)
    if function is not federated_thresholds:
        assert usual == USUAL


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("mistaken", "meant"),
    [
        ("y_true", "label"),
        ("lable", "label"),
        ("y_score", "score"),
        ("site_column", "site"),
        ("pos_label", "positive_label"),
        ("maxrows", "max_rows"),
        ("level", "interval"),
        ("ci", "interval"),
        ("groups", "by"),
        ("patient", "cluster"),
    ],
)
def test_an_unknown_argument_is_answered_with_the_keyword_that_is_near_or_means_the_same(
    function: Any, mistaken: str, meant: str
) -> None:
    near = f"; did you mean {meant}( or \\w+)?\\?" if meant in inspect.signature(function).parameters else ""
    usual = rf"\(usual are label, score, site, .*progress; help\({function.__name__}\) has all\)$"
    with pytest.raises(TypeError, match=f"^{function.__name__} has no argument '{mistaken}'{near}.* {usual}"):
        asked(function, **{mistaken: "died"})


@pytest.mark.parametrize(
    ("function", "values", "told"),
    [
        (federated_auc, {"tolerance": 1.0}, r" with protocol 'verified'; it is an option of malicious$"),
        (
            federated_auc,
            {"epsilon": 1.0, "protocol": "semi-honest"},
            "; it is an option of .*dpauc-laplace, .*ustat-pairs, verified$",
        ),
        (federated_auc, {"round_score": 1}, "; did you mean round_scores( or .*)?\\?"),
        (
            federated_auc,
            {"sample_weight": [1, 2]},
            ": weights are a column of the rows, .*: weight='NAME', max_weight=50",
        ),
        (
            federated_report,
            {"epsilon": 1.0, "protocol": "histogram-federated"},
            "; it is an option of histogram-distributed-dp, histogram-local-dp$",
        ),
        (federated_report, {"classes": ["a", "b", "c"]}, "; federated_auc has it$"),
        (federated_thresholds, {"by": "sex"}, "; federated_auc has it$"),
    ],
)
def test_an_option_of_other_protocols_or_an_argument_of_another_function_says_who_has_it(
    function: Any, values: dict[str, Any], told: str
) -> None:
    with pytest.raises(TypeError, match=f"^{function.__name__} has no argument '{next(iter(values))}'.*{told}"):
        asked(function, **values)


def test_a_report_with_an_epsilon_and_no_protocol_has_noisy_counts_and_one_without_exact_ones() -> None:
    rows = [([0, 1] * 60, [0.1, 0.9] * 60)] * 2
    for options, protocol in (({"epsilon": 8}, "histogram-distributed-dp"), ({}, "histogram-federated")):
        made = federated_report(rows, thresholds="uniform:4", **options)  # type: ignore[arg-type]
        assert made.facts.session["protocol"] == protocol
        assert made.card.noisy is ("epsilon" in made.facts.session.get("settings", {}))


def test_a_report_is_of_two_models_at_most_and_thresholds_of_one() -> None:
    with pytest.raises(InputError, match=r"^a report is of one model, or of two; got 3 columns of scores$"):
        federated_report([TABLE], score=["a", "b", "c"])
    with pytest.raises(InputError, match=r"^a session that finds thresholds is of one column of scores, got 2$"):
        federated_thresholds(ROWS, 5, score=["a", "b"])  # type: ignore[arg-type]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_is_no_protocol_is_one_sentence(function: Any) -> None:
    with pytest.raises(InputError, match=r"^protocol must be a name, such as 'verified', got 3$"):
        asked(function, protocol=3)


ALIKE = {"y_true": [0, 1] * 2, "y_score": [0.1, 0.2] * 2, "sex": ["f", "F"] * 2}


@pytest.mark.parametrize(
    ("rows", "values", "argument"),
    [
        ([([0, 1], [20.0, 90.0])], {"thresholds": "hybrid:1000"}, "score_scale="),
        (ROWS, {"protocol": "dpauc-laplace"}, "in Python epsilon=1"),
        (ROWS, {"protocol": "boundaries-federated"}, "federated_thresholds"),
        ({"north": ALIKE}, {"by": "sex"}, "by={'sex': [LEVEL, LEVEL]}"),
    ],
)
def test_an_error_that_names_an_option_of_the_command_names_the_argument_too(
    rows: Any, values: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InputError, match=re.escape(argument)):
        federated_auc(rows, **values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"score": []}, "there is no column of scores: name one at least"),
        ({"min_cell": "5"}, "min_cell must be a whole number, got '5'"),
        ({"min_cell": True}, "min_cell must be a whole number, got True"),
        ({"heterogeneity": "no"}, "heterogeneity must be True or False, got 'no'"),
        ({"drop_missing": "no"}, "drop_missing must be True or False, got 'no'"),
        ({"max_rows": 2**70}, "max_rows must be below 2^63"),
    ],
)
def test_a_value_of_another_type_is_refused_by_its_keyword(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        federated_auc(ROWS, **values)
    if "min_cell" in values:
        with pytest.raises(InputError, match=re.escape(message)):
            federated_report(ROWS, **values)


def test_a_plug_in_s_option_does_not_bear_the_name_of_a_keyword(monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not be given: the keyword is the function's."""
    monkeypatch.setattr(Verified, "options", Options({"label": Option(str, "what it is for")}))
    with pytest.raises(InputError, match="protocol 'verified' has an option 'label', a keyword of all"):
        federated_auc(ROWS)


def test_no_function_has_an_argument_called_options() -> None:
    with pytest.raises(TypeError, match=r"has no argument 'options' \(usual are label"):
        federated_auc(ROWS, options={"epsilon": 1})
