"""A lying aggregator, a lying helper, and both together, against sessions of `exact` and `verified` with a helper."""

from functools import partial
from typing import Any

import pytest

from fhe_auc import Setup
from fhe_auc.api import federated_auc
from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.question import thresholds
from fhe_auc.rlwe.parameters import available_backends
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc import helped
from fhe_auc_benchmarks.attacks.exact_auc.helped import AGGREGATOR_LIES, ATTACKS, THE_HELPER
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES

HARMLESS = ("guess-right", "swap-parties")
BY_HELPER = ("claim-more", "claim-fewer", "claim-others", *(name for name in ATTACKS if name not in STRATEGIES))
BY_HELPER = tuple(name for name in BY_HELPER if ATTACKS[name].who == AGGREGATOR_LIES)
SUMS = tuple(name for name, each in ATTACKS.items() if each.who != AGGREGATOR_LIES)
CREDULOUS = tuple(name for name in SUMS if not ATTACKS[name].on_tags and "chosen" not in name)
QUICK = ("add-positives", "negate-difference", "guess-point", "drop-party", "replay-session", "earlier-result")

FORGED = {"helper-forge-difference", "helper-guess-point", "helper-zeros", "both-plausible-values"}
slow = partial(pytest.param, marks=pytest.mark.slow)


def of_forged(names: tuple[str, ...]) -> list[Any]:
    """Parameters: one attack of each kind is quick, the others are slow."""
    return [name if name in FORGED else slow(name) for name in names]


@pytest.mark.parametrize("name", BY_HELPER)
@pytest.mark.parametrize("protocol", [slow("exact"), "verified"])
def test_the_helper_opens_one_list_of_certified_parties_and_decrypts_one_result(protocol: str, name: str) -> None:
    assert helped.run(name, protocol, 1, seed=1).refused == {THE_HELPER: 1}


@pytest.mark.parametrize("name", QUICK)
def test_no_lie_of_the_aggregator_passes(name: str) -> None:
    assert helped.run(name, "verified", 1, seed=2).refused == {"VerificationError": 1}


@pytest.mark.parametrize("name", of_forged(SUMS))
def test_no_sums_that_the_helper_forges_pass_not_even_with_the_aggregator(name: str) -> None:
    assert helped.run(name, "verified", 1, seed=3).refused == {"VerificationError": 1}


@pytest.mark.parametrize("name", of_forged(CREDULOUS))
def test_forged_sums_pass_where_nothing_is_authenticated(name: str) -> None:
    assert helped.run(name, "exact", 1, seed=4).passed == 1


@pytest.mark.parametrize("backend", available_backends())
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_right_is_accepted(name: str, backend: str) -> None:
    assert helped.run(name, "verified", 1, seed=5, backend=backend).harmless == 1


def test_an_aggregator_lies_to_a_session_with_a_helper_by_the_plug_in() -> None:
    """As `federated_auc(cheat=…)` takes it, also where parties may be missing."""
    plugin, attacks = registry.load("verified"), registry.attacks("verified")
    request = Request(
        parties=("a", "b", "c"), thresholds=thresholds.uniform(8), max_rows=100, min_parties=2, keys="helper"
    )
    session = plugin.prepare(request)
    assert attacks.aggregator("zeros", session.manifest, b"", rows=100).asked == ("a", "b", "c")
    with pytest.raises(InputError, match="takes more than this session"):
        attacks.aggregator("claim-more", session.manifest, b"", rows=100)
    rows = [PartyData.from_arrays(name, [0, 1, 1, 0], [0.1, 0.8, 0.4, 0.5]) for name in ("a", "b", "c")]
    with pytest.raises(VerificationError):
        federated_auc(rows, setup=Setup(keys="helper", max_rows=100), cheat="zeros", thresholds="uniform:8")
