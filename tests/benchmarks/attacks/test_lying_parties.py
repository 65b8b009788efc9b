"""A party that lies, alone, in two ways at once, and beside another: no lie about a row cap counts, and it is named."""

import json
from collections.abc import Mapping
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.cli import main
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc_benchmarks.attacks.exact_auc import helped as trials
from fhe_auc_benchmarks.attacks.exact_auc.ciphertexts import right
from fhe_auc_benchmarks.attacks.exact_auc.helped import LEFT_OUT, PARTIES, THE_AGGREGATOR, THE_HELPER, Trial
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import LIES, Lie, combined
from fhe_auc_benchmarks.attacks.laboratory import HARMLESS, PASSED, made_up_sites

slow = partial(pytest.param, marks=pytest.mark.slow)

REFUSED = "VerificationError"
TAGS = "party-tags"
ABOUT_CAPS = [name for name in LIES if name != TAGS]
NOT_BOUND = {"party-no-proof", "party-replayed-proof", "party-anothers-proof"}
NOT_BOUND |= {"party-chosen-aggregators-part", "party-chosen-parts"}  # the aggregator sees that without the helper
QUICK_PAIRS = [
    ("party-negative", "party-other-counts"),  # a proof that holds, of counts that it does not submit
    ("party-negative", "party-chosen-aggregators-part"),
    ("party-over-cap", "party-digits"),
    ("party-other-column", "party-other-model"),
]
PAIRS = list(combinations(ABOUT_CAPS, 2))


def play(lies: Mapping[int, Lie], protocol: str = "verified", seed: int = 1, **options: Any) -> Trial:
    return trials.play(lies, protocol, np.random.default_rng(seed), **options)


@pytest.mark.parametrize("name", ABOUT_CAPS)
@pytest.mark.parametrize("protocol", ["verified", slow("exact")])
def test_a_party_that_lies_about_its_counts_or_its_proof_is_named_and_the_others_read_what_is_right(
    protocol: str, name: str
) -> None:
    by = THE_AGGREGATOR if name in NOT_BOUND else THE_HELPER
    assert play({trials.TOLD_BY: LIES[name]}, protocol) == (LEFT_OUT, {"east": by})


@pytest.mark.parametrize("proofs", [True, False])
def test_a_party_that_lies_about_nothing_counts(proofs: bool) -> None:
    assert play({trials.TOLD_BY: Lie("")}, proofs=proofs) == (HARMLESS, {})


@pytest.mark.parametrize("protocol", ["verified", slow("exact")])
@pytest.mark.parametrize(
    "name", ["party-negative", "party-halves", "party-wrap-around", "party-over-cap-slack", "party-other-column"]
)
def test_without_proofs_negative_and_fractional_counts_and_any_others_are_accepted(protocol: str, name: str) -> None:
    assert play({trials.TOLD_BY: LIES[name]}, protocol, proofs=False).verdict == PASSED


def test_a_party_that_spoils_its_tags_spoils_the_session_and_nobody_is_named() -> None:
    assert play({trials.TOLD_BY: LIES[TAGS]}) == (REFUSED, {})


@pytest.mark.parametrize("pair", [*QUICK_PAIRS, *(slow(each) for each in PAIRS if each not in QUICK_PAIRS)])
def test_a_party_that_lies_in_two_ways_at_once_is_named(pair: tuple[str, str]) -> None:
    lie = combined(*(LIES[name] for name in pair))
    by = THE_AGGREGATOR if NOT_BOUND & {*pair} else THE_HELPER
    assert play({trials.TOLD_BY: lie}) == (LEFT_OUT, {"east": by})


@pytest.mark.parametrize("pair", [*QUICK_PAIRS, *(slow(each) for each in PAIRS if each not in QUICK_PAIRS)])
def test_two_parties_that_lie_each_in_its_way_are_both_named(pair: tuple[str, str]) -> None:
    first, second = pair
    found = play({0: LIES[first], 3: LIES[second]})
    assert (found.verdict, set(found.named_by)) == (LEFT_OUT, {PARTIES[0], PARTIES[3]})


def sites(number: int = 4) -> list[PartyData]:
    return made_up_sites(np.random.default_rng(3), PARTIES[:number])


