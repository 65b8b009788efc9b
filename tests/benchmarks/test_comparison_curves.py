"""Simulated curves: errors of known curves, the law of real sessions, and which method is best on a set of the page."""

import math
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score, roc_curve

from fhe_auc import federated_auc
from fhe_auc.cli import main
from fhe_auc.metrics.private_curves import CountNoise, RocFit
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc_benchmarks.comparison import curves
from fhe_auc_benchmarks.comparison.measure import ProtocolComparison, Row, compare
from fhe_auc_benchmarks.comparison.simulated_curves import Curves, dpauc, fedcurve, private_histogram
from fhe_auc_protocols.dpauc.budget import GAUSSIAN, LAPLACE, RANDOMIZED_RESPONSE, Budget
from fhe_auc_protocols.dpauc.roc import statistics

SMALL = curves.MadeUp(2_000, 300, 0.8, -1.5)
ROWS = SMALL.drawn(np.random.default_rng(3))
LABELS, SCORES, TRUTH = ROWS.y_true, ROWS.y_score, Curves.of_rows(ROWS)
SITES = [PartyData.from_arrays(f"site {k}", LABELS[k::5], SCORES[k::5]) for k in range(5)]
MECHANISMS = [(LAPLACE, {}), (GAUSSIAN, {"delta": 1e-6}), (RANDOMIZED_RESPONSE, {})]


def generator() -> np.random.Generator:
    return np.random.default_rng(11)


def test_the_truth_is_scikit_learns_and_a_constant_shift_is_its_own_area_error() -> None:
    fpr, tpr, _ = roc_curve(LABELS, SCORES, drop_intermediate=False)
    precision, recall, _ = precision_recall_curve(LABELS, SCORES)
    assert TRUTH.auc == pytest.approx(roc_auc_score(LABELS, SCORES), abs=1e-12)
    assert TRUTH.tpr.mean() == pytest.approx(TRUTH.auc, abs=0.001)
    assert TRUTH.precision.mean() == pytest.approx(average_precision_score(LABELS, SCORES), abs=0.005)
    assert TRUTH.tpr[500] == pytest.approx(np.interp(0.25, fpr, tpr))
    assert TRUTH.precision[999] == pytest.approx(np.interp(0.5, recall[::-1], precision[::-1]))
    shifted = Curves(TRUTH.auc, TRUTH.tpr - 0.03, TRUTH.precision + 0.02)
    assert shifted.errors(TRUTH) == pytest.approx((0, 0.03, 0.02))
    assert [math.isnan(error) for error in Curves(0.8).errors(TRUTH)] == [False, True, True]


@pytest.mark.parametrize(("mechanism", "options"), MECHANISMS)
def test_with_next_to_no_noise_every_method_draws_the_curves_of_the_rows(
    mechanism: str, options: dict[str, float]
) -> None:
    grid = thresholds.dpauc(100)
    exact = statistics(LABELS, SCORES, grid)
    (found,) = islice(
        dpauc(exact, Budget.checked(mechanism, {"epsilon": 100.0, **options}, len(grid)), 5, generator()), 1
    )
    # Noise on a count is about 4·100/100 rows a party with Laplace.
    assert max(found.errors(TRUTH)) < (0.06 if mechanism == LAPLACE else 0.03)
    (drawn,) = islice(fedcurve(ROWS, 256, 1e4, generator()), 1)
    assert drawn is not None
    assert np.less(drawn.errors(TRUTH), (0.001, 0.003, 0.02)).all()
    (run,) = islice(private_histogram(ROWS, 5, 32.0, generator()), 1)
    assert run is not None
    assert np.less(Curves.of_fit(run[-1]).errors(TRUTH), (0.003, 0.006, 0.03)).all()


