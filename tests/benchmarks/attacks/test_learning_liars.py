"""Liars who want to learn read what is promised, and no more; the command says so, and ends with 1 where one does."""

import json

import numpy as np
import pytest
from click.testing import CliRunner, Result

from fhe_auc.base.errors import EvaluationError
from fhe_auc.rows.counts import count
from fhe_auc_benchmarks.attacks import tables
from fhe_auc_benchmarks.attacks.cli import attack
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import GRID
from fhe_auc_benchmarks.attacks.laboratory import made_up_sites
from fhe_auc_benchmarks.attacks.learning.fleets import FLEETS
from fhe_auc_benchmarks.attacks.learning.learned import Learned, LearningAttack, outcome
from fhe_auc_benchmarks.attacks.learning.liars import LIARS

ATTACKS = {**LIARS, **FLEETS}
PLAYED = [(name, protocol, keys) for name, each in ATTACKS.items() for keys, on in each.on.items() for protocol in on]
READ = {"made-up-rows", "all-but-one", "with-a-site"}
"""Attacks that always read what they are promised."""
REFUSED = {
    "against-noise": "InputError",
    "published": "VerificationError",
    **dict.fromkeys(("against-noise-capped", "two-nights", "fleet-two-lists"), "EvaluationError"),
}
"""Errors with which honest roles end the others."""


@pytest.mark.parametrize(("name", "protocol", "keys"), PLAYED)
def test_no_liar_reads_more_than_is_promised(name: str, protocol: str, keys: str) -> None:
    found = ATTACKS[name].run(protocol, keys, 2, 7)
    assert found["beyond"] == 0, outcome(found)
    reads = name in READ or (name, protocol) == ("published", "exact")
    assert found["refused"] == ({} if reads or name not in REFUSED else {REFUSED[name]: 2})
    if reads:
        assert found["read"] == 2


def test_with_a_proved_cap_a_site_is_off_by_all_other_pairs_in_one_bin_over_its_cap() -> None:
    for seed in range(5):
        free, capped = (
            LIARS[name].play("verified", "helper", np.random.default_rng(seed))
            for name in ("made-up-rows", "made-up-rows-capped")
        )
        assert free.read == free.truth
        first, second = (count(each, GRID) for each in made_up_sites(np.random.default_rng(seed))[:-1])
        positives, negatives = (first + second).bin_positives, (first + second).bin_negatives
        off = int((positives * negatives).sum()) // 88  # two of its 90 rows are true ones, in other bins
        (read,), (true,) = capped.read.values(), capped.truth.values()
        assert off > 0
        assert read in [true + off + more for more in range(3)]  # type: ignore[operator]


def test_what_is_refused_or_read_wrongly_is_not_learned_and_what_is_not_promised_is_beyond() -> None:
    def refused(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
        raise EvaluationError("no")

    def read(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
        return Learned(
            {"a": 1, "b": int(generator.integers(2, 9))}, {"a": 1, "b": 1}, ("a",) if keys == "sealed" else ()
        )

    made = LearningAttack("", refused, {}).run("exact", "sealed", 3, 0)
    assert (made["read"], made["beyond"], made["refused"]) == (0, 0, {"EvaluationError": 3})
    assert outcome(made) == "learns nothing: EvaluationError"
    made = LearningAttack("", read, {}).run("exact", "sealed", 3, 0)
    assert (made["read"], made["beyond"], outcome(made)) == (3, 0, "reads a, as promised")
    made = LearningAttack("", read, {}).run("exact", "helper", 3, 0)
    assert (made["read"], made["beyond"], outcome(made)) == (3, 3, "READS a; promised: nothing")


def invoke(*arguments: str) -> Result:
    given = ["--protocol", "verified", "--trials", "1", "--simulated-trials", "0", *arguments]
    return CliRunner(env={"COLUMNS": "200"}).invoke(attack, given, catch_exceptions=False)


def test_the_command_shows_what_is_at_stake_beside_attacks_on_results() -> None:
    found = invoke("--attack", "zeros", "--attack", "published")
    assert found.exit_code == 0
    lines = [line.split() for line in found.stdout.splitlines()]
    zeros, published = (next(line for line in lines if line[:1] == [name]) for name in ("zeros", "published"))
    assert zeros == ["zeros", "result", "1/1", "0/1", "-", "-"]
    assert published[:4] == ["published", "learns", "1/1", "0/1"]
    assert "exact reads pooled negatives of bin 3, as promised" in " ".join(found.stdout.split())
    (row,) = json.loads(invoke("--attack", "published", "--json").stdout)["attacks"]
    assert row["stake"] == "learns"
    assert row["learned"]["exact"]["promised"] == row["learned"]["exact"]["secrets"] == ["pooled negatives of bin 3"]
    assert row["learned"]["verified"]["refused"] == {"VerificationError": 1}


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_the_command_ends_with_1_where_an_attack_reads_more_than_is_promised(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def reads(protocol: str, keys: str, generator: np.random.Generator) -> Learned:
        return Learned({"a seed": 1}, {"a seed": 1})

    attacks = {**LIARS, "made-up": LearningAttack("nobody: read it", reads, {"sealed": ("verified",)})}
    monkeypatch.setattr(tables, "LIARS", attacks)
    found = invoke("--attack", "made-up", *options)
    assert found.exit_code == 1
    assert ("READS a seed; promised: nothing" in " ".join(found.stdout.split())) == (not options)
