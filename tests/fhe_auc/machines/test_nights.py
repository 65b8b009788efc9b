"""Every night, by itself: whatever happens, each session ends in a result, or in a sentence that names who has to act.

All roles are processes of `fhe-auc serve` under libfaketime; a site's timer runs its one command each night.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from fhe_auc.machines import outcomes
from fhe_auc.question import thresholds
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc_keys.store.budget import Ledger
from tests.support.certified import DAY, NOW
from tests.support.command_line import told
from tests.support.faked_time import FakedTime, needs_faketime
from tests.support.keys_commands import Clock, fingerprint_in, ok, request_fingerprint, settings, store_of, write_study
from tests.support.keys_folder import AUTHORITY, PASSPHRASE, at
from tests.support.machines import toml
from tests.support.pooled import exact_auc
from tests.support.processes import wait_for
from tests.support.served import config_of

HOLDER, ADDER, HELPER = "site-01", "adder", "registry"
LIST_ENDS = NOW + 30 * DAY
PATIENCE = 300.0  # seconds; only a broken test waits for them
GRID = thresholds.resolve("uniform:16")
MODULES = (
    "fhe_auc.machines.serve",
    "fhe_auc_keys.cli.session",
    "fhe_auc_keys.site.key_store_sites",
    "fhe_auc_protocols.exact_auc.protocol",
    "numpy",
)
PAUSES = (  # a night takes seconds
    ("fhe_auc.machines.serve", "_LOOK", (0.2, 0.4)),
    ("fhe_auc.machines.serve", "_RENEWAL", 0.5),
    ("fhe_auc.machines.serve", "_AFTER_FAILURE", 0.5),
    ("fhe_auc.machines.result_hook", "_RETRY", (0.2, 0.5)),
    ("fhe_auc_keys.store.list_places", "_OFTEN", 0.4),
    ("fhe_auc_keys.store.list_places", "_SELDOM", 0.4),
    ("fhe_auc.machines.file_transport", "_POLL", 0.1),
)
OFFER = """
revocation-lists = [{lists!r}]

[policy]
holder = "site-01"
protocols = ["verified"]
keys = ["helper"]
helpers = ["registry"]
model = "sepsis-net 2.1"
outcome = "sepsis within 48 hours"
min-parties = 2
most-away = 1
max-thresholds = 16
hours-between = 20
until = 2030-12-31