def test_flipped_labels_are_taken_back_so_that_rates_are_right_on_average() -> None:
    grid = thresholds.dpauc(25)
    budget = Budget.checked(RANDOMIZED_RESPONSE, {"epsilon": 2.0}, len(grid))
    runs = list(islice(dpauc(statistics(LABELS, SCORES, grid), budget, 5, generator()), 400))
    without = Curves.of_rows(PartyData.from_arrays("all", LABELS, np.searchsorted(grid, SCORES, side="right")))
    mean = np.mean([run.tpr for run in runs], axis=0)
    assert abs(mean - without.tpr)[200:].max() < 0.03  # flips not taken back: 0.1
    assert np.mean([run.auc for run in runs]) == pytest.approx(without.auc, abs=0.01)


def test_fedcurve_gets_half_of_an_epsilon_for_a_row_replaced() -> None:
    (row,) = [row for row in comparison(("fedcurve",), (2.0,)) if row.method == "fedcurve (rebuilt)"]
    assert (row.epsilon, row.epsilon_unit, row.upload_bytes_per_party) == (2.0, "row", 0)
    random = np.random.default_rng([0, *b"fedcurve", len(LABELS), 20])
    again = [run.errors(TRUTH) for run in islice(fedcurve(ROWS, 20, 1.0, random), 30) if run]
    assert (row.error, row.roc_error, row.pr_error) == pytest.approx(tuple(np.mean(again, axis=0)))
    one_cell = PartyData.from_arrays("all", LABELS, np.full(len(LABELS), 0.75))
    (found,) = islice(fedcurve(one_cell, 8, 1e4, generator()), 1)
    assert found is not None
    assert found.auc == pytest.approx(0.5, abs=0.01)


def comparison(protocols: tuple[str, ...], epsilons: tuple[float, ...], runs: int = 30) -> list[Row]:
    return compare(SITES, ProtocolComparison(protocols=protocols, epsilons=epsilons, thresholds=(20,), runs=runs))


def test_each_row_of_a_comparison_tells_its_errors_bytes_and_what_epsilon_protects() -> None:
    protocols = ("verified", "histogram-distributed-dp", "dpauc-laplace", "dpauc-gaussian", "dpauc-rr", "fedcurve")
    rows = {(row.method, row.epsilon): row for row in comparison(protocols, (2.0,))}
    told = {
        method: (row.epsilon_unit, row.roc_error > 0, row.upload_bytes_per_party > 0)
        for (method, _), row in rows.items()
    }
    assert told == {
        "scikit-learn": (None, False, False),
        "verified": ("row", False, True),  # an AUC alone
        "histogram-distributed-dp": ("row", True, True),
        "dpauc-laplace": ("row", True, True),
        "dpauc-gaussian": ("row", True, True),
        "dpauc-rr": ("label", True, True),
        "fedcurve (rebuilt)": ("row", True, False),
    }
    assert rows["verified", None].epsilon_unit is None
    private = rows["histogram-distributed-dp", 2.0]
    assert private.thresholds in range(6, 100)  # found by itself: half the root of 300 is 9
    assert rows["verified", 2.0].deviation < private.deviation < rows["dpauc-gaussian", 2.0].deviation


def test_all_methods_are_compared_by_default_in_a_table_that_fits_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    np.savez(tmp_path / "rows.npz", y_true=LABELS, y_score=SCORES, site=np.arange(len(LABELS)) % 3)
    asked = ["--site-column", "site", "--thresholds", "20", "--runs", "5", "--epsilons", "2", "--backend", "tenseal"]
    result = CliRunner().invoke(main, ["compare-protocols", str(tmp_path / "rows.npz"), *asked])
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    table = lines[next(at for at, line in enumerate(lines) if line.startswith("protocol")) :]
    assert table[0].split() == ["protocol", "edges", "error", "ROC", "PR", "upload", "privacy"]
    methods = [line.split()[0] for line in table[2 : table.index("")] if not line.startswith(" ")]
    assert list(dict.fromkeys(methods)) == [
        "verified",
        "histogram-distributed-dp",
        "semi-honest",
        "malicious",
        "dpauc-laplace",
        "dpauc-gaussian",
        "dpauc-rr",
        "fedcurve",
    ]


