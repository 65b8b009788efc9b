"""Whole sessions over the simulator of Flower, and by letters: the fraction of the rows.

Over TLS: `tests/documents/test_carrier_guides.py`. Other versions: `scripts/try_carriers.sh`.
"""

import sys
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import EvaluationError, FheAucError
from fhe_auc.exchange.exchange import Folder
from fhe_auc.machines import site_role
from fhe_auc.machines.local_sites import LocalCarrier, Stage
from fhe_auc.machines.postman import Hub, answer
from fhe_auc.machines.site_state import Joined
from fhe_auc.question.analysis import Questions
from fhe_auc.question.follow_up import FollowUp
from fhe_auc.question.study import Study
from fhe_auc.question.weights import Weights
from fhe_auc.results.asked import Asked
from fhe_auc.rows.at_horizon import at_horizon
from fhe_auc.rows.frames import parties_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.messages import Message
from fhe_auc.session.one_process import play
from fhe_auc.session.protocol import Request
from fhe_auc.session.steps import evaluation_steps
from tests.support.exact_sessions import pairs_of
from tests.support.machines import GRID

pytestmark = [pytest.mark.xdist_group("flower"), pytest.mark.timeout(1800)]
Place = Callable[[], LocalCarrier]


def flower_simulation() -> LocalCarrier:
    pytest.importorskip("ray", reason="the extra fhe-auc[simulation] is not installed")
    from fhe_auc.machines.flower.simulation import Simulation

    return Simulation()


@pytest.mark.slow
def test_a_session_gives_the_fraction_of_its_rows_and_leaves_nothing_behind(site_rows: list[PartyData]) -> None:
    made: list[LocalCarrier] = []

    def watched() -> LocalCarrier:
        made.append(flower_simulation())
        return made[-1]

    request = Request(parties=tuple(data.name for data in site_rows), thresholds=GRID, keys="sealed")
    found = Stage(watched, 1200.0, lambda line: None).run(registry.evaluating("exact"), request, site_rows)
    assert found.fraction == Fraction(pairs_of(site_rows, GRID)[0])
    assert not made[0].folder.exists()


class Letters(LocalCarrier):
    """Nothing but letters, in this process; `seen` has all files that a site's exchange has had, by name."""

    def carry(self, server: Path, sites: Mapping[str, Path]) -> None:
        self._hub, self._sites = Hub(Folder(server), {name: name for name in sites}, 0.01), sites
        self.seen: dict[str, dict[str, bytes]] = {name: {} for name in sites}

    def check(self) -> None:
        for name, letter in self._hub.letters(self._sites).items():
            self._hub.take(name, answer(Folder(self._sites[name]), name, letter))
            found = {path.relative_to(self._sites[name]): path for path in self._sites[name].rglob("*")}
            self.seen[name] |= {str(file): path.read_bytes() for file, path in found.items() if path.is_file()}


@pytest.mark.parametrize("keys", [pytest.param("sealed", marks=pytest.mark.slow), "helper"])
def test_what_a_node_can_read_is_signed_or_sealed_and_of_other_sites_nothing_that_is_for_the_server(
    keys: str, site_rows: list[PartyData]
) -> None:
    """Whatever runs there: it reaches the site's exchange alone (`test_deployment.py`)."""
    made: list[Letters] = []

    def place() -> LocalCarrier:
        made.append(Letters())
        return made[-1]

    request = Request(parties=tuple(data.name for data in site_rows), thresholds=GRID, keys=keys)
    found = Stage(place, 60.0, lambda line: None).run(registry.evaluating("verified"), request, site_rows)
    assert found.fraction == Fraction(pairs_of(site_rows, GRID)[0])
    secrets = [data.y_score.tobytes()[:16] for data in site_rows] + [data.y_true.tobytes() for data in site_rows]
    for name, files in made[0].seen.items():
        answers = {file for file in files if file.endswith(".submission")}
        assert answers
        assert {file.partition("/")[0] for file in answers} == {name}
        for file, data in files.items():
            assert not [secret for secret in secrets if secret in data]
            if file in answers:
                payload = bytes(Message.from_bytes(data, limit=2**28).payload)
                assert len(zlib.compress(payload)) >= len(payload)  # sealed, or nothing