[policy.options]
interval = 0.95
"""


class Nights:
    """A consortium in the current folder, from a day on that is counted from `NOW`; and what becomes of its nights."""

    def __init__(self, sites: int, day: int, faked: FakedTime, clock: Clock, certified_until: datetime) -> None:
        self.day = day - 1
        self.sites = tuple(f"site-{number:02}" for number in range(1, sites + 1))
        self.early, self.last = self.sites[:-1], self.sites[-1]
        self.series = {"some": "", "all": ""}
        self.faked, self.clock, self.least = faked, clock, max(2, sites - 3)
        self.rows: dict[str, PartyData] = {}
        self.sessions: dict[str, dict[str, PartyData]] = {}  # of those who are to count, as they answered
        self.sent: dict[tuple[str, str], bytes] = {}
        self._set_up(certified_until)

    def _set_up(self, certified_until: datetime) -> None:
        """By the authority's invitation; the last site's certificate ends early."""
        for name in ("post", "exchange", *self.roles):
            Path(name).mkdir()
        write_study("study.toml", most_away=1)
        Path("passphrase").write_text(PASSPHRASE)
        Path("passphrase").chmod(0o600)
        Path("offer.toml").write_text(OFFER.format(lists=str(Path("post").absolute())))
        ok("ca-init", "Heart Study", *AUTHORITY, "--invitation", "offer.toml", "--out", "post")
        compared = ("--authority-fingerprint", fingerprint_in("post"), "--out", "post")
        for name in self.roles:
            policy = "--no-policy" if name == ADDER else "--policy"
            ok("join", "post/ca.invitation", name, *at(name), *compared, policy)
            days = (certified_until - self.clock.at).days if name == self.sites[-1] else 365
            self.certify(name, days)
            config = config_of(name, "helper", inbox="exchange")
            if name in self.sites:
                config = config_of(name, "site", inbox="exchange", data=f"{name}.npz")
            elif name == ADDER:
                config = config_of(name, "aggregator", inbox="exchange", holder=HOLDER)
            Path(f"{name}.toml").write_text(toml(config))

    @property
    def roles(self) -> tuple[str, ...]:
        return (*self.sites, HELPER, ADDER)

    def certify(self, name: str, days: int = 365) -> None:
        request = f"post/{name}.csr"
        asked = ("--fingerprint", request_fingerprint(request), "--days", str(days), "--force")
        ok("issue", request, *AUTHORITY, "--out", "post", *asked)
        ok("join", "post/ca.invitation", "--certificate", f"post/{name}.pem", *at(name), "--out", "post", "--force")

    # --- What happens -------------------------------------------------------------------------------------------------

    def at(self, moment: datetime) -> None:
        self.clock.at = moment
        self.faked.set(moment)

    def new_rows(self, seed: int) -> None:
        """Rows change from night to night; no site has as many as another."""
        generator = np.random.default_rng(seed)
        for number, name in enumerate(self.sites):
            y_true = np.arange(24 + number) % 3 == 0
            y_score = generator.integers(0, 16, y_true.size) / 16 * 0.8 + 0.15 * y_true
            self.rows[name] = PartyData.from_arrays(name, y_true, y_score)
            np.savez(f".{name}.npz", y_true=y_true, y_score=y_score)
            Path(f".{name}.npz").replace(f"{name}.npz")

    def made(self, *arguments: str, refused: str = "") -> str:
        """The session's id that the key holder's command makes, or "" where it is refused, in these words."""
        common = ("--passphrase-file", "passphrase", *at(HOLDER), "--json")
        status, said = self.faked.run(HOLDER, "keys", "session", *arguments, *common)
        if refused:
            assert (status, bool(re.search(refused, said))) == (1, True), said
            return ""
        assert status == 0, said
        return str(json.loads(said[said.index("{") :])["session"])

    def first(self, folder: str, *more: str) -> str:
        shown = [f"post/{name}.credential" for name in self.sites]
        asked = ("--aggregator", f"post/{ADDER}.credential", "--study", "study.toml", "--thresholds", "uniform:16")
        helped = ("--keys", "helper", "--helper", f"post/{HELPER}.credential")
        return self.made(*shown, *asked, *helped, "--protocol", "verified", "--out", folder, *more)

    def collect(self) -> None:
        """No site ever sends two answers to one question."""
        for file in Path("exchange").glob("*/round-1/*.submission"):
            data = file.read_bytes()
            assert self.sent.setdefault((file.parent.parent.name, file.stem), data) == data, file

    def until(self, condition: Callable[[], bool]) -> None:
        told = lambda: [f"{name}: {self.status(name)}" for name in self.roles]  # noqa: E731
        wait_for(condition, PATIENCE, meanwhile=self.collect, told=told)
        self.collect()

    def status(self, name: str) -> dict[str, Any]:
        file = Path(name, "state/status.json")
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def step(self, name: str, session: str) -> str:
        found = self.status(name).get("sessions", ())
        return next((each["step"] for each in found if each["folder"] == folder_of(session)), "")

    def sent_by(self, session: str, names: Iterable[str]) -> bool:
        return all(Path("exchange", folder_of(session), "round-1", f"{name}.submission").exists() for name in names)

    # --- What becomes of it -------------------------------------------------------------------------------------------

    def delivered(self, session: str, *names: str, **rows: PartyData) -> None:
        """These sites, and they alone, get the result of the rows that they have now, or had before."""
        self.sessions[session] = {name: rows.get(name, self.rows[name]) for name in names or self.sites}
        self.until(lambda: all(outcomes.file_of(Path(name, "results"), session) for name in names or self.sites))
        self.until(lambda: self.step(ADDER, session).startswith("ended: all"))

    def sentence(self, words: str, *names: str, session: str = "") -> str:
        """Wait until these roles' status says of a session, or of the role itself, what pattern `words` is."""

        def said(name: str) -> str:
            return self.step(name, session) if session else str(self.status(name).get("health", ""))

        self.until(lambda: all(re.search(words, said(name)) for name in names))
        return said(names[0])

    def check(self) -> None:
        for session, counted in self.sessions.items():
            truth = exact_auc(counted.values(), GRID)
            for name in self.sites:
                file = outcomes.file_of(Path(name, "results"), session)
                assert (file is not None) == (name in counted), (session, name)
                if file is not None:
                    found = outcomes.read(file)
                    assert isinstance(found, Evaluation)
                    assert found.auc == pytest.approx(truth, abs=1e-12)
        assert len(set(self.sent.values())) == len(self.sent)  # no pad twice
        for name in self.sites:
            trail = told("audit", *at(name))["lines"]
            noted = [line["session"] for line in trail if line["event"] == "submitted"]
            assert set(noted) >= {session for session, counted in self.sessions.items() if name in counted}
            assert len(noted) - len(set(noted)) <= 1  # where it was killed in between
            with store_of(name) as store:
                assert Ledger.stored(store) == Ledger()

    # --- One night after the other ------------------------------------------------------------------------------------

    def evening(self) -> None:
        """It is 22:00 UTC, and since last night all sites have other rows."""
        self.day += 1
        self.at(NOW + self.day * DAY + timedelta(hours=10))
        self.new_rows(self.day)

    def noon(self) -> None:
        """It is noon after the night."""
        self.at(NOW + (self.day + 1) * DAY)

    def session(self, kind: str = "some", *renewed: str, refused: str = "") -> str:
        """The key holder's one command; before the first one, the study's session of that kind is made."""
        if not self.series[kind]:
            least = ("--min-parties", str(self.least)) if kind == "some" else ()
            self.series[kind] = made = self.first("made", *least)
            Path("made").rename(Path("exchange", folder_of(made)))
            return made
        return self.made("--repeat", self.series[kind], *renewed, "--out", "exchange", refused=refused)

    def restart(self, close_at: int = 0) -> None:
        """Who runs the aggregator has it go on without those who are away, or wait for all again."""
        self.faked.end(ADDER, signal.SIGTERM)
        config = Path(f"{ADDER}.toml")
        lines = [line for line in config.read_text().splitlines() if not line.startswith("close-at")]
        config.write_text("\n".join([*lines, f"close-at = {close_at}"]))
        self.faked.start(ADDER)

    # --- Kinds of nights ----------------------------------------------------------------------------------------------

    def ordinary(self, nights: int = 1) -> None:
        for _ in range(nights):
            self.evening()
            self.delivered(self.session("some" if self.day % 4 else "all"))

    def killed(self) -> None:
        """All roles are killed in mid-session."""
        self.evening()
        self.faked.end(self.last)
        session = self.session()
        self.until(lambda: self.sent_by(session, self.early))
        for name in list(self.faked.roles):
            self.faked.end(name)
        self.faked.start(*self.roles)
        self.delivered(session)

    def cleaned(self) -> None:
        """Somebody has removed everything from the exchange, also of the session that runs."""
        self.evening()
        self.faked.end(self.last)
        session = self.session()
        self.until(lambda: self.sent_by(session, self.early))
        bundle = Path("exchange", folder_of(session), "session.helper")
        backup = bundle.read_bytes()
        for folder in Path("exchange").iterdir():
            shutil.rmtree(folder)
        self.until(lambda: self.sent_by(session, self.early))  # the same again: see `collect`
        self.faked.start(self.last)
        self.sentence(f"has not been opened here: .* {HOLDER!r} makes another", self.last, session=session)
        self.restart(close_at=len(self.early))
        self.sentence("aggregator.bundle, .* is not here any more: put that back", ADDER, session=session)
        bundle.write_bytes(backup)
        self.delivered(session, *self.early)
        self.restart()

    def away(self, nights: int) -> None:
        """The last site is away for so many nights, and comes back at noon."""
        missed = []
        self.faked.end(self.last)
        for _ in range(nights):
            self.evening()
            missed.append(session := self.session())
            self.sentence(f"awaits {self.last}", ADDER, session=session)
            self.restart(close_at=len(self.early))
            self.delivered(session, *self.early)
            self.restart()
        self.noon()
        self.faked.start(self.last)
        for session in missed:
            self.sentence(_MISSED.format(name=self.last), self.last, session=session)

    def clock_ahead(self) -> None:
        """The second site's clock is eight days ahead until the next morning."""
        name = self.sites[1]
        self.evening()
        self.faked.set(self.clock.at + 8 * DAY, name)
        session = self.session()
        self.sentence(_WRONG_CLOCK, name, session=session)
        self.sentence(f"awaits {name}", ADDER, session=session)
        self.restart(close_at=len(self.early))
        self.delivered(session, *(each for each in self.sites if each != name))
        self.faked.set_right(name)
        self.restart()
        self.sentence(_MISSED.format(name=name), name, session=session)
        self.sentence("^ok$", *self.sites)

    def list_expired(self, *, late: int) -> None:
        """The revocation list ends in mid-session, its authority is a day late, and so are some nights after that."""
        self.evening()
        assert self.clock.at < LIST_ENDS < self.clock.at + DAY
        self.faked.end(self.last)
        session, before = self.session(), dict(self.rows)
        self.until(lambda: self.sent_by(session, self.early))
        self.at(LIST_ENDS + timedelta(hours=1))
        self.faked.start(self.last)
        self.sentence(_LIST_ENDED, *self.roles)
        self.sentence(_LIST_ENDED, self.last, session=session)
        self.evening()
        assert not self.session(refused=_LIST_ENDED)
        self.noon()
        ok("revoke", "--refresh", *AUTHORITY, "--out", "post")
        self.delivered(session, **{name: before[name] for name in self.early})
        self.sentence("^ok$", *self.roles)
        for _ in range(late):
            self.evening()
            session = self.session()
            told = self.sentence(_TURN, self.last, session=session)
            self.sentence(f"awaits {self.last}", ADDER, session=session)
            turn = datetime.strptime(re.findall(_TURN, told)[0], "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
            self.at(turn + timedelta(minutes=1))
            self.delivered(session)

    def certificate_ends(self) -> None:
        """The last site's certificate would end before the session does: it is renewed, for each series of sessions."""
        self.evening()
        assert not self.session(refused=f"{self.last!r} has to renew it; then name its new credential beside --repeat")
        self.certify(self.last)
        self.delivered(self.session("some", f"post/{self.last}.credential"))
        self.evening()
        self.delivered(self.session("all", f"post/{self.last}.credential"))


def folder_of(session: str) -> str:
    return f"session-{session[:8]}"


_MISSED = r"round \d has begun, and '{name}' was not there .* to count '{name}', its key holder makes another session"
_LIST_ENDED = r"revocation list of 'CN=Heart Study' is outdated .* the authority has to write a new one"
_WRONG_CLOCK = r"this machine's (date|clock)|the clock says"
_TURN = r"outside this site's policy, .* it is this one's turn from (.*) UTC on"


def played(sites: int, day: int, certificate_ends: int) -> Iterator[Nights]:
    """Nights from a day on, counted from `NOW`, and a day on which the last site's certificate ends too soon."""
    clock = Clock()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, pytest.MonkeyPatch.context() as patch:
        settings(patch, clock)
        patch.chdir(folder)
        with FakedTime(MODULES, PAUSES) as faked:
            nights = Nights(sites, day, faked, clock, NOW + (certificate_ends + 7) * DAY)
            nights.at(NOW + (day - 1) * DAY)
            nights.new_rows(0)
            faked.start(*nights.roles)
            yield nights
            for name in nights.roles:
                assert faked.end(name, signal.SIGTERM) == 0
            nights.check()


@needs_faketime
@pytest.mark.slow
def test_three_sites_every_night() -> None:
    for nights in played(3, 25, 33):
        nights.killed()
        nights.away(1)
        nights.clock_ahead()
        nights.cleaned()
        nights.list_expired(late=1)
        nights.day = 32
        nights.certificate_ends()


@needs_faketime
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_sites_for_thirty_nights() -> None:
    for nights in played(20, 12, 35):
        nights.killed()
        nights.ordinary(2)
        nights.away(3)
        nights.ordinary(2)
        nights.clock_ahead()
        nights.ordinary(3)
        nights.cleaned()
        nights.ordinary(4)
        nights.list_expired(late=3)
        nights.ordinary()
        nights.certificate_ends()
        nights.ordinary(5)
        assert nights.day == 12 + 29
