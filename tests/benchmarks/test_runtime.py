"""``fhe-auc benchmark``: every contender gets the right AUC, ratios are what they say, and files hold the numbers."""

from __future__ import annotations

import csv
import json
import socket
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner
from matplotlib.image import imread
from sklearn.metrics import roc_auc_score

from fhe_auc.cli import main
from fhe_auc.errors import EvaluationError, MessageError
from fhe_auc.messages import Message
from fhe_auc_benchmarks.runtime import figures, padded_sketches, summary
from fhe_auc_benchmarks.runtime.benchmark import HEADLINE, PARTIES, THRESHOLDS, Benchmark, Step
from fhe_auc_benchmarks.runtime.contender import SIGNED, Contender, OurProtocol
from fhe_auc_benchmarks.runtime.measure import (
    FLOOR,
    OURS,
    PADDED,
    PHASES,
    PUBLISHED,
    TUNED,
    Measurement,
    Seconds,
    measure,
)
from fhe_auc_benchmarks.runtime.peers.plaintext import PlaintextCounts, PooledRows
from fhe_auc_benchmarks.runtime.problem import Problem
from fhe_auc_benchmarks.stopwatch import Stopwatch

SMALL = Problem(3, 8)


def published(problem: Problem) -> Contender:
    from fhe_auc_benchmarks.runtime.peers.published import Published

    return Published(problem)


def published_tuned(problem: Problem) -> Contender:
    from fhe_auc_benchmarks.runtime.peers.published import PublishedTuned

    return PublishedTuned(problem)


def paillier(problem: Problem) -> Contender:
    pytest.importorskip("phe")
    from fhe_auc_benchmarks.runtime.peers.paillier import Paillier

    return Paillier(problem)


# --- Problems and contenders ------------------------------------------------------------------------------------------


def test_a_problem_repeats_the_rows_of_twenty_parties_and_knows_their_auc() -> None:
    problem = Problem(43, 50)
    assert np.array_equal(problem.data(2).y_score, problem.data(22).y_score)
    assert not np.array_equal(problem.data(2).y_score, problem.data(3).y_score)
    pooled = [problem.data(party) for party in range(43)]
    truth = roc_auc_score(np.concatenate([p.y_true for p in pooled]), np.concatenate([p.y_score for p in pooled]))
    assert problem.sklearn_auc == pytest.approx(truth, abs=1e-12)
    assert problem.auc == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(published, marks=pytest.mark.openfhe),
        pytest.param(published_tuned, marks=pytest.mark.openfhe),
        PlaintextCounts,
        PooledRows,
        paillier,
    ],
)
def test_a_peer_gets_the_auc_again_and_again(make: Any) -> None:
    contender = make(SMALL)
    for _ in range(1 if contender.once else 2):
        contender.begin()
        for phase in PHASES[:-1]:
            getattr(contender, phase)()
        assert contender.recover() == pytest.approx(contender.expected, abs=1e-6)
    contender.close()


@pytest.mark.parametrize("protocol", [OURS, FLOOR])
@pytest.mark.backends("one")
def test_submissions_sent_again_under_other_names_give_the_same_auc(backend: str, protocol: str) -> None:
    problem = Problem(23, 8)
    contender = OurProtocol(problem, protocol, backend, resend=True, min_parties=2)
    assert len(contender.submissions) == 23
    (found,) = measure(problem, [lambda _: contender], runs=1)
    assert found.auc == pytest.approx(problem.auc, abs=1e-6)
    assert found.upload_bytes == pytest.approx(ckks_bytes(backend), rel=0.01)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.backends("one")
def test_padded_sketches_give_the_exact_auc_run_after_run(backend: str, signed: bool) -> None:
    makers = [partial(OurProtocol, protocol=name, backend=backend, signed=signed) for name in PADDED]
    verified, exact = measure(SMALL, makers, runs=2)
    suffix = f"{SIGNED if signed else ''} ({backend})"
    assert (verified.contender, exact.contender) == (f"verified{suffix}", f"exact{suffix}")
    for found in (verified, exact):
        assert found.auc == found.exact_auc
        assert found.aggregation == sum(found.phases[phase].cpu_median for phase in ("ingest", "circuit", "relay"))
    # Residues of 42 bits: a tag for each of 16 counts, two blinders for each of two sums.
    assert verified.upload_bytes - exact.upload_bytes == pytest.approx((16 + 4) * 42 / 8, abs=4)
    assert exact.upload_bytes < 16 * 42 / 8 + (400 if signed else 200)


def test_a_signed_contender_checks_signatures(backend: str) -> None:
    contender = OurProtocol(SMALL, "exact", backend, signed=True)
    genuine = contender.submissions["site 1"]
    message = Message.from_bytes(genuine, limit=len(genuine))
    forged = msgspec.structs.replace(message, signature=bytes(len(message.signature)))
    with pytest.raises(MessageError, match="signature"):
        contender.aggregator.receive("site 1", forged.to_bytes())
    contender.aggregator.receive("site 1", genuine)


