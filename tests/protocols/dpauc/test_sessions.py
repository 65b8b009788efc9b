"""DPAUC through its real roles: what is sent has the stated noise, bad budgets and messages are refused.

Real noise cannot be seeded: a statistical test fails by chance with probability `FALSE_ALARM`.
"""

import math
import re
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import encode
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.dpauc.budget import Budget
from fhe_auc_protocols.dpauc.dpauc_protocols import DpaucGaussian, NoisyCounts
from fhe_auc_protocols.dpauc.roc import statistics
from tests.support.roles import unencrypted
from tests.support.wire import changed, payload_of

FALSE_ALARM = 1e-8
GRID = np.linspace(0, 1, 11)
NAMES = ("dpauc-laplace", "dpauc-gaussian", "dpauc-rr")
NEEDED: dict[str, dict[str, Any]] = {name: {"epsilon": 1.0} for name in NAMES}
NEEDED["dpauc-gaussian"]["delta"] = 1e-6
each = pytest.mark.parametrize("name", NAMES)


def manifest_of(name: str, **options: Any) -> Manifest:
    asked = Request(parties=("a", "b"), thresholds=thresholds.explicit(GRID), options={**NEEDED[name], **options})
    return registry.load(name).prepare(asked).manifest


def rows(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    y_true = random.random(size) < 0.3
    return y_true, np.clip(random.normal(0.3 + 0.2 * y_true, 0.2), 0, 1)


def sites(size: int, pieces: int) -> list[PartyData]:
    """So many rows in all."""
    return split(*rows(size), pieces)


def split(y_true: np.ndarray, y_score: np.ndarray, pieces: int) -> list[PartyData]:
    parts = enumerate(zip(np.array_split(y_true, pieces), np.array_split(y_score, pieces), strict=True))
    return [PartyData.from_arrays(f"site {i}", *of) for i, of in parts]


def submitted(name: str, data: PartyData, times: int, grid: np.ndarray = GRID, **options: Any) -> np.ndarray:
    """Return the counts that a party's submissions hold, from so many sessions: (times, 4, m)."""
    asked = {"thresholds": thresholds.explicit(grid), "options": {**NEEDED[name], **options}}
    sent = [unencrypted(registry.load(name), [data], **asked).submit()[0] for _ in range(times)]
    return np.array([NoisyCounts.submitted(payload_of(each)).array() for each in sent])


# --- What is sent -----------------------------------------------------------------------------------------------------


LAWS: list[tuple[str, dict[str, Any], Any, float]] = [
    *(
        ("dpauc-laplace", {"epsilon": epsilon, "budget_thresholds": size}, stats.laplace, 4 * size / epsilon)
        for epsilon, size in ((1.0, 11), (8.0, 11), (8.0, 100))
    ),
    # The known sigma of (1, 1e-5) at sensitivity 1, for all counts together.
    ("dpauc-gaussian", {"delta": 1e-5}, stats.norm, 3.7306 * math.sqrt(4 * 11)),
]


@pytest.mark.parametrize(("name", "options", "law", "scale"), LAWS)
def test_each_count_gets_noise_of_its_own_of_the_scale_that_the_budget_says(
    name: str, options: dict[str, Any], law: Any, scale: float
) -> None:
    data = PartyData.from_arrays("a", *rows(200))
    noise = submitted(name, data, 60, **options) - statistics(data.y_true, data.y_score, GRID)
    smooth = noise + np.random.default_rng(0).uniform(-0.5, 0.5, noise.shape)  # the discrete law, spread over its steps
    assert stats.kstest(smooth.ravel(), law(scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(smooth.ravel(), law(scale=scale / 2).cdf).pvalue < FALSE_ALARM
    flat = noise.transpose(1, 0, 2).reshape(4, -1)
    assert np.abs(np.corrcoef(flat) - np.eye(4)).max() < 0.25  # 660 draws: 6 standard deviations


def test_gaussian_noise_beyond_any_integer_is_cut_off_and_does_not_wrap_around() -> None:
    """No checked budget asks for as much: σ is 1e41 or so, and a draw below 2^62 out of the question."""
    manifest = manifest_of("dpauc-gaussian")
    boundless = Budget(mechanism="gaussian", epsilon=1e-40, delta=1e-60, budget_thresholds=11)
    sent = DpaucGaussian().submission(manifest, boundless, PartyData.from_arrays("a", *rows(20)))
    assert set(abs(sent.array()).ravel().tolist()) == {(2**63 - 1) // 2}


def test_a_label_flip_moves_two_counts_a_threshold_by_one_and_two_swapped_labels_all_four() -> None:
    """So the paper's accounting is loose by two for a flip, and exact for a swap."""
    y_true, y_score = rows(50)
    exact = statistics(y_true, y_score, GRID)
    for row in range(len(y_true)):
        other = y_true.copy()
        other[row] = ~other[row]
        assert (np.abs(exact - statistics(other, y_score, GRID)).sum(axis=0) == 2).all()
    spent = 2 * len(GRID) / Budget.checked("laplace", {"epsilon": 1.0}, len(GRID)).noise_scale  # L1 over the scale
    assert spent == pytest.approx(0.5)
    swapped = np.array([1, 0], bool), np.array([0, 1], bool)
    first, second = (statistics(labels, np.array([0.95, 0.05]), GRID) for labels in swapped)
    assert np.abs(first - second).sum(axis=0).tolist() == [0, *[4] * 9, 0]


def test_randomised_response_flips_each_label_with_its_probability_and_leaves_scores_alone() -> None:
    """A grid with one row in each bin shows every single label."""
    y_score = (np.arange(100) + 0.5) / 100
    y_true = np.arange(100) % 4 == 0
    sent = submitted("dpauc-rr", PartyData.from_arrays("a", y_true, y_score), 60, np.arange(101) / 100)
    rows_above = sent[:, 0] + sent[:, 1]
    np.testing.assert_array_equal(rows_above, np.tile(np.arange(100, -1, -1), (60, 1)))
    labels = -np.diff(sent[:, 0], axis=1)
    flipped = labels != y_true
    rho = 1 / (1 + math.e)
    for kind in (y_true, ~y_true):
        cells = flipped[:, kind]
        assert stats.binomtest(int(cells.sum()), cells.size, rho).pvalue > FALSE_ALARM
        assert stats.binomtest(int(cells.sum()), cells.size, 0.6 * rho).pvalue < 1e-3


def test_score_noise_moves_scores_by_laplace_of_the_stated_scale() -> None:
    data = PartyData.from_arrays("a", np.ones(400, bool), np.full(400, 0.5))
    grid = np.linspace(-3, 4, 200)
    sent = submitted("dpauc-rr", data, 10, grid, score_epsilon=2.0)
    above = (sent[:, 0] + sent[:, 1]).sum(axis=0) / 4000
    assert np.abs(above - stats.laplace(0.5, 0.5).sf(grid)).max() < 0.05  # Dvoretzky-Kiefer-Wolfowitz: 4e-9
    assert np.abs(above - stats.laplace(0.5, 1.0).sf(grid)).max() > 0.05


# --- What comes out ---------------------------------------------------------------------------------------------------


@each
def test_a_result_says_that_nothing_is_encrypted_and_nothing_bounded_and_has_the_curves_options(name: str) -> None:
    variants = {"clip": False, "endpoints": True, "monotone": True}
    found = federated_auc(sites(300, 3), protocol=name, thresholds=GRID, **NEEDED[name], **variants)
    assert {key: found.settings[key] for key in variants} == variants
    assert 0 <= found.auc <= 1
    assert (found.backend, found.security_bits, found.keys, found.verified) == ("none", 0, "none", False)
    assert np.isnan([found.binning_error, found.numerical_error]).all()
    assert (found.parties, found.thresholds, found.rounds, found.settings["epsilon"]) == (3, 11, 2, 1)
    assert set(found.seconds) == {"keys", "submit", "ingest", "circuit", "recover"}
    assert 100 < found.upload_bytes_per_party < 1000
    assert any("every restart within one: budgets on the same labels add up" in text for text in found.warnings)


def warned(parties: list[PartyData], name: str, grid: Any, **options: Any) -> str:
    return " ".join(federated_auc(parties, protocol=name, thresholds=grid, **options).warnings)


def test_warnings_tell_of_noise_that_drowns_the_counts_and_of_scores_that_show() -> None:
    small, large = sites(300, 3), sites(300_000, 3)

    def warnings(parties: list[PartyData], name: str = "dpauc-laplace", **options: Any) -> str:
        return warned(parties, name, GRID, **NEEDED[name], **options)

    assert "the noise on each count (standard deviation 108)" in warnings(small)
    assert "the noise on each count" not in warnings(large)
    assert "scores are not protected" in warnings(small, "dpauc-rr")
    assert "scores are not protected" not in warnings(small, "dpauc-rr", score_epsilon=1.0)
    assert "only one party" in warnings(small[:1])
    weak = {"epsilon": 20.0, "score_epsilon": 11.0}
    assert "epsilon = 20 and score_epsilon = 11: a bound" in warned(small, "dpauc-rr", GRID, **weak)
    assert "epsilon = 10.5: a bound" in warned(small, "dpauc-rr", GRID, epsilon=10.5)
    assert "protects little" not in warned(small, "dpauc-rr", GRID, epsilon=10.0, score_epsilon=10.0)


@each
@pytest.mark.parametrize("sign", [1, -1])
def test_thresholds_that_miss_the_scores_are_told(name: str, sign: int) -> None:
    y_true, y_score = rows(20_000)
    inside = split(y_true, y_score, 3)
    logits = split(y_true, sign * 4 * (y_score - 0.4), 3)
    options = {**NEEDED[name], "epsilon": 8.0}
    told = "the thresholds do not span the scores"
    grid = np.linspace(-0.1, 1.1, 20).tolist()
    assert told in warned(logits, name, grid, **options)
    assert told not in warned(logits, name, grid, **options, endpoints=True)
    assert told not in warned(inside, name, grid, **options)


def test_an_estimate_that_had_to_be_moved_is_told() -> None:
    roles = unencrypted(registry.load("dpauc-rr"), sites(50, 1), thresholds=GRID, options=NEEDED["dpauc-rr"])
    sent, (party,) = roles.submit(), roles.parties
    separated = [[100] * 6 + [0] * 5, [100, *[0] * 10], [0] * 6 + [100] * 5, [0, *[100] * 10]]
    party.respond(changed(roles.deliver(sent), payload=encode([1, *separated])))
    found = party.result()
    assert found.auc == 1
    assert any("is no AUC, and was moved" in warning for warning in found.warnings)


# --- Budgets that are none --------------------------------------------------------------------------------------------


FINITE, NOTHING = "epsilon must be positive and finite, got {}", "epsilon {} promises nothing: take at most 100"
SMALL, NO_OPTION = "epsilon {} is too small: noise of scale {} fits no count", "no option '{}'"
REFUSED = {
    "dpauc-laplace": [
        *(({"epsilon": value}, FINITE.format(value)) for value in (0, -1.0, math.inf)),
        *(({"epsilon": value}, f"epsilon must be a number, got {value!r}") for value in ("1", math.nan)),
        ({"epsilon": 100.001}, NOTHING.format("100.001")),
        ({"epsilon": 1e-17}, SMALL.format("1e-17", "4.4e+18")),
        ({"delta": 0.1}, "no option 'delta' (there are: epsilon, clip, endpoints"),
        ({"monotone": "yes"}, "monotone must be True or False, got 'yes'"),
        ({"budget_thresholds": 10}, "at least the number of thresholds, 11, got 10"),
        ({"budget_thresholds": 2**20 + 1}, "budget_thresholds must be at most 1,048,576"),
    ],
    "dpauc-gaussian": [
        *(({"delta": value}, "delta must") for value in (0, 1, math.nan)),
        ({"delta": None}, "delta has no default"),
        ({"epsilon": 1e-20, "delta": 1e-30}, "epsilon 1e-20 is too small: noise of scale"),
        ({"budget_thresholds": 11.0}, "must be an integer"),
    ],
    "dpauc-rr": [
        ({"budget_thresholds": 11}, NO_OPTION.format("budget_thresholds")),
        ({"score_epsilon": 1e12}, "score_" + NOTHING.format("1e+12")),
        ({"epsilon": 1e-12}, "epsilon 1e-12 is too small: labels would be coins"),
    ],
}


@each
def test_options_without_sense_are_refused(name: str) -> None:
    for options, message in REFUSED[name]:
        with pytest.raises(InputError, match=re.escape(message)):
            manifest_of(name, **options)


def test_score_noise_needs_scores_from_0_to_1() -> None:
    data = PartyData.from_arrays("a", [0, 1], [0.2, 1.1])
    wide = msgspec.structs.replace(manifest_of("dpauc-rr", score_epsilon=1.0), grid=np.linspace(-5, 6, 5).tobytes())
    with pytest.raises(InputError, match=r"party 'a': score_epsilon is for scores in \[0, 1\]"):
        registry.load("dpauc-rr").party(wide, b"", data)
