"""The ledger of privacy budgets in a site's key store: what is spent once, what adds up, what is refused."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from click.testing import Result

from fhe_auc import InputError
from fhe_auc.base.errors import FheAucError
from fhe_auc.base.files import write_atomically
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, Spending, new_session_id
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import audit, budget
from fhe_auc_keys.store.budget import INCIDENTS, Entry, Ledger
from fhe_auc_keys.store.key_store import TRAIL, KeyStore
from fhe_auc_keys.store.vault import own_identity
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from tests.support.exact_sessions import GRID, rows
from tests.support.keys_commands import ok
from tests.support.stored_sites import Consortium
from tests.support.wire import flipped

TENTH = Spending(0.1, "label")


def now() -> datetime:
    return datetime.now(timezone.utc)


def spend(store: KeyStore, made: Manifest, spending: Spending | None, data_set: str = "rows", rows: int = 1000) -> None:
    budget.spend(store, data_set, made, spending, rows=rows, at=now())


def refused(store: KeyStore, spending: Spending, why: str, data_set: str = "rows", rows: int = 1000) -> None:
    made = manifest()
    with pytest.raises(InputError, match=why):
        spend(store, made, spending, data_set, rows)


def again(made: Manifest) -> Manifest:
    return msgspec.structs.replace(made, session=new_session_id())


def manifest(protocol: str = "dpauc-laplace", **options: Any) -> Any:
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": 0.1, **options})
    return registry.load(protocol).prepare(request).manifest


class Site:
    """The first site of a session, and its key store."""

    def __init__(self, made: Consortium) -> None:
        self.made, self.name, self.id = made, next(iter(made.sites)), made.id.hex()
        self.manifest: Manifest = made.session.manifest
        store = Path(made.made.sites[self.name]["store"])
        self.ledger, self.trail = store / "budget" / "ledger", store / TRAIL

    def store(self) -> KeyStore:
        return self.made.store(self.name)

    def entries(self, name: str = "") -> dict[str, Entry]:
        with self.made.store(name or self.name) as store:
            return dict(Ledger.stored(store).entries)

    def spend(self, made: Manifest, spending: Spending | None, data_set: str = "rows", rows: int = 1000) -> None:
        with self.store() as store:
            spend(store, made, spending, data_set, rows)

    def another(self) -> None:
        """Let the store be charged for another session on the same rows."""
        self.spend(again(self.manifest), Spending(0.5, "row"))

    def answer(self, message: bytes | None = None) -> bytes:
        return self.made.answer(self.name, message or self.made.aggregator().start())

    def played(self) -> bytes:
        """Answer the first round; return what is in the ledger's file then."""
        self.answer()
        return self.ledger.read_bytes()

    def wrong(self) -> list[str]:
        """What a check of the store says."""
        with self.store() as store:
            return [each.wrong for each in problems(store, at=now())]

    def stops(self, wrong: str, *, alone: bool = True) -> None:
        """A check says what is wrong, alone or among others, and no session on these rows goes on."""
        assert self.wrong() == [wrong] if alone else any(wrong in line for line in self.wrong())
        with pytest.raises(KeysError, match=f"{wrong}; nothing was sent"):
            self.another()

    def command(self, *options: str) -> Result:
        return ok("budget", *options, *self.made.options(self.name))

    def acknowledge(self) -> None:
        self.command("--acknowledge", self.id, "--by", "Ada Osei")

    def reconcile(self) -> None:
        self.command("--reconcile", "--by", "Ada Osei")

    def lied_to(self, done: Callable[..., None] = lambda *_: None) -> None:
        """Play a session whose aggregator adds one to a count: a guess, of which the verdict would tell it more."""
        aggregator: Any = self.made.aggregator()
        computation, change = aggregator._side.computation, np.uint64(1)
        honest = computation.aggregate
        computation.aggregate = lambda keys, totals: honest(keys, [each + change for each in totals])
        self.play(aggregator, done)

    def play(self, aggregator: Any, done: Callable[..., None] = lambda *_: None) -> None:
        self.made.done = done  # type: ignore[method-assign]
        conduct(aggregator, lambda message: self.made.exchange(message, aggregator.asked))

    @property
    def incident(self) -> str:
        return f"the result of session {self.id} was refused (VerificationError), and nobody has acknowledged it"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Consortium:
    sites = rows(3, 9)
    caps = {data.name: data.rows for data in sites}
    private = {"keys": "helper", "row_caps": caps, "thresholds": GRID, "options": {"epsilon": 0.5}}
    return Consortium(sites, tmp_path_factory.mktemp("private") / "sites", "verified", **private)