WEIGHTS, FOLLOW_UP = Weights("ipw", 3000), FollowUp("days", "status", (30.0, 60.0), ("1", "0", "2"))


@pytest.mark.parametrize(
    ("questions", "more"),
    [
        pytest.param(
            Questions(score_columns=("y_score",), weights=WEIGHTS),
            {"weight": "ipw", "max_weight": 3},
            marks=pytest.mark.slow,
        ),
        (
            Questions(score_columns=("y_score",), follow_up=FOLLOW_UP),
            {"time": "days", "event": "status", "event_codes": "1,0,2", "horizon": [30, 60]},
        ),
    ],
)
def test_sites_read_weights_times_and_events_as_one_process_does(questions: Questions, more: dict[str, Any]) -> None:
    """Also for the session before, which finds thresholds and knows nothing of them."""
    random, rows = np.random.default_rng(4), dict[str, dict[str, Any]]()
    for name in ("coast", "north"):
        scores, weights, days = random.random(60), random.integers(0, 300, 60) / 100, random.integers(1, 90, 60)
        labels, events = random.integers(0, 2, 60), random.integers(0, 3, 60)
        rows[name] = {"y_true": labels, "y_score": scores, "ipw": weights, "days": days, "status": events}
    parties, analysis = parties_of(rows, questions)
    stage, asked = Stage(Letters, 60.0, lambda line: None), Asked(analysis=analysis, thresholds="quantile:8")
    base = Request(parties=tuple(rows), thresholds=GRID)
    found = play(evaluation_steps(asked, base), parties, analysis, None, elsewhere=stage.run)
    alone = federated_auc(rows, thresholds="quantile:8", **more)
    assert (found.estimates, found.warnings) == (alone.estimates, alone.warnings)


def test_a_study_with_times_says_which_columns_are_read_in_each_of_its_sessions(tmp_path: Path) -> None:
    """Also in that which finds thresholds, whose analysis knows nothing of them: there may be no labels."""
    (file := tmp_path / "rows.csv").write_text("y_score,days,status\n0.5,3,2\n0.25,4,1\n")
    words = dict.fromkeys(("model", "outcome", "cohort", "period"), "x")
    study = Study(**words, time_column="days", event_column="status=2,1", horizon=(3.5,))
    manifest = registry.load("boundaries-federated").manifest_of(
        Request(parties=("north", "south"), thresholds=np.empty(0), options={"bins": 4})
    )
    keys = (bytes(31) + b"n", bytes(31) + b"s")
    manifest = msgspec.structs.replace(manifest, study=study, fingerprints=keys, aggregator=bytes(32))
    nobody: Any = None  # reading rows takes no keys
    joined = Joined(manifest, b"", nobody, nobody)
    data = site_role._reader({"data": str(file), "label-column": "died", "positive-label": "7"})("north", joined)
    assert (data.times is not None, data.labels.tolist()) == (True, [0, 1])
    assert at_horizon(data, joined.analysis).labels.tolist() == [1, 0]


class Fails(LocalCarrier):
    """What carries has ended."""

    def carry(self, server: Path, sites: Mapping[str, Path]) -> None:
        self.start("carrier", [sys.executable, "-c", "raise SystemExit('no room')"]).wait()

    def check(self) -> None:
        self.require_alive()


def test_what_ends_the_carrier_or_a_role_ends_the_session_and_is_named(site_rows: list[PartyData]) -> None:
    request = Request(parties=tuple(data.name for data in site_rows), thresholds=GRID, keys="sealed")

    def play(place: Place, timeout: float) -> None:
        Stage(place, timeout, lambda line: None).run(registry.evaluating("exact"), request, site_rows)

    with pytest.raises(EvaluationError, match="has ended with status 1: carrier: no room"):
        play(Fails, 60.0)

    class Lame(Fails):
        def check(self) -> None:
            """All is well, but for that nothing comes."""

    with pytest.raises(FheAucError, match="north"):
        play(Lame, 1.0)
