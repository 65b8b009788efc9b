"""``fhe-auc benchmark``: every contender gets the right AUC, costs fall to who has them, and files hold the numbers."""

import gc
import json
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import EvaluationError
from fhe_auc.cli import main
from fhe_auc_benchmarks.runtime import summary
from fhe_auc_benchmarks.runtime.benchmark import FILES, PARTIES, PEERS, Benchmark, Measurement, measure
from fhe_auc_benchmarks.runtime.contender import BenchmarkProblem, Contender, OurProtocol, Played
from fhe_auc_benchmarks.runtime.row_peers import PEERS as ROW_PEERS
from fhe_auc_benchmarks.runtime.whole_commands import PROGRAMS, FileProblem, WholeCommand
from tests.support.lazy import Lazy

SMALL = BenchmarkProblem(3, 8, 300)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("name", ROW_PEERS)
def test_a_peer_counts_ties_half_over_all_files(name: str, kind: str, tmp_path: Path) -> None:
    write = {"csv": Lazy("pyarrow.csv").write_csv, "parquet": Lazy("pyarrow.parquet").write_table}[kind]
    rng = np.random.default_rng(5)
    for values in (1, 2, 7, 10**6):  # all rows tie, to next to none
        labels, scores = np.arange(90) % 3 == 0, rng.integers(0, values, 90) / 8
        for part in range(3):
            table = pa.table({"y_true": labels[part::3].astype(np.int8), "y_score": scores[part::3]})
            write(table, str(tmp_path / f"{part}.{kind}"))
        pairs = np.sign(np.subtract.outer(scores[labels], scores[~labels]))
        found = ROW_PEERS[name]([str(tmp_path / f"{part}.{kind}") for part in range(3)])
        assert found == pytest.approx(pairs.mean() / 2 + 0.5, abs=1e-12)


@pytest.mark.parametrize("keys", ["sealed", "helper"])
def test_a_session_is_exact_and_who_works_has_the_cost(keys: str) -> None:
    played = OurProtocol(SMALL, "verified", keys=keys, interval=0.95).play()
    assert played.auc == SMALL.auc
    costs = played.costs
    assert min(costs[what] for what in ("keys", "party", "aggregator", "upload_bytes", "download_bytes")) > 0
    assert (costs["helper"] > 0) == (keys == "helper")


class Said(Contender):
    """A contender that says an AUC, and may be off by so much."""

    name, problem = "said", SMALL

    def __init__(self, auc: float, tolerance: float) -> None:
        self.auc, self.tolerance = auc, tolerance

    def play(self) -> Played:
        return Played(self.auc, {"cpu": 1.0})


def test_an_auc_that_is_further_off_than_its_contender_says_is_never_reported() -> None:
    measure(SMALL, [partial(Said, SMALL.auc + 0.01, 0.011)], runs=1)
    for auc in (SMALL.auc + 0.01, SMALL.auc - 0.01, float("nan")):
        with pytest.raises(EvaluationError, match=r"said: AUC .* is right; nothing is reported"):
            measure(SMALL, [partial(Said, SMALL.auc, 0.009), partial(Said, auc, 0.009)], runs=1)


@pytest.mark.backends("one")
def test_whole_commands_get_the_rows_auc_to_the_precision_that_they_state_and_are_measured_apart() -> None:
    problem = FileProblem(3, 5000, 1501, "csv")
    programs = ("fhe-auc evaluate", "DuckDB")
    ours, peer = measure(problem, [partial(WholeCommand, problem, name) for name in programs], runs=1)
    assert ours.auc == pytest.approx(problem.auc, abs=0.002)
    assert peer.auc == pytest.approx(problem.auc, abs=1e-12)
    for each, name in zip((ours, peer), programs, strict=True):
        assert (each.contender, each.rows, each.kind) == (name, 1501, "csv")
        assert 10e6 < each.costs["peak_bytes"] < 2e9
        assert min(each.costs["cpu"], each.costs["wall"]) > 0.01
    folder = Path(problem.files[0]).parent
    rows = [len(Path(file).read_text().splitlines()) - 1 for file in problem.files]
    assert (len(list(folder.iterdir())), rows) == (3, [501, 500, 500])
    del problem
    gc.collect()
    assert not folder.exists()


def test_what_a_process_needed_of_memory_is_its_own_not_that_of_who_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "nothing", ("-c", "print('{\"auc\": 1}')"))
    held = np.ones(20_000_000)
    assert WholeCommand(FileProblem(1, 2, 10, "csv"), "nothing").play().costs["peak_bytes"] < held.nbytes / 2


def test_a_program_that_fails_is_named_with_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "broken", ("-c", "raise SystemExit('no disk')"))
    with pytest.raises(EvaluationError, match="broken failed: no disk"):
        WholeCommand(FileProblem(1, 2, 10, "csv"), "broken").play()


