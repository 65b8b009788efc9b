"""A lying aggregator, a lying helper, and both together, against sessions of `exact` and `verified`."""

import json
from functools import partial
from typing import Any

import pytest
from click.testing import CliRunner
from scipy import stats

from fhe_auc import Setup
from fhe_auc.api import federated_auc
from fhe_auc.base.errors import InputError, VerificationError
from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.rlwe.parameters import available_backends
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts, helped, simulated
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


# --- Without a helper -------------------------------------------------------------------------------------------------


PLAYED = [name for name, strategy in STRATEGIES.items() if not strategy.on_lists]
LIES = [name for name in PLAYED if name not in HARMLESS]
CREDULOUS_OF_KEYS = [  # what `exact` takes; the others are out of range, as the aggregator does not know the pads
    *("negate-difference", "zero-ties", "scale-all", "forge-difference", "forge-positives", "plausible-values"),
    *("zeros", "add-positives", "earlier-result"),
]
GRID = thresholds.uniform(8)

FAMILIES = {"scale-value", "leave-out-bins", "forge-difference", "guess-point", "zeros", "add-at-0", "add-to-tags"}
FAMILIES |= {"swap-labels", "drop-party", "replay-session", "mix-results", "flip-bytes"}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in FAMILIES else pytest.mark.slow) for each in LIES]
)
def test_no_lie_passes(name: str) -> None:
    assert ciphertexts.run(name, "verified", 1, seed=1, backend="tenseal").refused == {"VerificationError": 1}


@pytest.mark.parametrize("name", HARMLESS)
@pytest.mark.parametrize("backend", available_backends())
def test_what_is_right_is_accepted_without_a_helper(name: str, backend: str) -> None:
    assert ciphertexts.run(name, "verified", 2, seed=2, backend=backend).harmless == 2


@pytest.mark.parametrize("name", CREDULOUS_OF_KEYS)
def test_lies_pass_where_nothing_is_authenticated(name: str) -> None:
    assert ciphertexts.run(name, "exact", 1, seed=3, backend="tenseal").passed == 1


@pytest.mark.parametrize("lie", [pytest.param("negate-difference", marks=pytest.mark.slow), "add-positives"])
@pytest.mark.parametrize(("protocol", "status"), [("exact", 0), ("verified", 1)])
def test_the_demo_shows_a_lie_and_whether_it_is_caught(protocol: str, status: int, lie: str) -> None:
    arguments = ["demo", "--dataset", "credit-default", "--backend", "tenseal", "--thresholds", "uniform:25", "--json"]
    arguments += ["--protocol", protocol, "--cheat", lie]
    found = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert found.exit_code == status
    assert (json.loads(found.stdout)["auc"] is None) is bool(status)


@pytest.mark.parametrize("protocol", ["exact", "verified"])
def test_what_one_session_has_not_is_not_played_on_it(protocol: str) -> None:
    plugin, attacks = registry.load(protocol), registry.attacks(protocol)
    assert list(attacks.descriptions) == list(STRATEGIES)
    request = Request(parties=("a", "b"), thresholds=GRID, backend="tenseal", max_rows=100)
    session = plugin.prepare(request)
    refused = {}
    for name in (*STRATEGIES, "nonsense"):
        try:
            attacks.aggregator(name, session.manifest, session.aggregator_material, rows=100)
        except InputError as error:
            refused[name] = str(error)
    staged = {name for name, strategy in STRATEGIES.items() if strategy.staged}
    on_tags = {name for name, strategy in STRATEGIES.items() if strategy.on_tags and protocol == "exact"}
    assert set(refused) == staged | on_tags | {"nonsense"}
    assert all("takes more than this session" in refused[name] for name in staged)
    assert all("is on tags, and protocol 'exact' has none" in refused[name] for name in on_tags)
    assert refused["nonsense"].startswith(
        "there is no attack 'nonsense' on this protocol; known are negate-difference, "
    )


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parties": ("a",)}, "two parties at least"),
    ],
)
def test_sessions_that_no_attack_is_for_are_refused(changed: dict[str, object], message: str) -> None:
    arguments = {"parties": ("a", "b"), "thresholds": GRID, "max_rows": 100, **changed}
    session = registry.load("verified").prepare(Request(**arguments))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        registry.attacks("verified").aggregator("zeros", session.manifest, session.delivery().aggregator, rows=100)


# --- Simulated --------------------------------------------------------------------------------------------------------


PRIME = 2_199_023_288_321
TOY, BOUNDS = 257, (2 / 256, 3 / 256)  # where sums are quadratic, or cubic
UNSEEN = {"forge-at-1", "forge-at-2", "add-to-tags", "add-to-blinders"}  # change what only the check looks at
SIMULATED = [name for name, strategy in STRATEGIES.items() if strategy.tamper is None]
LIES_SIMULATED = [name for name in SIMULATED if name not in HARMLESS]

QUICK_SIMULATED = {"guess-point", "forge-difference", "add-and-guess", "drop-party", "average-results"}


CUBIC = [pytest.param(name, True, marks=() if name in QUICK_SIMULATED else pytest.mark.slow) for name in LIES_SIMULATED]


@pytest.mark.parametrize(("name", "interval"), [*((name, False) for name in LIES_SIMULATED), *CUBIC])
def test_no_simulated_lie_passes(name: str, interval: bool) -> None:
    """Modulo 257 none passes more often than is proved; with an interval sums are cubic."""
    found = simulated.run(name, PRIME, 1_000, seed=1, interval=interval)
    assert found.refused == {"authenticator": found.trials}
    if name != "scale-value":  # at z = 0 or elsewhere, as it is drawn
        assert found.changed == (0 if name in UNSEEN else found.trials)
    toy = simulated.run(name, TOY, 5_000, seed=5, interval=interval)
    assert stats.binom.sf(toy.passed - 1, toy.trials, BOUNDS[interval]) > 1e-6


def test_simulated_what_is_right_is_accepted_and_a_verdict_would_tell_whether_a_guess_is() -> None:
    for name in HARMLESS:
        assert simulated.run(name, PRIME, 2_000, seed=2).harmless == 2_000
    # One bit a session, which is why the aggregator hears no verdict; the number accepted is right all the same.
    right, wrong = (simulated.run(name, PRIME, 2_000, seed=3) for name in ("guess-right", "guess-wrong"))
    assert ((right.harmless, right.passed), wrong.refused) == ((2_000, 0), {"authenticator": 2_000})


@pytest.mark.parametrize(("interval", "trials"), [(False, 50_000), (True, 20_000)])
def test_the_best_liar_passes_modulo_257_as_often_as_is_proved(interval: bool, trials: int) -> None:
    found = simulated.run("guess-point", TOY, trials, seed=4, interval=interval)
    assert found.changed == trials
    assert stats.binomtest(found.passed, trials, BOUNDS[interval]).pvalue > 1e-6
