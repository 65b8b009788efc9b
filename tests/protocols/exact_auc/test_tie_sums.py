"""Ties that are meant, by signs of a hash: against pairs of rows by definition, in every kind of session."""

from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import encode
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.score_bins import bins_of, starts_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc_protocols.exact_auc.release_part import AucOfSums, Reading, Rows
from fhe_auc_protocols.exact_auc.tie_sums import DRAWS, TieSums
from tests.support.exact_sessions import Play, both_protocols, rows

GRID = thresholds.hybrid(200)
SESSIONS = [bytes([number // 256, number % 256]) for number in range(500)]


def draws(scores: Any, labels: Any, session: bytes, grid: Any = GRID) -> Any:
    """M of each draw, in the clear."""
    ties = TieSums(PLAIN, (len(grid),), len(grid), 2 * len(grid))
    data = PartyData.from_arrays("all", labels, scores)
    vectors = ties.of_rows(Rows(data, np.asarray(grid), starts_of(np.asarray(grid)), session))
    products = np.array([each.reshape(2, -1).prod(axis=0).sum() for each in vectors])
    return products[::2] - products[1::2]


def merged(scores: Any, labels: Any) -> tuple[int, int]:
    """Pairs of rows in one bin, and those of them whose scores differ; by going through all pairs."""
    at = np.searchsorted(GRID, scores, side="right")
    one_bin = at[labels][:, None] == at[~labels]
    return int(one_bin.sum()), int((one_bin & (scores[labels][:, None] != scores[~labels])).sum())


def points(number: int, seed: int, values: Any) -> tuple[Any, Any]:
    """Labels and scores of these values, the higher the likelier."""
    random = np.random.default_rng(seed)
    at = random.choice(len(values), number)
    return random.random(number) < 0.1 + 0.5 * at / len(values), np.array(values)[at]


def test_a_number_has_one_sign_in_all_files_and_others_signs_of_their_own_in_each_draw_and_session() -> None:
    one_bin = np.array([0.0, 1.0])
    for value in (0.1, 1 / 3, 5e-300):
        text_and_single = [value, float(np.float32(value)) if value > 1e-38 else value * (1 + 1e-9)]
        assert (draws(text_and_single, [1, 0], b"any", one_bin) == 0).all()
    for pair in ([0.1, 0.2], [0.5, np.nextafter(np.float32(0.5), np.float32(1))], [0.25, 0.75], [0.0, 1e-12]):
        products = 1 - np.array([draws(pair, [1, 0], session, one_bin) for session in SESSIONS])
        assert np.abs(products.mean(axis=0)).max() < 4 / np.sqrt(len(SESSIONS))
        assert np.abs(products.T @ products / len(SESSIONS) - np.eye(DRAWS)).max() < 4.5 / np.sqrt(len(SESSIONS))


@pytest.mark.parametrize("values", [[0.30001, 0.30002], [0.1, 0.2, 0.30001, 0.30002], np.linspace(0.3, 0.304, 40)])
def test_signed_sums_are_the_merged_pairs_on_average(values: Any) -> None:
    labels, scores = points(300, 1, values)
    _, truth = merged(scores, labels)
    found = np.array([draws(scores, labels, session).mean() for session in SESSIONS])
    assert found.mean() == pytest.approx(truth, abs=4 * found.std() / np.sqrt(len(SESSIONS)))
    assert truth > 0


def test_two_values_of_one_bin_are_missed_in_one_session_of_256() -> None:
    labels, scores = points(50, 2, [0.30001, 0.30002])
    missed = sum((draws(scores, labels, session) == 0).all() for session in SESSIONS)
    assert 0 < missed < 12  # 2 on average


@both_protocols
def test_where_bins_merge_rows_the_interval_is_widened_as_if_no_tie_were_meant(protocol: str) -> None:
    random = np.random.default_rng(7)
    labels = random.random(3000) < 0.3
    high = random.random(3000) < 0.4 + 0.2 * labels  # in two bins of two buckets, whatever signs they have
    scores = np.where(high, 0.7002, 0.2002) + 0.0001 * random.random(3000)
    found: Any = federated_auc([(labels, scores)], protocol=protocol, thresholds=GRID)
    ties, truth = merged(scores, labels)
    assert found.binning_error == ties / (2 * int(labels.sum()) * int((~labels).sum()))
    assert truth > 0.99 * ties
    assert "widened" in found.interval.method
    assert any("take quantile:1000" in each for each in found.warnings)


def test_what_a_party_that_makes_up_rows_reads_of_signs_is_the_sum_of_the_bucket_of_a_number_of_its_choice() -> None:
    """X positives of number v add X times what one of them has with the others' negatives in its bucket to M."""
    labels, scores = points(200, 8, np.linspace(0.3, 0.35, 17))
    before = draws(scores, labels, b"session")
    after = draws(np.append(scores, [0.31] * 50), np.append(labels, [True] * 50), b"session")
    alone = draws(np.append(scores[~labels], 0.31), [*[0] * int((~labels).sum()), 1], b"session")
    assert (after - before == 50 * alone).all()


def test_a_party_hides_what_bins_merge_of_others_where_signs_of_its_rows_are_of_its_choice() -> None:
    """Of a bin's k positives and k negatives it says that all rows have one sign, and bins' signs even out: -k^2."""
    grid, random = thresholds.uniform(20), np.random.default_rng(9)
    labels = random.random(3000) < 0.3
    scores = np.clip(0.5 + 0.1 * random.normal(size=3000) + 0.05 * labels, 0, 1)
    honest, at = draws(scores, labels, b"session", grid), bins_of(scores, grid)
    k = int(np.sqrt(honest.mean() + 2 * honest.std(ddof=1)))
    assert k < 750  # so that half of all rows are its own
    pools = [np.append(np.bincount(at[of], minlength=20), k) for of in (labels, ~labels)]
    positives, negatives = (int(each.sum()) for each in pools)
    sums = AucOfSums(None, Fraction(int(np.prod(pools, axis=0).sum()), 2 * positives * negatives), positives, negatives)
    ties = TieSums(PLAIN, (20,), 20, 40)
    both = [Reading(analysis=PLAIN, max_rows=3000, modulus=2**60, aucs=[sums]) for _ in range(2)]
    for reading, own in zip(both, (honest, honest - k * k), strict=True):
        ties.read_sums(own.tolist(), reading)
    (right,), (hidden,) = (reading.aucs for reading in both)
    assert right == sums
    assert hidden.binning_error < sums.binning_error / 4


@both_protocols
def test_a_manifest_that_takes_other_bins_for_those_of_one_number_is_refused(protocol: str) -> None:
    """It would have all ties count as meant."""
    play = Play(protocol, rows(2, 15))
    assert play.plan.runs == (11, 1)
    for bad in ((0, 12), (12,), None):
        content = encode(msgspec.structs.replace(play.plan, runs=bad))
        plan = msgspec.structs.replace(play.manifest.plan, content=content)
        with pytest.raises(InputError, match="takes other bins for those of one score"):
            play.party(play.sites[0], msgspec.structs.replace(play.manifest, plan=plan))
    for bad in ((11,), (11, 0, 1), (13,)):
        with pytest.raises(InputError, match="are not those of its thresholds"):
            msgspec.structs.replace(play.plan, runs=bad)
