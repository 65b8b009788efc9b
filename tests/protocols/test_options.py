"""Options of every protocol: typed, and what the command line says of them comes from the types."""

import json
from dataclasses import asdict, fields

import pytest
from click.testing import CliRunner

from fhe_auc import InputError, Setup, federated_auc
from fhe_auc.base.options import check_names, described
from fhe_auc.cli import main
from fhe_auc.question.thresholds import MAX_PLACES
from fhe_auc.session import registry
from fhe_auc_protocols import options as of
from fhe_auc_protocols.dpauc.roc import Curve

ROWS = [([0, 1, 1, 0], [0.1, 0.8, 0.4, 0.6])] * 2


def test_every_protocol_has_options_of_its_own_under_its_name() -> None:
    named = {getattr(of, name).protocol: getattr(of, name) for name in of.__all__}
    assert {name: registry.load(name).options for name in registry.names() if name in named} == named
    assert set(registry.names()) >= set(named)
    assert len(named) == len(of.__all__)


@pytest.mark.parametrize("name", of.__all__)
def test_every_option_has_a_line_that_the_command_line_shows(name: str) -> None:
    kind = getattr(of, name)
    lines = described(kind)
    assert list(lines) == [each.name for each in fields(kind)]
    printed = json.loads(CliRunner().invoke(main, ["protocols", "--json"]).stdout)["protocols"]
    assert next(each["options"] for each in printed if each["name"] == kind.protocol) == lines


def test_a_line_says_type_and_default() -> None:
    lines = described(of.DpaucGaussian)
    assert lines["epsilon"].endswith("(number, must be given)")
    assert lines["clip"].endswith("(true or false, default true)")
    assert described(of.Malicious)["tolerance"].endswith("(number)")
    assert described(of.Exact)["round_scores"].endswith("(whole number)")
    assert f"1 to {MAX_PLACES}" in described(of.Exact)["round_scores"]


def test_the_curve_of_dpauc_has_the_defaults_of_its_options() -> None:
    assert asdict(Curve()).items() <= asdict(of.DpaucLaplace(epsilon=1)).items()


def test_options_choose_the_protocol() -> None:
    found = federated_auc(ROWS, protocol=of.Exact(round_scores=1), setup=Setup(backend="tenseal"))
    assert (found.protocol, found.thresholds) == ("exact", 11)
    assert federated_auc(ROWS, protocol=of.DpaucLaplace(epsilon=8.0)).settings["epsilon"] == 8.0


def test_a_mistaken_name_is_answered_with_the_near_one() -> None:
    with pytest.raises(InputError, match=r"no option 'round_score'; did you mean 'round_scores'\?"):
        check_names(of.Exact, "exact", {"round_score": 2})