@pytest.mark.parametrize(
    ("made_up", "points"), [(curves.SETS[1], 128), pytest.param(curves.SETS[3], 256, marks=pytest.mark.slow)]
)
def test_at_equal_meaning_of_epsilon_the_private_report_beats_fedcurve_and_dpauc_on_sets_of_the_page(
    made_up: curves.MadeUp, points: int
) -> None:
    rows, epsilon, grid = made_up.drawn(np.random.default_rng(5)), 2.0, thresholds.dpauc(25)
    truth, exact = Curves.of_rows(rows), statistics(rows.y_true, rows.y_score, grid)
    gaussian = dpauc(exact, Budget.checked(GAUSSIAN, {"epsilon": epsilon, "delta": 1e-6}, len(grid)), 10, generator())
    private = (run and Curves.of_fit(run[-1]) for run in private_histogram(rows, 10, epsilon, generator()))
    ours, theirs, dpaucs = (
        np.mean([run.errors(truth) for run in islice(runs, 40) if run], axis=0)
        for runs in (private, fedcurve(rows, points, epsilon / 2, generator()), gaussian)
    )
    assert (1.5 * ours < theirs)[1:].all()
    assert 3 * theirs[1] < dpaucs[1]


def test_the_page_s_table_has_a_line_for_each_set_and_epsilon_and_ones_own_size_by_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("_POINTS", (32,)), ("_BANDS", 1), ("_DRAWN", 2)):
        monkeypatch.setattr(curves, name, value)
    monkeypatch.setattr(sys, "argv", "curves --rows 2000 --positives 300 --auc 0.8 --epsilon 2,6".split())  # noqa: SIM905
    curves.main()
    head, _, *lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines] == ["| 2,000, 300, 0.8", "| "]
    assert {len(line) for line in lines} == {len(head)}
    for line in lines:
        epsilon, verified, report, least, band, *areas = (float(cell.strip("| ")) for cell in line[1:])
        assert least == pytest.approx(1 / (300 * epsilon), rel=0.05)
        assert verified < report < band < 0.2
        assert areas == sorted(areas[:3]) + sorted(areas[3:])  # report, fedcurve, DPAUC; ROC, then PR
    for wrong in ("--rows 10", "--rows 10 --positives 10", "--rows 10 --positives 2 --auc 1"):
        monkeypatch.setattr(sys, "argv", ["curves", *wrong.split()])
        with pytest.raises(SystemExit, match="2"):
            curves.main()


@pytest.mark.slow
def test_real_sessions_agree_with_simulated_ones_in_mean_and_spread_of_auc_and_area_errors() -> None:
    """Of 20 real sessions; each bound is passed by chance once in a thousand sets of 20."""
    real = []
    for _ in range(20):
        found = federated_auc(SITES, protocol="histogram-distributed-dp", epsilon=1.0, thresholds="quantile")
        assert found.histogram is not None
        fit = RocFit.fitted(found.histogram, CountNoise.of(found.settings, found.parties))
        assert fit.auc == pytest.approx(found.auc, abs=1e-9)
        real.append((found.auc, *Curves.of_fit(fit).errors(TRUTH), found.histogram.bins))
    runs = [run for run in islice(private_histogram(ROWS, 5, 1.0, generator()), 1000) if run]
    simulated = [(fit.auc, *Curves.of_fit(fit).errors(TRUTH), histogram.bins) for histogram, _, fit in runs]
    for own, law in zip(np.transpose(real), np.transpose(simulated), strict=True):
        assert stats.ks_2samp(own, law).pvalue > 0.001
        samples = np.random.default_rng(1).choice(law, (20_000, 20))
        low, high = np.quantile(samples.std(axis=1, ddof=1), (0.0005, 0.9995))
        assert low <= own.std(ddof=1) <= high