CAPS = {"keys": "helper", "row_caps": {each.name: each.rows for each in sites()}}


@pytest.mark.parametrize(
    ("cheat", "unproved", "reason"),
    [
        ("party-negative", ("west",), "its proof did not hold"),
        ("party-over-cap", ("west",), "its proof did not hold"),
        ("party-replayed-proof", (), "its proof is not about the numbers that it has submitted"),
    ],
)
def test_federated_auc_names_the_liar_and_has_the_auc_of_the_others(
    cheat: str, unproved: tuple[str, ...], reason: str
) -> None:
    told = federated_auc(sites(), cheat=cheat, thresholds="uniform:8", **CAPS)
    auc, merged, ties, *rows = right(sites()[:3])[0]
    assert (told.fraction, told.positives, told.negatives) == (auc, *rows)
    assert merged <= told.binning_error <= ties
    assert (told.parties, told.unproved_parties, told.inputs_proved) == (3, unproved, "row caps")
    assert f"west not counted: {reason}" in told.warnings[-1]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": "sealed", "row_caps": None}, "give keys='helper' and row_caps"),
        ({"row_caps": None}, "give keys='helper' and row_caps"),
        ({"cheat": "party-negativ"}, "there is no attack 'party-negativ' on this protocol; known .* party-negative, "),
        ({"cheat": "party-other-column"}, "takes two models, or groups by two columns"),
        ({"cheat": "party-tags", "protocol": "exact"}, "is on tags, and protocol 'exact' has none"),
    ],
)
def test_what_a_party_s_lie_takes_is_asked_for(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        federated_auc(sites(), **{"thresholds": "uniform:8", "cheat": "party-negative", **CAPS, **changed})


def test_of_two_parties_none_lies_as_the_other_would_be_left_alone() -> None:
    with pytest.raises(InputError, match="the last of three parties or more lies; there are 2"):
        federated_auc(sites(2), cheat="party-negative", keys="helper", row_caps=90)


def test_the_attacks_that_are_installed_list_parties_lies() -> None:
    for protocol in ("exact", "verified"):
        assert list(registry.attacks(protocol).of_parties) == list(LIES)


SMALL = ("demo", "--dataset", "credit-default", "--backend", "tenseal", "--thresholds", "uniform:25")


def demo(*arguments: str, status: int = 0) -> str:
    found = CliRunner().invoke(main, [*SMALL, *arguments], catch_exceptions=False)
    assert found.exit_code == status
    return " ".join((found.stdout if status < 2 else found.stderr).split())


def test_the_demo_shows_who_lies_that_it_is_left_out_and_what_would_have_come_of_it() -> None:
    text = demo("--cheat", "party-negative")
    for said in (
        "Party '(50, 99]' lies: party-negative, count less than zero negatives in the lowest bin. It is named and",
        "Without proofs of row caps all would have accepted an AUC of 0.5",
        "inputs row caps no party's counts go beyond its cap, or below zero",
        "helper trusted it does not work with the aggregator: together they read every party's counts",
        "within the binning error",
        "parties 5 ",
        "(50, 99] not counted: its proof did not hold",
    ):
        assert said in text
    found = json.loads(demo("--cheat", "party-over-cap", "--json"))
    assert (found["cheat"], found["liar"]) == ("party-over-cap", "(50, 99]")
    assert found["unproved_parties"] == ["(50, 99]"]
    assert abs(found["auc"] - found["pooled_auc"]) <= found["binning_error"]
    assert found["auc_without_proofs"] < found["auc"] - 0.03


def test_the_demo_says_so_where_a_lie_is_about_proofs_alone_and_where_it_spoils_the_session() -> None:
    assert "Without proofs of row caps there is no such lie." in demo("--cheat", "party-replayed-proof")
    text = demo("--cheat", "party-tags", status=1)
    assert "party '(50, 99]' lies party-tags, send a tag that does not fit" in text
    assert "no number is released" in text
    assert "the session would have failed, and nobody would know by whom" in demo("--cheat", "party-other-seed")
    assert "with --keys helper" in demo("--cheat", "party-negative", "--keys", "sealed", status=2)
