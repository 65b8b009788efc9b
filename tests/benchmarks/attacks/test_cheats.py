"""Lies in sessions that others ask for: `federated_auc(cheat=…)`, the demo, and the plug-in behind them."""

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.rows import datasets
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import PARTIES, right
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.laboratory import made_up_sites


@pytest.mark.parametrize("protocol", ["exact", "verified"])
def test_what_one_session_has_not_is_not_played_on_it(protocol: str) -> None:
    plugin, attacks = registry.load(protocol), registry.attacks(protocol)
    assert (list(attacks.descriptions), list(attacks.of_parties)) == (list(STRATEGIES), list(LIES))
    request = {"thresholds": thresholds.uniform(8), "max_rows": 100}
    session: Any = plugin.prepare(Request(parties=("a", "b"), **request))
    for name, strategy in STRATEGIES.items():
        if strategy.staged or (strategy.on_tags and protocol == "exact"):
            with pytest.raises(InputError, match=r"takes more than this session|is on tags, and protocol 'exact' has"):
                attacks.aggregator(name, session.manifest, session.aggregator_material, rows=100)
    alone: Any = plugin.prepare(Request(parties=("a",), **request))
    with pytest.raises(InputError, match="two parties at least"):
        attacks.aggregator("zeros", alone.manifest, alone.aggregator_material, rows=100)


CAPS = {"keys": "helper", "row_caps": 90, "thresholds": "uniform:8"}


def sites(number: int = 4) -> list[PartyData]:
    return made_up_sites(np.random.default_rng(3), PARTIES[:number])


def test_federated_auc_names_the_liar_and_has_the_auc_of_the_others_or_refuses_a_server_s_lie() -> None:
    told = federated_auc(sites(), cheat="party-over-cap", **CAPS)
    auc, merged, ties, *number = right(sites()[:3])
    assert (told.fraction, told.positives, told.negatives) == (auc, *number)
    assert merged <= told.binning_error <= ties
    assert (told.parties, told.unproved_parties, told.inputs_proved) == (3, ("west",), "row caps")
    assert "west not counted: its proof did not hold" in told.warnings[-1]
    with pytest.raises(VerificationError):
        federated_auc(sites(), keys="helper", cheat="zeros", thresholds="uniform:8")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": "sealed", "row_caps": None}, "give keys='helper' and row_caps"),
        ({"row_caps": None}, "give keys='helper' and row_caps"),
        ({"cheat": "party-negativ"}, "there is no attack 'party-negativ' on this protocol; known .* party-negative, "),
        ({"cheat": "party-tags", "protocol": "exact"}, "is on tags, and protocol 'exact' has none"),
        ({"cheat": "scale-all", "protocol": "dpauc-rr"}, "no attacks on protocol 'dpauc-rr' are installed"),
        ({"data": sites(2)}, "the last of three parties or more lies; there are 2"),  # the other would be left alone
    ],
)
def test_what_a_party_s_lie_takes_is_asked_for(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        federated_auc(changed.pop("data", sites()), **{"cheat": "party-negative", **CAPS, **changed})


SMALL = ("demo", "--dataset", "credit-default", "--backend", "tenseal", "--thresholds", "uniform:25")


def demo(*arguments: str, status: int = 0) -> str:
    found = CliRunner().invoke(main, [*SMALL, *arguments], catch_exceptions=False)
    assert found.exit_code == status
    return " ".join((found.stdout if status < 2 else found.stderr).split())


def test_the_demo_shows_a_lie_being_caught_by_its_check() -> None:
    text = demo("--protocol", "malicious", "--cheat", "add-constant", status=1)
    for said in ("add-constant, add constants", "AUC none no number is released", "AUC in the clear 0.634744"):
        assert said in text
    assert "the AUCs of both runs disagree" in text


def test_the_demo_shows_who_lies_and_that_it_is_left_out() -> None:
    text = demo("--cheat", "party-negative")
    for said in (
        "Party '(50, 99]' lies: party-negative, count less than zero negatives in the lowest bin. It is named and",
        "if a party lies perhaps noticed each proved that its counts are not negative",
        "within the binning error",
        "parties 5 ",
        "(50, 99] not counted: its proof did not hold",
    ):
        assert said in text
    text = demo("--cheat", "party-tags", status=1)
    assert "party '(50, 99]' lies party-tags, send a tag that does not fit" in text
    assert "no number is released" in text
    assert "with --keys helper" in demo("--cheat", "party-negative", "--keys", "sealed", status=2)


def test_a_lie_that_cannot_be_told_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "load", None)
    for protocol, cheat, message in (
        ("semi-honest", "nonsense", "there is no attack 'nonsense' on this protocol; known are scale-all, "),
        ("histogram-federated", "scale-all", "no attacks on protocol 'histogram-federated' are installed"),
    ):
        assert message in demo("--protocol", protocol, "--cheat", cheat, status=2)