@pytest.fixture
def site(made: Consortium, tmp_path: Path) -> Site:
    return Site(made.copied(tmp_path / "sites"))


def test_beyond_the_limit_nothing_is_sent_and_nothing_kept_until_it_is_raised(site: Site) -> None:
    site.command("--limit", "0.4")
    with pytest.raises(
        InputError, match=r"would spend epsilon = 0\.5 of data set 'rows', of which 0 is spent and 0\.4"
    ):
        site.answer()
    with site.store() as store:
        assert (dict(Ledger.stored(store).entries), site.id in store.names("state")) == ({}, False)
    site.command("--limit", "0.5")
    site.answer()
    assert len(site.entries()) == 1


def test_sessions_add_up_by_data_set_and_ten_tenths_are_one(store: KeyStore) -> None:
    budget.set_limit(store, "2025", 1.0)
    for _ in range(10):
        last = manifest()
        spend(store, last, TENTH, "2025")
    spend(store, manifest(), TENTH, "2026")
    ledger = Ledger.stored(store)
    assert (ledger.spent("2025"), ledger.spent("2026")) == ((pytest.approx(1.0), 0), (0.1, 0))
    refused(store, TENTH, r"of which 1 is spent and 1 is the limit\. .*; nothing was sent", "2025")
    spend(store, last, TENTH, "2025")  # this one is in the ledger


def test_a_damaged_ledger_stops_sessions(store: KeyStore) -> None:
    spend(store, manifest(), TENTH)
    path = store.directory / "budget" / "ledger"
    path.write_bytes(flipped(path.read_bytes(), -1))
    made = manifest()
    with pytest.raises(FheAucError, match="budget/"):
        spend(store, made, TENTH)


SLOW = ("exact", "semi-honest", "histogram-federated", "boundaries-federated")


@pytest.mark.parametrize("protocol", ["verified", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)])
def test_where_a_data_set_has_a_limit_a_session_without_a_budget_sends_nothing(tmp_path: Path, protocol: str) -> None:
    """It would spend all that there is, and more."""
    options = {"bins": 4} if protocol.startswith("boundaries") else {}
    site = Site(Consortium(rows(3, 9), tmp_path / "sites", protocol, thresholds=GRID, options=options))
    opening = site.made.aggregator().start()
    site.command("--limit", "1e6")
    with pytest.raises(InputError, match=r"data set 'rows' has a limit, and the session no privacy budget"):
        site.answer(opening)
    other = list(site.made.sites)[1]
    assert site.made.answer(other, opening)
    assert site.entries(other) == {}


def test_what_bounds_nothing_is_refused_where_there_is_a_limit(store: KeyStore) -> None:
    """A budget for scores leaves labels without a bound, and the other way round: then the sum bounds neither."""
    for spending in (TENTH, Spending(0.1, "row")):
        spend(store, manifest(), spending)
    assert Ledger.stored(store).protects("rows") == "label"
    budget.set_limit(store, "rows", 4)
    scores = Spending(0.1, "score")
    refused(store, scores, "nothing is left that the limit bounds; nothing was sent")
    for spending in (scores, TENTH):
        spend(store, manifest(), spending, "without a limit")
    assert Ledger.stored(store).protects("without a limit") == "nothing"


def test_deltas_add_up_to_less_than_1_over_the_most_rows_of_any_session_or_to_the_limit_that_is_set(
    store: KeyStore,
) -> None:
    part = Spending(0.1, "label", 4e-4)
    for _ in range(2):
        spend(store, manifest(), part)
    assert Ledger.stored(store).spent("rows")[1] == pytest.approx(8e-4)
    refused(store, part, r"delta = 0\.0004 .* of which 0\.0008 is spent, and the sum must be below 1/rows")
    budget.set_limit(store, "rows", 10, 1.2e-3)
    spend(store, manifest(), part)
    refused(store, part, r"the limit is 0\.0012")
    for delta in (1e-3, 0.999999):  # with this one a session may publish a row outright, at any epsilon
        told = rf"delta = {delta}, which must be below 1/rows = 0\.001"
        refused(store, Spending(0.1, "label", delta), told, "another")
    # Else a session on ten rows could add a delta that publishes rows of an earlier one, which had 100,000.
    large = Spending(0.1, "label", 0.05)
    spend(store, manifest(), Spending(0.1, "label", 1e-6), "many", rows=100_000)
    refused(store, large, r"the sum must be below 1/rows = 1e-05", "many", rows=10)
    spend(store, manifest(), large, "ten rows", rows=10)


