"""Every lie of the table, told in real sessions, comes to what is promised; and the commands say so."""

import json
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc.cli import main
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.rlwe.modular import Residues
from fhe_auc_benchmarks.attacks import table
from fhe_auc_benchmarks.attacks.cli import attack
from fhe_auc_benchmarks.attacks.exact_auc import ciphertexts
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import PARTIES
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, View, lying_party
from fhe_auc_benchmarks.attacks.exact_auc.strategies import STRATEGIES
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, Row, made_up_sites
from tests.support.exact_sessions import Play

slow = partial(pytest.param, marks=pytest.mark.slow)
TABLES: dict[str, dict[str, Row]] = {
    "malicious": table.on_malicious(),
    "sealed": table.on_verified("sealed"),
    "helper": table.on_verified("helper"),
}
QUICK = {
    "malicious": ("scale-last", "swap-runs", "drop-party", "garbage"),
    "sealed": ("guess-point", "zeros", "replay-session"),
    "helper": ("add-positives", "helper-guess-point", "party-no-proof", "party-negative"),
}


def told(which: str, chosen: Callable[[str], bool] = bool) -> list[Any]:
    """Parameters: a lie of each kind is quick, the others are slow."""
    return [
        (pytest.param if name in QUICK[which] else slow)(lie, on, id=f"{name}, {on}")
        for name, lie in TABLES[which].items()
        for on in lie.may
        if lie.sessions == 1 and chosen(name)
    ]


def came(lie: Row, protocol: str, trials: int = 1) -> dict[str, int]:
    """What comes of it, which is promised."""
    found = lie.run(protocol, trials, seed=1)
    assert found["beyond"] == []
    assert found["sessions"] == sum(found["came"].values()) == trials
    return dict(found["came"])


@pytest.mark.parametrize(("lie", "protocol"), told("malicious"))
def test_malicious_parties_refuse_every_lie_by_its_check(lie: Row, protocol: str) -> None:
    came(lie, protocol)


@pytest.mark.parametrize("name", ["add-constant", "chosen-values"])
def test_semi_honest_parties_accept_a_wrong_auc(name: str) -> None:
    assert came(TABLES["malicious"][name], "semi-honest") == {PASSED: 1}


@pytest.mark.parametrize(("lie", "protocol"), told("sealed"))
def test_no_lie_passes_and_exact_accepts_those_that_are_in_range(lie: Row, protocol: str) -> None:
    came(lie, protocol)


def test_what_is_right_is_accepted_and_a_verdict_would_tell_whether_a_guess_is() -> None:
    """One bit a session, which is why the aggregator hears no verdict; the number accepted is right all the same."""
    right, wrong = (TABLES["sealed"][name] for name in ("guess-right", "guess-wrong"))
    assert (came(right, "verified"), came(wrong, "verified")) == ({HARMLESS: 1}, {"authenticator": 1})


@pytest.mark.parametrize(("lie", "protocol"), told("helper", STRATEGIES.__contains__))
def test_no_lie_of_the_aggregator_passes(lie: Row, protocol: str) -> None:
    came(lie, protocol)


@pytest.mark.parametrize(("lie", "protocol"), told("helper", lambda name: name.startswith("helper-")))
def test_no_sums_that_the_helper_forges_pass_but_where_nothing_is_authenticated(lie: Row, protocol: str) -> None:
    """Together with the aggregator it has no more to choose from: parties compare nothing."""
    came(lie, protocol)


@pytest.mark.parametrize(("lie", "protocol"), told("helper", lambda name: name.startswith("party-")))
def test_a_party_that_lies_about_its_counts_or_its_proof_is_named_and_the_others_read_what_is_right(
    lie: Row, protocol: str
) -> None:
    came(lie, protocol)


@pytest.mark.parametrize("name", ["party-negative", *map(slow, ("party-halves", "party-over-cap-slack"))])
def test_without_proofs_negative_and_fractional_counts_and_any_others_are_accepted(name: str) -> None:
    for protocol in ("exact", "verified"):
        assert came(TABLES["helper"][f"{name}-unproved"], protocol) == {PASSED: 1}