def ckks_bytes(backend: str) -> int:
    return {"openfhe": 172_064, "tenseal": 163_872}[backend]


@pytest.mark.openfhe
def test_the_published_design_has_the_parameters_of_the_paper() -> None:
    contender: Any = published(SMALL)
    context = contender._context
    assert context.GetRingDimension() == 16384
    assert context.GetMultiplicativeDepth() == 3
    assert context.GetScalingFactorReal(0) == pytest.approx(2**50, rel=1e-3)
    assert len(contender._sent[0]) == 4
    assert contender.upload_bytes == pytest.approx(
        4 * 2 * 4 * 16384 * 8, rel=0.01
    )  # four of two polynomials of 4 primes
    contender.close()


@pytest.mark.slow
@pytest.mark.openfhe
def test_tuning_spares_the_published_design_most_of_its_parsing() -> None:
    plain, tuned = measure(Problem(10, 8), [published, published_tuned], runs=2)
    assert tuned.upload_bytes == plain.upload_bytes
    assert tuned.phases["ingest"].cpu < 0.6 * plain.phases["ingest"].cpu  # a third, as measured


# --- Measuring --------------------------------------------------------------------------------------------------------


class Wrong(PlaintextCounts):
    """A contender whose AUC is off."""

    closed = 0

    def recover(self) -> float:
        return super().recover() + 0.01

    def close(self) -> None:
        Wrong.closed += 1


def test_a_wrong_auc_is_never_reported() -> None:
    with pytest.raises(EvaluationError, match="nothing is reported"):
        measure(SMALL, [Wrong], runs=1)
    assert Wrong.closed == 1


def test_contenders_take_turns_and_warm_up_is_not_counted() -> None:
    turns: list[str] = []

    class Watched(PlaintextCounts):
        def ingest(self) -> None:
            turns.append(self.name)
            super().ingest()

    def named(name: str) -> Any:
        def make(problem: Problem) -> Contender:
            contender = Watched(problem)
            contender.name = name
            return contender

        return make

    found = measure(SMALL, [named("a"), named("b")], runs=2)
    assert turns == ["a", "b"] * 3
    assert all(each.phases[phase].runs == 2 for each in found for phase in PHASES)


def test_a_stopwatch_tells_work_from_waiting() -> None:
    with Stopwatch() as watch:
        time.sleep(0.05)
    assert watch.cpu < 0.03 < watch.wall


# --- Benchmark, figures, summary --------------------------------------------------------------------------------------


def measurement(contender: str, parties: int, thresholds: int, seconds: float, upload: int = 170_250) -> Measurement:
    phases = {phase: Seconds(seconds / 2, seconds / 2, seconds, seconds, 3) for phase in ("keys", *PHASES)}
    return Measurement(
        contender=contender, parties=parties, thresholds=thresholds, phases=phases,
        upload_bytes=upload, download_bytes=1, auc=0.75 + 1e-9, exact_auc=0.75, sklearn_auc=0.7501,
    )  # fmt: skip


@pytest.fixture
def measured() -> Benchmark:
    """A benchmark with made-up numbers, of which the ratios are known."""
    ours, floor = f"{OURS} (openfhe)", f"{FLOOR} (openfhe)"
    measurements = [
        measurement(ours, 100, 100, 0.1),
        measurement(floor, 100, 100, 0.05),
        measurement(PUBLISHED, 100, 100, 1.7, 4 * 10**6),
        measurement(TUNED, 100, 100, 0.6, 4 * 10**6),
    ]
    measurements += [
        measurement(ours, 100, 1000, 0.12),
        measurement(ours, 1000, 100, 0.8),
        measurement("malicious (openfhe)", 100, 100, 0.11),
    ]
    measurements += [
        measurement(f"verified{SIGNED} (openfhe)", 100, 100, 0.1, 2400),
        measurement(f"verified{SIGNED} (openfhe)", 100, 1000, 0.1, 24_000),
        measurement("verified (openfhe)", 100, 100, 0.02, 2300),
        measurement("verified (openfhe)", 1000, 100, 0.1, 2300),
    ]
    measurements += [measurement(name, 15, size, 0.05) for name in (ours, floor, PUBLISHED) for size in (25, 100, 4000)]
    made = Benchmark(quick=True, measurements=measurements)
    made._measure_accuracy()
    return made