# The audit trail, which is signed and chained, says what the ledger says.


@pytest.mark.parametrize("before", [False, True], ids=["removed", "put back to an older version"])
def test_a_ledger_that_has_lost_an_entry_shows_and_no_session_goes_on_until_it_is_put_back(
    site: Site, before: bool
) -> None:
    """By hand, or from the trail by somebody who says so."""
    if before:
        site.command("--limit", "4")
        older = site.ledger.read_bytes()
    whole, entry = site.played(), site.entries()[site.id]
    assert site.wrong() == []
    write_atomically(site.ledger, older, mode=0o600) if before else site.ledger.unlink()
    site.stops(f"session {site.id} has spent a budget, and the ledger has no entry of it")
    if before:
        write_atomically(site.ledger, whole, mode=0o600)
    else:
        site.reconcile()
        assert site.entries() == {site.id: msgspec.structs.replace(entry, at=site.entries()[site.id].at)}
        assert json.loads(site.trail.read_text().splitlines()[-1])["by"] == "Ada Osei"
    assert site.wrong() == []
    site.another()


def test_a_limit_that_is_taken_away_with_the_ledger_shows(site: Site) -> None:
    """The command writes a limit into the trail as well, and the chain of lines has it."""
    site.command("--limit", "0.6")
    assert site.wrong() == []
    whole = site.ledger.read_bytes()
    site.ledger.unlink()
    site.stops("the limit of data set 'rows' is not the one that was set last")
    write_atomically(site.ledger, whole, mode=0o600)
    site.played()
    with site.store() as store:
        Ledger({}, Ledger.stored(store).entries).keep(store)
    site.trail.write_bytes(site.trail.read_bytes().split(b"\n", 1)[1])
    site.stops("before line 1 of the audit trail lines were removed or changed", alone=False)


def test_an_entry_that_is_changed_or_moved_or_has_no_submission_shows(site: Site) -> None:
    site.played()
    with site.store() as store:
        ledger = Ledger.stored(store)
        ((session, entry),) = ledger.entries.items()
        ledger.with_entry(session, msgspec.structs.replace(entry, epsilon=0.1)).keep(store)
    assert site.wrong() == [f"the ledger's entry of session {session} is not what was submitted"]
    with site.store() as store:
        ledger.with_entry("00" * 16, entry).keep(store)
    assert site.wrong() == [f"the ledger has an entry of session {'00' * 16}, which has not submitted"]
    with site.store() as store:
        told = {"session": "00" * 16, "spent": entry.facts()}
        audit.append_line(store.directory, own_identity(store), "submitted", at=now(), **told)
        Ledger({}, {"00" * 16: entry, session: entry}).keep(store)
    assert site.wrong() == ["the ledger's entries are not in the order of the submissions"]


def test_a_ledger_and_a_trail_that_are_cut_off_alike_show_beside_what_the_session_s_state_says(site: Site) -> None:
    """Whoever removes both has removed what was spent, and that a result was refused."""
    before = site.played()
    site.lied_to()
    write_atomically(site.ledger, before, mode=0o600)
    site.trail.write_bytes(b"".join(site.trail.read_bytes().splitlines(keepends=True)[:-1]))
    ended = f"session {site.id} has had its result refused, and the audit trail does not say so"
    assert site.wrong() == [ended]
    site.ledger.unlink()
    site.trail.unlink()
    site.stops(ended)
    site.reconcile()
    assert site.entries()[site.id].epsilon == 0.5
    assert site.wrong() == [site.incident]
    site.acknowledge()
    assert site.wrong() == []
    site.another()


