"""``fhe-auc benchmark``: every contender gets the right AUC, costs fall to who has them, and files hold the numbers."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from fhe_auc.base.errors import EvaluationError
from fhe_auc.cli import main
from fhe_auc_benchmarks.runtime import summary
from fhe_auc_benchmarks.runtime.benchmark import (
    PARTIES,
    PEERS,
    THRESHOLD_PARTIES,
    THRESHOLDS,
    Benchmark,
    Measurement,
    measure,
)
from fhe_auc_benchmarks.runtime.contender import ROLES, BenchmarkProblem, OurProtocol, Plaintext, Played

SMALL = BenchmarkProblem(3, 8)


def test_a_peer_gets_the_auc_again_and_again() -> None:
    contender = Plaintext(SMALL)
    for _ in range(2):
        played = contender.play()
        assert played.auc == pytest.approx(SMALL.auc, abs=contender.tolerance)
        assert set(played.cpu) >= set(ROLES)
        assert min(played.upload_bytes, played.download_bytes) > 0


@pytest.mark.parametrize("keys", ["sealed", "helper"])
def test_a_session_is_exact_and_who_works_has_the_cost(keys: str) -> None:
    played = OurProtocol(SMALL, "verified", keys=keys, interval=0.95).play()
    assert played.auc == SMALL.auc
    assert min(played.cpu[role] for role in ("keys", "party", "aggregator")) > 0
    assert (played.cpu["helper"] > 0) == (keys == "helper")


class Wrong(Plaintext):
    """A contender whose AUC is off."""

    def play(self) -> Played:
        found = super().play()
        return found._replace(auc=found.auc + 0.01)


def test_a_wrong_auc_is_never_reported() -> None:
    with pytest.raises(EvaluationError, match="nothing is reported"):
        measure(SMALL, [Wrong], runs=1)


def measurement(contender: str, parties: int, thresholds: int, seconds: float, upload: int = 168_000) -> Measurement:
    spent = {"keys": seconds, "party": seconds / 10, "aggregator": seconds, "helper": 0.0}
    return Measurement(
        contender=contender, parties=parties, thresholds=thresholds, runs=3, cpu=spent, before_bytes=233_000,
        upload_bytes=upload, download_bytes=1, auc=0.75, exact_auc=0.75,
    )  # fmt: skip


PEER = "plaintext counts (numpy)"
MADE_UP = [
    *(measurement("verified, sealed keys", size, 4000, 0.01 * size) for size in (3, 10, 100)),
    *(measurement("verified, helper keys", size, 4000, 0.02 * size) for size in (3, 10, 100)),
    measurement("verified, sealed keys", THRESHOLD_PARTIES, 10_000, 0.5),
    measurement("verified, sealed keys", *vars(PEERS[0]).values(), 0.1),
    measurement(PEER, *vars(PEERS[0]).values(), 1.7, 4 * 10**6),
]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A benchmark that measures nothing."""

    def run(self: Benchmark, report: object, keep: Callable[[], None]) -> None:
        self.measurements += MADE_UP
        keep()

    monkeypatch.setattr(Benchmark, "run", run)


def test_a_benchmark_measures_every_number_of_sites_and_thresholds_once_and_the_most_with_helpers_alone() -> None:
    asked = [step.problem for step in Benchmark().steps()]
    assert len(set(asked)) == len(asked)
    assert {problem.parties for problem in asked if problem.thresholds == 4000} == set(PARTIES)
    assert {problem.thresholds for problem in asked if problem.parties == THRESHOLD_PARTIES} >= set(THRESHOLDS)
    assert max(step.problem.parties for step in Benchmark(quick=True).steps()) == 100


def test_tables_tell_sites_thresholds_and_peers_apart_and_several_runs_the_least_and_the_most() -> None:
    (header, rows), thresholds, peers = summary.tables(MADE_UP).values()
    assert rows[0] == ("sealed", "3", "3.0", "0.030", "–", "0.030", "168", "0.00100", "233")
    assert (len(header), len(rows)) == (len(rows[0]), 6)
    assert [row[:2] for row in thresholds[1]] == [("sealed", "10,000")]
    assert [row[1] for row in peers[1]] == ["verified, sealed keys", PEER]
    several = [measurement("verified, sealed keys", 3, 4000, seconds) for seconds in (0.5, 2, 0.1)]
    (_, rows), *_ = summary.tables(several).values()
    assert rows == [("sealed", "3", "10 – 200", "0.10 – 2.0", "–", "0.10 – 2.0", "168", "0.00100", "233")]
    for number, digits, text in [(1234.5, 2, "1,200"), (0.0996, 2, "0.100"), (169.4, 3, "169"), (0, 2, "–")]:
        assert summary.rounded(number, digits) == text


@pytest.mark.usefixtures("made_up")
def test_the_command_saves_everything_and_keeps_what_earlier_runs_have_found(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    for runs in (1, 2):
        ran = CliRunner().invoke(main, ["benchmark", "--quick", "--out", str(folder), "--json"])
        assert ran.exit_code == 0, ran.output
        saved = json.loads((folder / "benchmark.json").read_text())
        assert json.loads(ran.stdout) == saved
        assert msgspec.convert(saved["measurements"], list[Measurement]) == MADE_UP * runs
        assert len(saved["machines"]) == runs
    text = (folder / "benchmark.md").read_text()
    assert "| 100 | plaintext counts (numpy) | 170 | 1,700 |" in text
    assert (folder / "sites.png").read_bytes().startswith(b"\x89PNG")
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
