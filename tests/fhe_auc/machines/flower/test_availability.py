"""50 sites, each of which is away 5 % of the time: how long a session takes without a person, on a simulated clock.

The mail is the real one, and so are the rounds; keys and ciphertexts are left out, as they take no time here.
"""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from flwr.app import Error, Message

from fhe_auc.base.errors import TooFewPartiesError
from fhe_auc.machines import aggregator_role
from fhe_auc.machines.flower import server_app
from fhe_auc.machines.flower.client_app import packed, unpacked
from fhe_auc.session.aggregator import Aggregator, AggregatorSide, SessionRecord, conduct
from fhe_auc.session.journal import Journal
from fhe_auc.session.messages import Message as Envelope
from fhe_auc.session.messages import Rounds
from fhe_auc.session.nothing import Nothing
from fhe_auc.session.protocol import Request
from tests.support.fake_grid import Answer, FakeGrid, Node

pytestmark = pytest.mark.usefixtures("in_a_run")

SITES, DOWN, REPAIR, LIMIT = 50, 0.05, 30 * 60.0, 90 * 60.0


UNSIGNED: Any = SimpleNamespace(
    sign=lambda *_: b"signed", check=lambda *_: None, seal=lambda *given: given[-1], unseal=lambda *given: given[-1]
)
"""Signatures and seals that cost nothing."""


class ThreeRounds(AggregatorSide):
    """The rounds of `verified`: submissions, echoes, acknowledgements."""

    rounds = Rounds(3)

    def limit(self, number: int) -> int:
        return 100

    def accept(self, number: int, party: str, payload: bytes) -> None:
        return None

    def close(self, number: int, counted: tuple[str, ...], keep: Callable[[bytes], bytes]) -> bytes:
        return b""


class Site:
    """A node that comes and goes."""

    def __init__(self, name: str, generator: np.random.Generator, *, exponential: bool = False) -> None:
        self.name, self._generator, self._exponential = name, generator, exponential
        self.up = bool(generator.random() > DOWN)
        self.changes = (
            self._up_time() if self.up else self._repair() * (1 if exponential else float(generator.random()))
        )

    def _up_time(self) -> float:
        return float(self._generator.exponential(REPAIR * (1 - DOWN) / DOWN))

    def _repair(self) -> float:
        return float(self._generator.exponential(REPAIR)) if self._exponential else REPAIR

    def at(self, now: float) -> bool:
        while self.changes <= now:
            self.up = not self.up
            self.changes += self._up_time() if self.up else self._repair()
        return self.up


def answering(name: str) -> Answer:
    """What a site of this name says to everything."""

    def answer(message: Message) -> Message:
        asked = Envelope.from_bytes(unpacked(message), limit=2**20)
        reply = Envelope(asked.protocol, asked.session, asked.round, name, asked.manifest, b"", (), b"-")
        return Message(packed(reply.to_bytes()), reply_to=message)

    return answer


class Grid(FakeGrid):
    """Of sites that come and go, with a clock that `sleep` moves on to when something happens next."""

    def __init__(self, sites: list[Site]) -> None:
        super().__init__({node: Node(answering(site.name)) for node, site in enumerate(sites, 1)})
        self.now, self.sites = 0.0, dict(enumerate(sites, 1))

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now = max(self.now + seconds, min(site.changes for site in self.sites.values()))

    def get_node_ids(self) -> list[int]:
        return [node for node, site in self.sites.items() if site.at(self.now)]


def played(grid: Grid, folder: Path, monkeypatch: pytest.MonkeyPatch) -> SessionRecord:
    """Play a session over a grid, of which a round may take a day; nobody reads the machine's clock."""
    for module in (server_app, aggregator_role):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=grid.monotonic, sleep=grid.sleep))
    names = tuple(site.name for site in grid.sites.values())
    nodes = ", ".join(f"{site.name}:{node}" for node, site in grid.sites.items())
    manifest = (
        Nothing().prepare(Request(parties=names, thresholds=np.linspace(0, 1, 5), min_parties=len(names))).manifest
    )
    aggregator = Aggregator(manifest, ThreeRounds())
    aggregator.protection = UNSIGNED
    with Journal(folder) as journal:
        post = server_app.Mail(grid, {"nodes": nodes}, aggregator, journal, 86_400.0)  # type: ignore[arg-type]
        return conduct(aggregator, post.exchange)


def minutes(sessions: int, folder: Path, monkeypatch: pytest.MonkeyPatch, *, exponential: bool = False) -> list[float]:
    """How long so many sessions took, each over sites of its own."""
    names, generator, taken = [f"site {number}" for number in range(SITES)], np.random.default_rng(23), []
    for number in range(sessions):
        grid = Grid([Site(name, generator, exponential=exponential) for name in names])
        assert played(grid, folder / str(number), monkeypatch).delivered == tuple(names)
        taken.append(grid.now / 60)
    return taken


def test_with_repairs_of_30_minutes_sessions_end_within_90(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rounds, each of which waits for one repair at most: all within 90 minutes, and the polls between."""
    taken = minutes(20, tmp_path, monkeypatch)
    assert max(taken) < LIMIT / 60 + 0.5
    assert np.quantile(taken, 0.99) <= LIMIT / 60
    assert np.median(taken) > 20  # a session seldom finds all sites there


@pytest.mark.slow
def test_with_exponential_repairs_half_of_all_sessions_end_within_two_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest wait of each of three rounds, drawn without mail 5000 times: median 95 minutes, 99 % within 303."""
    taken = minutes(200, tmp_path, monkeypatch, exponential=True)
    assert np.median(taken) < 120
    assert np.quantile(taken, 0.99) < 360


def test_a_site_that_fails_for_a_day_is_asked_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sites = [Site(name, np.random.default_rng(1)) for name in ("north", "south")]
    for site in sites:
        site.up, site.changes = True, float("inf")
    grid = Grid(sites)
    grid.nodes[2] = Node(lambda message: Message(Error(101, "OSError"), reply_to=message))
    monkeypatch.setattr(grid, "sleep", lambda seconds: setattr(grid, "now", grid.now + max(seconds, 30.0)))
    with pytest.raises(TooFewPartiesError, match="missing: 'south'"):
        played(grid, tmp_path / "journal", monkeypatch)
    assert grid.now >= 86_400
    assert len(grid.pushed) > 1000
    (told,) = (each for each in caplog.records if each.levelname != "INFO")
    assert told.getMessage() == "node 2: it could not answer (Flower code 101): OSError"
    assert (told.party, told.levelname) == ("south", "WARNING")  # type: ignore[attr-defined]