PAIRS = list(combinations([name for name in LIES if name != "party-tags"], 2))
QUICK_PAIRS = (("party-negative", "party-other-counts"),)


@pytest.mark.parametrize("pair", [*QUICK_PAIRS, *(slow(each) for each in PAIRS if each not in QUICK_PAIRS)])
def test_two_parties_that_lie_each_in_its_way_are_both_named(pair: tuple[str, str]) -> None:
    first, second = pair
    found = ciphertexts.play_parties({0: LIES[first], 3: LIES[second]}, "verified", np.random.default_rng(1))
    assert (found.came, set(found.named_by)) == (ciphertexts.LEFT_OUT, {PARTIES[0], PARTIES[3]})


def test_a_party_that_lies_about_nothing_counts() -> None:
    for proofs in (True, False):
        found = ciphertexts.play_parties({2: Lie("")}, "verified", np.random.default_rng(1), proofs=proofs)
        assert found == (HARMLESS, {})


SEVERAL = Analysis(
    models=("a", "b"), by=(Variable("sex", ("f", "m")), Variable("age", ("young", "middle", "old"))), min_cell=1
)


@pytest.mark.parametrize("what", ["column", "model"])
def test_a_party_that_counts_other_rows_by_a_second_column_or_other_labels_for_a_second_model_is_named(
    what: str,
) -> None:
    def other(counts: Residues, view: View) -> Residues:
        found = counts.copy()
        part = np.s_[:, 3:6] if what == "column" else np.s_[1]
        found[part] = counts[part][..., ::-1]
        return found

    play = Play("verified", made_up_sites(np.random.default_rng(3), PARTIES, SEVERAL), thresholds.uniform(8),
                keys="helper", min_parties=3, row_caps=90, analysis=SEVERAL)  # fmt: skip
    data = play.sites[3]
    play.parties[3] = lying_party(play.manifest, play.material["west"], data, Lie("", other), 1)
    message: bytes | None = play.aggregator.start()
    while message is not None:
        message = play.deliver(play.answers(message))
    assert set(play.aggregator.refusals) == {"west"}
    assert play.parties[0].result().unproved_parties == ("west",)


def invoke(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(attack, arguments, catch_exceptions=False)


def test_the_command_prints_and_gives_as_json_what_came_of_each_attack() -> None:
    chosen = ["--protocol", "verified", "--attack", "zeros", "--attack", "guess-point"]
    text = " ".join(invoke(*chosen).stdout.split())
    for said in ("zeros exact 2/2", "zeros verified 0/2", "authenticator 2", "aggregator: return zeros, as if"):
        assert said in text
    found = json.loads(invoke(*chosen, "--json").stdout)
    assert (found["trials"], found["seed"], found["confidence"]) == (2, 0, 0.95)
    zeros, guess = sorted(found["attacks"], key=lambda each: each["attack"] == "guess-point")
    assert zeros["exact"]["passed"] == 2
    assert zeros["verified"]["came"] == {"authenticator": 2}
    assert "exact" not in guess
    assert "Examples" in invoke("--help").stdout


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_command_ends_with_1_where_something_comes_of_an_attack_that_is_not_promised(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    passing = Row("a party", "", {"verified": frozenset(["authenticator"])}, lambda protocol, generator: PASSED)
    monkeypatch.setattr(table, "on_verified", lambda keys: {"made-up": passing})
    found = invoke("--protocol", "verified", *options)
    assert found.exit_code == 1
    assert ('"beyond"' if options else "NOT PROMISED: passed") in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [("--keys helper", "--keys is for --protocol verified only"), ("--attack nonsense", "known are scale-all, ")],
)
def test_it_ignores_no_option_and_names_the_attacks_that_there_are(arguments: str, message: str) -> None:
    found = CliRunner().invoke(main, ["attack", *arguments.split()])
    assert found.exit_code == 2
    assert message in found.stderr
