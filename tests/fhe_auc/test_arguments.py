"""An argument that a public function does not have: one sentence says which one is meant, or where it belongs."""

import copy
import dataclasses
import inspect
import pickle
import re
from typing import Any

import pytest

from fhe_auc import Breakdown, Columns, InputError, Setup, federated_auc, federated_report, federated_thresholds
from fhe_auc.api import take
from fhe_auc_protocols import options
from fhe_auc_protocols.options import DpaucGaussian, DpaucLaplace, Malicious

ROWS = [([0, 1], [0.2, 0.9])]
TABLE = {"y_true": [0, 1], "a": [0.2, 0.9], "b": [0.2, 0.9], "c": [0.2, 0.9]}
_COLUMNS, _BREAKDOWN, _SETUP = Columns(), Breakdown(), Setup()
FUNCTIONS: list[Any] = [federated_auc, federated_report, federated_thresholds]


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ({"label": "died", "score": "risk"}, {"columns": Columns(label="died", score="risk")}),
        ({"heterogeneity": True}, {"breakdown": Breakdown(heterogeneity=True)}),
        ({"keys": "helper", "setup": Setup(max_rows=5000)}, {"setup": Setup(keys="helper", max_rows=5000)}),
    ],
)
def test_parts_of_an_argument_may_be_given_by_themselves(parts: dict[str, Any], whole: dict[str, Any]) -> None:
    parts = dict(parts)
    for argument in (_COLUMNS, _BREAKDOWN, parts.pop("setup", _SETUP)):
        name = type(argument).__name__.lower()
        assert take(argument, parts) == whole.get(name, argument)
    assert not parts


@pytest.mark.parametrize(
    ("kind", "typo", "meant"),
    [(Columns, "lable", "label"), (Setup, "key", "keys"), (Malicious, "tolerence", "tolerance")],
)
def test_a_typo_in_a_part_of_an_argument_or_an_option_names_what_is_meant(kind: Any, typo: str, meant: str) -> None:
    with pytest.raises(TypeError, match=f"^{kind.__name__} has no option '{typo}'; did you mean '{meant}'"):
        kind(**{typo: "died"})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'epsilon'"):
        DpaucLaplace()  # type: ignore[call-arg]


def test_a_report_has_no_classes_and_no_aucs_across_groups_and_is_of_two_models_at_most_and_thresholds_of_one() -> None:
    for breakdown in (Breakdown(classes=["a", "b", "c"]), Breakdown(by="sex", cross_groups=True)):
        with pytest.raises(InputError, match=r"^a report has no classes and no AUCs across groups"):
            federated_report(ROWS, breakdown=breakdown)
    columns = Columns(score=["a", "b"])
    with pytest.raises(InputError, match=r"^a report is of one model, or of two; got 3 columns of scores$"):
        federated_report([TABLE], columns=Columns(score=["a", "b", "c"]))
    with pytest.raises(InputError, match=r"^a session that finds thresholds is of one column of scores, got 2$"):
        federated_thresholds(ROWS, 5, columns=columns)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"tolerance": 1.0}, r"an option of a protocol: protocol=Malicious\(tolerance=1.0\), from fhe_auc_prot"),
        (
            {"epsilon": 1.0, "protocol": "dpauc-laplace"},
            r"protocol=DpaucLaplace\(epsilon=1.0\), from fhe_auc_protocols",
        ),
        ({"delta": 0.1, "protocol": "dpauc-gaussian"}, r"protocol=DpaucGaussian\(epsilon=..., delta=0.1\)"),
        ({"clip": False, "protocol": DpaucLaplace(epsilon=1.0)}, r"protocol=DpaucLaplace\(epsilon=..., clip=False\)"),
        ({"epsilon": 1.0}, r"protocol=Verified\(epsilon=1.0\), from fhe_auc_protocols"),
        (
            {"epsilon": 1.0, "protocol": "semi-honest"},
            r"as in protocol=NAME\(epsilon=...\), NAME one of .*DpaucLaplace, .*UstatKrr, .*Verified$",
        ),
    ],
)
def test_a_protocols_option_is_shown_where_it_belongs(values: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=f"^federated_auc has no argument '{next(iter(values))}'; it is .*{told}"):
        federated_auc(ROWS, **values)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_signatures_have_ten_arguments_at_most_and_a_typo_says_which_is_meant(function: Any) -> None:
    told = f"^{function.__name__} has no argument 'colums'; did you mean 'columns'\\? .*there are: rows, .*progress"
    with pytest.raises(TypeError, match=told):
        function(ROWS, *[5] * (function is federated_thresholds), colums=Columns(label="died"))
    parameters = inspect.signature(function).parameters.values()
    assert len(parameters) <= 10  # so that a newcomer sees them all
    kinds = {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}
    assert {each.kind for each in parameters} <= kinds
    assert all(each.annotation is not inspect.Parameter.empty for each in parameters)


def test_options_have_the_signature_of_their_fields_are_copied_pickled_and_replaced() -> None:
    for kind in (each for each in vars(options).values() if getattr(each, "protocol", "")):
        assert list(inspect.signature(kind).parameters) == [each.name for each in dataclasses.fields(kind)]
    chosen = DpaucGaussian(epsilon=1.0, delta=1e-6)
    assert pickle.loads(pickle.dumps(chosen)) == copy.deepcopy(chosen) == chosen  # noqa: S301 - our own bytes
    assert dataclasses.replace(chosen, delta=1e-5) == DpaucGaussian(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize("function", [federated_auc, federated_report])
def test_what_is_no_protocol_is_one_sentence(function: Any) -> None:
    with pytest.raises(InputError, match=r"DpaucLaplace is a class, .*: protocol=DpaucLaplace\(epsilon=...\)$"):
        function(ROWS, protocol=DpaucLaplace)
    with pytest.raises(InputError, match=r"^protocol must be a name or options, .*, not int$"):
        function(ROWS, protocol=3)


ALIKE = {"y_true": [0, 1] * 2, "y_score": [0.1, 0.2] * 2, "sex": ["f", "F"] * 2}


@pytest.mark.parametrize(
    ("rows", "values", "argument"),
    [
        ([([0, 1], [20.0, 90.0])], {"thresholds": "hybrid:1000"}, "score_scale="),
        (ROWS, {"protocol": "dpauc-laplace"}, "protocol=DpaucLaplace(epsilon=1.0)"),
        (ROWS, {"protocol": "boundaries-federated"}, "federated_thresholds"),
        ({"north": ALIKE}, {"breakdown": Breakdown(by="sex")}, "by={'sex': [LEVEL, LEVEL]}"),
    ],
)
def test_an_error_that_names_an_option_of_the_command_names_the_argument_too(
    rows: Any, values: dict[str, Any], argument: str
) -> None:
    with pytest.raises(InputError, match=re.escape(argument)):
        federated_auc(rows, **values)
