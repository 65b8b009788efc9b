"""`fhe-auc attack` shows what attacks learn, beside those on results."""

import json
import re
from itertools import takewhile
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc.base.errors import EvaluationError
from fhe_auc_benchmarks.attacks.cli import attack
from fhe_auc_benchmarks.attacks.exact_auc.helped import THE_HELPER
from fhe_auc_benchmarks.attacks.learning import (
    ATTACKS,
    Learned,
    LearningAttack,
)

COUNTS, PRIME = np.array([3, 0, 17, 130, 41, 5, 2, 9]), 2_199_023_288_321


def played(*arguments: str) -> Result:
    given = ["--protocol", "verified", "--trials", "2", "--simulated-trials", "0", *arguments]
    return CliRunner(env={"COLUMNS": "200"}).invoke(attack, given, catch_exceptions=False)


def test_the_command_shows_attacks_that_learn_beside_those_on_results() -> None:
    found = played("--attack", "zeros", "--attack", "added-rows")
    assert found.exit_code == 0
    lines = [" ".join(line.split()) for line in found.stdout.splitlines()]
    assert "zeros 2/2 0/2 - -" in lines
    assert any(line.startswith("added-rows 2/2 0/2 exact read: pooled negatives of bin 1") for line in lines)
    (row,) = json.loads(played("--attack", "added-rows", "--json").stdout)["attacks"]
    assert row["learned"]["verified"] == {"read": {}, "beyond": {}, "refused": {"VerificationError": 2}}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_command_ends_with_1_where_an_attack_reads_more_than_is_promised(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
        if protocol == "exact":
            raise EvaluationError("no")
        return {"a seed", "a sum"}, {"a sum"}

    monkeypatch.setitem(ATTACKS, "made-up", LearningAttack("", reads, {"sealed": ("exact", "verified")}))
    found = played("--attack", "made-up", *options)
    assert found.exit_code == 1
    if options:
        (row,) = json.loads(found.stdout)["attacks"]
        assert row["learned"]["verified"] == {"read": {"a seed": 2, "a sum": 2}, "beyond": {"a seed": 2}, "refused": {}}
    else:
        assert "0/2 2/2 exact refused: EvaluationError; verified read: " in " ".join(found.stdout.split())


# --- The command ------------------------------------------------------------------------------------------------------


def invoke(*arguments: str, width: str | None = "200") -> Result:
    """In a terminal so wide; None: piped."""
    return CliRunner(env={"COLUMNS": width}).invoke(attack, arguments, catch_exceptions=False)


def attacks(*names: str) -> list[str]:
    return [part for name in names for part in ("--attack", name)]


def cells_of(text: str, headings: list[str], names: list[str]) -> dict[str, list[str]]:
    """What stands in a row behind an attack's name: in columns or, where these are too narrow, line by line."""
    lines = text.splitlines()
    columns = next((number for number, line in enumerate(lines) if all(each in line for each in headings)), None)
    found = {}
    for name in names:
        if columns is not None:
            assert re.split(" {2,}", lines[columns].strip())[-len(headings) :] == headings
            row = next(line for line in lines[columns:] if line.startswith(name + " "))
            found[name] = row.split()[1:]
        else:
            told = list(takewhile(lambda line: line.startswith(" "), lines[lines.index(name) + 1 :]))
            assert [line.strip().split(":")[0] for line in told[: len(headings)]] == headings[: len(told)]
            found[name] = " ".join(line.split(":")[-1] for line in told).split()
    return found


@pytest.mark.parametrize("width", [None, "40", "200", pytest.param("80", marks=pytest.mark.slow)])
def test_tables_are_complete_at_any_width_and_when_piped(width: str | None) -> None:
    expected = {  # -, -, passes and what their rate lies below, with 95 % confidence (1 - 0.05^(1/1000))
        "scale-last": ["-", "-", "0/1,000", "<3.0e-03"],
        "scale-all": ["-", "-", "0/1,000", "harmless", "<3.0e-03"],
        "replace-with-counts": ["-", "-", "0/1,000", "<3.0e-03"],
        "flip-bytes": ["-", "-", "-"],
    }
    found = invoke(*attacks(*expected), "--trials", "0", "--simulated-trials", "1000", width=width)
    headings = ["semi-honest", "real", "simulated"]
    assert cells_of(found.stdout, headings, list(expected)) == expected


def rows_of(*arguments: str) -> dict[str, Any]:
    return json.loads(invoke(*arguments, "--json").stdout)


def test_json_on_malicious_has_bounds_and_on_verified_both_protocols_and_primes() -> None:
    found = rows_of(*attacks("scale-last", "drop-party"), "--trials", "0", "--simulated-trials", "2000")
    first, second = found["attacks"]
    assert (first["attack"], second["attack"]) == ("scale-last", "drop-party")
    assert first["malicious"]["simulated"]["trials"] == 2_000
    assert len(first["malicious"]["simulated"]["parameter"]) == 3
    assert {"tolerance", "thresholds", "seed", "confidence", "attacks"} == set(found)
    assert "Examples" in invoke("--help").stdout
    arguments = [*attacks("zeros", "guess-point", "flip-bytes"), "--protocol", "verified"]
    found = rows_of(*arguments, "--trials", "1", "--simulated-trials", "2000")
    guess, zeros, flip = found["attacks"]
    assert zeros["what"] == "return zeros, as if there were no rows"
    assert zeros["ciphertexts"]["exact"]["passed"] == 1
    assert zeros["ciphertexts"]["verified"]["refused"] == {"VerificationError": 1}
    assert zeros["simulated"]["one prime"]["passed"] == zeros["simulated"]["toy"]["passed"] == 0
    assert guess["ciphertexts"]["exact"] is None
    assert 0 < guess["simulated"]["toy"]["pass_rate"] < 2 * found["toy_bound"]
    assert flip["simulated"] == {"one prime": None, "toy": None}


def test_with_a_helper_it_shows_who_lies_and_who_refuses() -> None:
    names = attacks("two-lists", "helper-zeros", "party-negative", "party-no-proof")
    arguments = [*names, "--protocol", "verified", "--keys", "helper", "--trials", "1"]
    text = invoke(*arguments).stdout
    for said in (
        *("the helper refuses", "helper: return zeros, as if there were no rows", "a party: send no proof"),
        *("the helper names it; 1/1 without proofs", "the aggregator names it"),
    ):
        assert said in text
    found = rows_of(*arguments)["attacks"]
    lists, zeros, negative, no_proof = (each["ciphertexts"] for each in found)
    assert lists["verified"]["refused"] == {THE_HELPER: 1}
    assert (zeros["exact"]["passed"], zeros["verified"]["passed"]) == (1, 0)
    assert [each["verified"]["passed"] for each in (negative, no_proof)] == [0, 0]
    assert "without_proofs" not in found[1]
    assert (found[2]["without_proofs"]["exact"]["passed"], found[3]["without_proofs"]["exact"]) == (1, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--protocol verified --tolerance 1e-5", "--tolerance is for --protocol malicious only"),
        ("--protocol verified --thresholds uniform:10", "--thresholds is for --protocol malicious only"),
        ("--keys helper", "--keys is for --protocol verified only"),
        ("--protocol verified --keys helper --simulated-trials 9", "is for --keys sealed only"),
    ],
)
def test_it_ignores_no_option(arguments: str, message: str) -> None:
    found = invoke(*arguments.split())
    assert found.exit_code == 2
    assert message in found.stderr