def test_ratios_are_quotients_of_medians_of_one_run(measured: Benchmark) -> None:
    found = summary.ratios(measured)
    ours = f"{OURS} (openfhe)"
    assert found == pytest.approx(
        {
            f"published design / {ours}, aggregation": 17,
            f"published design, tuned / {ours}, aggregation": 6,
            f"{ours} / ciphertext sum alone, aggregation": 2,
            f"{ours}, 100 parties: 1,000 / 100 thresholds": 1.2,
            f"{ours}, 100 thresholds: 1,000 / 100 parties": 8,
            f"upload that [FHE] reports / {ours}": 40,
        }
    )


def test_padded_sketches_are_set_beside_the_published_design_and_the_counts_in_the_clear(measured: Benchmark) -> None:
    """Each phase takes half the seconds that `measurement` is given: the aggregator has three, one for 100 parties."""
    found = {row: numbers["verified (openfhe)"] for row, numbers in padded_sketches.as_dict(measured).items()}
    assert found == pytest.approx(
        {
            "upload, 100 thresholds (kB)": 2.4,
            "upload, 1,000 thresholds (kB)": 24,
            "upload / counts in the clear": 24_000 / (2 * 8 * 1000),
            "download (kB)": 0.001,
            "party: count, pad, message (ms)": 50,
            "party: echo, recover (ms)": 100,
            "ingest of a submission (ms)": 0.5,
            "after the last submission (ms)": 100,
            "aggregator, published design / ours: 100 parties, 100 thresholds": 17,
            "aggregator, published design / ours, unsigned: 100 parties, 100 thresholds": 85,
        }
    )
    header, rows = padded_sketches.table(measured)
    assert header == ("100 parties", "verified (openfhe)")
    assert ("upload / counts in the clear", "1.5") in rows


def test_a_benchmark_measures_every_number_of_parties_and_thresholds_once() -> None:
    asked = [step.problem for step in Benchmark(quick=True).steps() if step.problem]
    assert asked[0] == Problem(*HEADLINE)
    assert len(set(asked)) == len(asked)
    assert {problem.parties for problem in asked if problem.thresholds == 100} >= set(PARTIES)
    assert {problem.thresholds for problem in asked if problem.parties == 15} == set(THRESHOLDS)
    assert (Benchmark(quick=True).runs, Benchmark().runs) == (3, 9)


def test_progress_is_told_in_percent_of_the_time_that_steps_take() -> None:
    done: list[str] = []
    steps = [Step(name, seconds, partial(done.append, name)) for name, seconds in (("a", 1), ("b", 3), ("c", 4))]
    reports: list[tuple[str, int, int]] = []
    Benchmark().run(lambda *report: reports.append(report), steps)
    assert done == ["a", "b", "c"]
    assert reports == [("a", 0, 100), ("b", 12, 100), ("c", 50, 100), ("done", 100, 100)]


def test_figures_are_drawn_in_black_and_grey_alone(measured: Benchmark, tmp_path: Path) -> None:
    saved = figures.save_all(tmp_path, measured)
    assert {path.stem for path in saved} == {"parties", "thresholds", "phases", "bytes", "accuracy"}
    for path in saved:
        pixels = imread(path)[..., :3]
        assert np.abs(pixels - pixels[..., :1]).max() < 0.02, path
        assert 0.001 < (pixels < 0.5).mean() < 0.5, path


def test_tables_hold_every_measurement(measured: Benchmark, tmp_path: Path) -> None:
    summary.save_csv(tmp_path / "a.csv", measured)
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(measured.measurements) * (1 + len(PHASES))
    assert {row["phase"] for row in rows} == {"keys", *PHASES}
    summary.save_json(tmp_path / "a.json", measured, {"cores": 2})
    everything = json.loads((tmp_path / "a.json").read_text())
    assert len(everything["measurements"]) == len(measured.measurements)
    assert everything["ratios"] == summary.ratios(measured)


def test_the_command_saves_everything_and_prints_ratios(
    measured: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_up(self: Benchmark) -> list[Step]:
        return [Step("numbers made up", 1, lambda: vars(self).update(vars(measured)))]

    monkeypatch.setattr(Benchmark, "steps", made_up)
    folder = tmp_path / "new" / "results"
    ran = CliRunner().invoke(main, ["benchmark", "--quick", "--out", str(folder), "--json"])
    assert ran.exit_code == 0, ran.output
    printed = json.loads(ran.stdout)
    assert printed["ratios"] == pytest.approx(summary.ratios(measured))
    assert {path.name for path in folder.iterdir()} >= {"benchmark.csv", "benchmark.json", "benchmark.md", "phases.png"}
    text = (folder / "benchmark.md").read_text()
    assert "| published design / semi-honest (openfhe), aggregation | 17.00 |" in text
    assert socket.gethostname() not in text + (folder / "benchmark.json").read_text()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = CliRunner().invoke(main, ["benchmark", "--out", str(tmp_path / "file" / "below")])
    assert ran.exit_code == 2
    assert "cannot be written to" in ran.output