@pytest.mark.parametrize(
    ("how", "told"),
    [("its line is gone", "the audit trail does not say so"), ("a line was added", "none that a role has written")],
)
def test_a_trail_that_was_changed_stops_nothing_without_a_budget_and_can_be_reconciled(
    site: Site, how: str, told: str
) -> None:
    site.played()
    whole = site.trail.read_bytes()
    site.trail.write_bytes(b"" if how == "its line is gone" else whole + b"\n")
    site.spend(again(site.manifest), None, "other rows")
    with pytest.raises(KeysError, match=rf"differ: .*{told}.*; nothing was sent\. Find out why .*--reconcile"):
        site.another()
    site.reconcile()
    with site.store() as store:
        assert budget.differences(store, at=now()) == []
    site.another()


def test_a_session_that_a_crash_has_left_in_the_ledger_is_for_no_other_rows_afterwards(site: Site) -> None:
    half = Spending(0.5, "row")
    site.spend(site.manifest, half, rows=9)
    for number, data_set in ((9, "other rows"), (10, "rows")):
        with pytest.raises(InputError, match=r"was charged to 9 rows of data set 'rows' before, .* nothing was"):
            site.spend(site.manifest, half, data_set, number)
    site.spend(site.manifest, half, rows=9)


# A refused result of a session with a budget.


def test_a_refused_result_stops_the_data_set_until_somebody_has_acknowledged_it(site: Site) -> None:
    """Published or not is one exact bit of the aggregator's choice: with a budget it must not be had twice."""
    left = again(site.manifest)  # by a crash, in the ledger
    site.spend(left, Spending(0.1, "row"), rows=9)
    site.lied_to()
    assert [site.entries(each)[site.id].refused for each in site.made.sites] == ["VerificationError"] * 3
    assert site.incident in site.wrong()
    tried = (again(site.manifest), Spending(0.01, "row")), (again(site.manifest), None), (left, Spending(0.1, "row"))
    for made, spending in tried:
        with pytest.raises(InputError, match=f"session {site.id} on data set"):
            site.spend(made, spending, rows=9)
    site.spend(again(site.manifest), None, "other rows")
    before = site.entries()[site.id].at
    assert re.search(r"INCIDENT .*NOT\s+acknowledged", site.command().stdout, re.DOTALL)
    site.acknowledge()
    assert re.search(r"INCIDENT .*acknowledged\s+by\s+Ada\s+Osei", site.command().stdout, re.DOTALL)
    last = json.loads(site.trail.read_text().splitlines()[-1])
    assert (last["event"], last["session"], last["by"]) == ("acknowledged", site.id, "Ada Osei")
    assert site.incident not in site.wrong()
    assert site.entries()[site.id].at == before > 1.7e9
    site.spend(left, Spending(0.1, "row"), rows=9)


@pytest.mark.parametrize("when", ["before it submits", pytest.param("before the result", marks=pytest.mark.slow)])
def test_a_result_that_is_refused_after_a_difference_was_acknowledged_is_an_incident_all_the_same(
    site: Site, when: str
) -> None:
    """Whoever expects a refused result could else have it acknowledged before."""
    if when == "before it submits":  # what a crash leaves between ledger and trail
        site.spend(site.manifest, Spending(0.5, "row"), rows=site.made.sites[site.name].rows)
    else:
        site.played()
        site.ledger.unlink()
    site.reconcile()
    with site.store() as store, pytest.raises(InputError, match="is no incident to acknowledge"):
        budget.acknowledged(store, site.id, "Ada Osei")
    site.lied_to()
    assert site.entries()[site.id].is_open
    assert site.wrong() == [site.incident]
    with pytest.raises(InputError, match=f"session {site.id} on data set 'rows' ended with a result"):
        site.another()


def test_a_session_under_way_gives_no_second_verdict_beside_an_open_incident(site: Site) -> None:
    """Else two sessions at once would tell two bits before anybody has looked into the first."""
    aggregator = site.made.aggregator()
    result, other = aggregator.start(), again(site.manifest)
    while aggregator.round < aggregator.rounds:
        result = site.made.deliver(aggregator, result) or b""
    site.spend(other, Spending(0.1, "row"), rows=9)
    with site.store() as store:
        budget.refuse(store, other, "VerificationError")
    with pytest.raises(InputError, match=f"session {other.session.hex()} on data set 'rows' ended with a result that"):
        site.answer(result)
    assert not site.entries()[site.id].refused