def measurement(
    contender: str, problem: BenchmarkProblem, seconds: float, upload: int = 168_000, kind: str = ""
) -> Measurement:
    roles = {"keys": seconds, "party": seconds / 10, "aggregator": seconds, "helper": 0.0}
    sizes = {"before_bytes": 233_000, "upload_bytes": upload, "download_bytes": 1}
    command = {"cpu": seconds, "wall": seconds / 2, "peak_bytes": 1e8}
    return Measurement(
        contender=contender, parties=problem.parties, thresholds=problem.thresholds, rows=problem.rows, kind=kind,
        runs=3, costs=command if kind else roles | sizes, auc=0.75, exact_auc=0.75,
    )  # fmt: skip


PEER = "exact, sealed keys"
MADE_UP = [
    *(measurement("verified, sealed keys", BenchmarkProblem(size, 5000, size), 0.01 * size) for size in (3, 10, 100)),
    *(measurement("verified, helper keys", BenchmarkProblem(size, 5000, size), 0.02 * size) for size in (3, 10, 100)),
    *(measurement(name, FILES[0], seconds, kind="csv") for name, seconds in zip(PROGRAMS, (0.5, 1, 2), strict=True)),
    measurement("verified, sealed keys", PEERS, 0.1),
    measurement(PEER, PEERS, 1.7, 4 * 10**6),
]


def test_a_benchmark_measures_every_size_once_and_a_quick_one_no_large_one() -> None:
    asked = [step.problem for step in Benchmark().steps()]
    assert len(set(asked)) == len(asked)
    assert {problem.parties for problem in asked if problem.thresholds == 5000} == {3, *PARTIES}
    assert [problem for problem in asked if isinstance(problem, FileProblem)] == list(FILES)
    quick = [step.problem for step in Benchmark(quick=True).steps()]
    assert (max(problem.parties for problem in quick), max(problem.rows for problem in quick)) == (100, 10**6)


def test_tables_tell_commands_sites_and_peers_apart_and_several_runs_the_least_and_the_most() -> None:
    commands, (header, rows), peers = summary.tables(MADE_UP).values()
    assert commands[1][0] == ("15,000", "csv", "fhe-auc evaluate", "0.50", "0.25", "100", "30,000")
    assert rows[0] == ("3", "verified, sealed keys", "3.0", "30", "–", "0.030", "168", "0.00100", "233")
    assert (len(header), len(rows)) == (len(rows[0]), 6)
    assert [row[0] for row in peers[1]] == ["verified, sealed keys", PEER]
    several = [measurement("a", BenchmarkProblem(3, 5000, 300), seconds) for seconds in (0.5, 2, 0.1)]
    _, (_, rows), _ = summary.tables(several).values()
    assert rows == [("3", "a", "10 – 200", "100 – 2,000", "–", "0.10 – 2.0", "168", "0.00100", "233")]
    for number, digits, text in [(1234.5, 2, "1,200"), (0.0996, 2, "0.100"), (169.4, 3, "169"), (0, 2, "–")]:
        assert summary.rounded(number, digits) == text


def test_the_command_saves_everything_and_keeps_what_earlier_runs_have_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: Benchmark, report: object, keep: Callable[[], None]) -> None:
        self.measurements += MADE_UP
        keep()

    monkeypatch.setattr(Benchmark, "run", run)  # it measures nothing
    folder = tmp_path / "new" / "results"
    for runs in (1, 2):
        ran = CliRunner().invoke(main, ["benchmark", "--quick", "--out", str(folder), "--json"])
        assert ran.exit_code == 0, ran.output
        saved = json.loads((folder / "benchmark.json").read_text())
        assert json.loads(ran.stdout) == saved
        assert msgspec.convert(saved["measurements"], list[Measurement]) == MADE_UP * runs
        assert len(saved["machines"]) == runs
    text = (folder / "benchmark.md").read_text()
    assert "| exact, sealed keys | 170 | 1,700 |" in text
    for name in ("rows.png", "sites.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert socket.gethostname() not in text + (folder / "benchmark.json").read_text()


def test_a_folder_that_cannot_be_written_or_has_another_benchmark_json_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ran = CliRunner().invoke(main, ["benchmark", "--out", str(tmp_path / "file" / "below")])
    assert (ran.exit_code, "cannot be written to" in ran.output) == (2, True)
    for text in ("", "[]", '{"machines": []}', '{"machines": [], "measurements": [{}]}'):
        (tmp_path / "benchmark.json").write_text(text)
        ran = CliRunner().invoke(main, ["benchmark", "--out", str(tmp_path)])
        assert (ran.exit_code, "is of no benchmark" in ran.output) == (2, True)
        assert (tmp_path / "benchmark.json").read_text() == text