def test_who_has_submitted_and_lost_the_state_answers_nothing_more(tmp_path: Path) -> None:
    """Each answer has fresh noise: one charge would buy as many as somebody who removes states likes."""
    made = Consortium(rows(3, 9), tmp_path / "sites", "dpauc-laplace", thresholds=GRID, options={"epsilon": 0.5})
    site, opening = Site(made), made.aggregator().start()
    site.answer(opening)
    (state,) = (site.ledger.parents[1] / "state").iterdir()
    state.unlink()
    with pytest.raises(InputError, match="the site has submitted in this session, and its state is gone"):
        site.answer(opening)


def test_nothing_can_be_acknowledged_where_nothing_is_wrong_or_by_nobody(site: Site) -> None:
    site.played()
    with site.store() as store:
        for session in (site.id, "00" * 16):
            with pytest.raises(InputError, match="is no incident to acknowledge"):
                budget.acknowledged(store, session, "Ada Osei")
        with pytest.raises(InputError, match="nothing to reconcile"):
            budget.reconciled(store, "Ada Osei", at=now())
        for say in (partial(budget.acknowledged, store, site.id), partial(budget.reconciled, store, at=now())):
            with pytest.raises(InputError, match="by: a name has"):
                say(by=" ")
    for name in ("", " rows", "a\nb", "x" * 101):
        with pytest.raises(InputError, match="data-set"):
            budget.checked_name("data-set", name)


@pytest.mark.parametrize("liar", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_noise_that_a_site_makes_up_ends_in_an_incident_that_all_sites_write_down(site: Site, liar: int) -> None:
    """Nobody can check it; a number that rows and noise cannot give is shown to nobody."""
    shares, honest = iter(range(3)), Privacy.noise
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Privacy, "noise", lambda self: honest(self) + 2**20 * (next(shares) == liar))
        site.play(site.made.aggregator())
    assert [site.entries(each)[site.id].refused for each in site.made.sites] == [INCIDENTS[1]] * 3
    assert site.made.results == {}


def test_the_budget_says_since_when_exact_results_of_the_same_rows_are_out(tmp_path: Path) -> None:
    site = Site(Consortium(rows(3, 9), tmp_path / "sites", "verified", thresholds=GRID))
    assert "EXACT" not in site.command().stdout
    began = datetime.now(timezone.utc).replace(microsecond=0)
    site.answer(opening := site.made.aggregator().start())
    site.answer(opening)  # which is the same session
    site.spend(again(site.manifest), Spending(1.0, "row"), rows=9)
    site.spend(again(site.manifest), Spending(1.0, "row"), "other rows", rows=9)
    said = re.sub(r"\s+", " ", site.command().stdout)
    since = r"EXACT RESULTS up to 1, of sessions without a budget since 2\d{3}-.*: no epsilon bounds these"
    assert re.search(rf"epsilon 1 .*{since}", said)
    assert said.count("EXACT") == 1
    told = json.loads(site.command("--json").stdout)["data_sets"]
    assert (told["rows"]["exact"]["sessions"], told["other rows"]["exact"]) == (1, None)
    assert began <= datetime.fromisoformat(told["rows"]["exact"]["since"]) <= now()
    written = site.trail.read_bytes()
    site.trail.unlink()  # the session's state still says it
    assert f"session {site.id} has submitted, and the audit trail does not say so" in site.wrong()
    site.trail.write_bytes(written)
    for name in (b'"else": "rows"', b'"exact": "else"'):
        site.trail.write_bytes(written.replace(b'"exact": "rows"', name))
        assert any("line 1 of the audit trail is not what its role has signed" in each for each in site.wrong())
        site.trail.write_bytes(written)


def test_each_noisy_protocol_says_what_a_session_spends() -> None:
    spent = {
        ("dpauc-laplace",): TENTH,
        ("dpauc-gaussian", ("delta", 1e-6)): Spending(0.1, "label", 1e-6),
        ("dpauc-rr",): TENTH,
        ("dpauc-rr", ("score_epsilon", 50.0)): Spending(50.1, "row"),
        ("histogram-distributed-dp",): Spending(0.2, "row"),
        ("histogram-local-dp",): Spending(0.1, "row"),
        ("ustat-krr",): Spending(0.1, "score"),
    }
    for (protocol, *options), wanted in spent.items():
        assert registry.load(protocol).spends(manifest(protocol, **dict(options))) == wanted, protocol
