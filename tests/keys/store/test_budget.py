"""The ledger of privacy budgets in a site's key store: what is spent once, what adds up, what is refused."""

import json
import re
import secrets
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import InputError
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, Spending
from fhe_auc_keys.site import restored
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import budget
from fhe_auc_keys.store.budget import INCIDENTS, LEDGER, Entry
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy
from tests.support.exact_sessions import GRID, rows
from tests.support.keys_commands import ok
from tests.support.stored_sites import Consortium

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
    return msgspec.structs.replace(made, session=secrets.token_bytes(16))


def manifest(protocol: str = "dpauc-laplace", **options: Any) -> Any:
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": 0.1, **options})
    return registry.load(protocol).prepare(request).manifest


class Site:
    """The first site of a session, and its key store."""

    def __init__(self, made: Consortium) -> None:
        self.made, self.name, self.id = made, next(iter(made.sites)), made.id.hex()
        self.manifest: Manifest = made.session.manifest

    def store(self) -> KeyStore:
        return self.made.store(self.name)

    def entries(self, name: str = "") -> dict[str, Entry]:
        with self.made.store(name or self.name) as store:
            return dict(LEDGER.stored(store).entries)

    def spend(self, made: Manifest, spending: Spending | None, data_set: str = "rows", rows: int = 1000) -> None:
        with self.store() as store:
            spend(store, made, spending, data_set, rows)

    def another(self) -> None:
        """Let the store be charged for another session on the same rows."""
        self.spend(again(self.manifest), Spending(0.5, "row"))

    def answer(self, message: bytes | None = None) -> bytes:
        return self.made.answer(self.name, message or self.made.aggregator().start())

    def lines(self) -> list[dict[str, Any]]:
        """The audit trail."""
        with self.store() as store:
            return [json.loads(line) for line in store.trail()]

    def wrong(self) -> list[str]:
        """What a check of the store says."""
        with self.store() as store:
            return [each.wrong for each in problems(store, at=now())]

    def command(self, *options: str) -> str:
        return ok("budget", *options, *self.made.options(self.name))

    def play(self, aggregator: Any) -> None:
        self.made.done = lambda *_: None  # type: ignore[method-assign]
        conduct(aggregator, lambda message: self.made.exchange(message, aggregator.asked))


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
        assert (dict(LEDGER.stored(store).entries), site.id in store.names("state")) == ({}, False)
    site.command("--limit", "0.5")
    site.answer()
    assert len(site.entries()) == 1


def test_sessions_add_up_by_data_set_and_ten_tenths_are_one(store: KeyStore) -> None:
    budget.set_limit(store, "2025", 1.0)
    for _ in range(10):
        last = manifest()
        spend(store, last, TENTH, "2025")
    spend(store, manifest(), TENTH, "2026")
    ledger = LEDGER.stored(store)
    assert (ledger.spent("2025"), ledger.spent("2026")) == ((pytest.approx(1.0), 0), (0.1, 0))
    refused(store, TENTH, r"of which 1 is spent and 1 is the limit\. .*; nothing was sent", "2025")


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
    assert LEDGER.stored(store).protects("rows") == "label"
    budget.set_limit(store, "rows", 4)
    scores = Spending(0.1, "score")
    refused(store, scores, "nothing is left that the limit bounds; nothing was sent")
    for spending in (scores, TENTH):
        spend(store, manifest(), spending, "without a limit")
    assert LEDGER.stored(store).protects("without a limit") == "nothing"


def test_deltas_add_up_to_less_than_1_over_the_most_rows_of_any_session_or_to_the_limit_that_is_set(
    store: KeyStore,
) -> None:
    part = Spending(0.1, "label", 4e-4)
    for _ in range(2):
        spend(store, manifest(), part)
    assert LEDGER.stored(store).spent("rows")[1] == pytest.approx(8e-4)
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


def test_a_restored_ledger_stops_what_has_to_do_with_a_budget_until_somebody_has_looked_into_that(site: Site) -> None:
    with site.store() as store:
        restored.close_all(store, "it was changed 9 times, and this one only 4 times", at=now())
    site.another()  # no session had a budget before
    with site.store() as store:
        restored.close_all(store, "it was changed 9 times, and this one only 4 times", at=now())
    with pytest.raises(InputError, match=r"was restored from a backup, .* --reconcile --by NAME`; nothing was sent"):
        site.another()
    site.spend(again(site.manifest), None, "other rows")
    (wrong,) = site.wrong()
    assert "it was changed 9 times, and this one only 4 times" in wrong
    assert re.search(r"RESTORED .*--reconcile", site.command(), re.DOTALL)
    site.command("--reconcile", "--by", "Ada Osei")
    assert [line["event"] for line in site.lines()] == ["restored", "restored", "reconciled"]
    assert site.lines()[-1]["by"] == "Ada Osei"
    site.another()
    assert len(site.wrong()) == 1
    with site.store() as store:
        restored.settle(store)  # a session has ended
    assert site.wrong() == []


def test_a_refused_result_stops_the_data_set_until_somebody_has_acknowledged_it(site: Site) -> None:
    """Published or not is one exact bit of the aggregator's choice: with a budget it must not be had twice."""
    aggregator: Any = site.made.aggregator()  # which adds one to a count, a guess
    computation = aggregator._side.computation
    honest = computation.aggregate
    computation.aggregate = lambda keys, totals: honest(keys, [each + np.uint64(1) for each in totals])
    site.play(aggregator)
    incident = f"the result of session {site.id} was refused (VerificationError), and nobody has acknowledged it"
    assert [site.entries(each)[site.id].refused for each in site.made.sites] == ["VerificationError"] * 3
    assert incident in site.wrong()
    for spending in (Spending(0.01, "row"), None):
        with pytest.raises(InputError, match=f"session {site.id} on data set"):
            site.spend(again(site.manifest), spending, rows=9)
    site.spend(again(site.manifest), None, "other rows")
    before = site.entries()[site.id].at
    assert re.search(r"INCIDENT .*NOT\s+acknowledged", site.command(), re.DOTALL)
    site.command("--acknowledge", site.id, "--by", "Ada Osei")
    assert re.search(r"INCIDENT .*acknowledged\s+by\s+Ada\s+Osei", site.command(), re.DOTALL)
    last = site.lines()[-1]
    assert (last["event"], last["session"], last["by"]) == ("acknowledged", site.id, "Ada Osei")
    assert incident not in site.wrong()
    assert site.entries()[site.id].at == before > 1.7e9
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
    with site.store() as store:
        store.remove("state", site.id)
    with pytest.raises(InputError, match="the site has submitted in this session, and its state is gone"):
        site.answer(opening)


def test_nothing_can_be_acknowledged_where_nothing_is_wrong_or_by_nobody(site: Site) -> None:
    site.answer()
    with site.store() as store:
        for session in (site.id, "00" * 16):
            with pytest.raises(InputError, match="is no incident to acknowledge"):
                budget.acknowledge(store, session, "Ada Osei")
        with pytest.raises(InputError, match="nothing to reconcile"):
            budget.reconcile(store, "Ada Osei")
        for say in (partial(budget.acknowledge, store, site.id), partial(budget.reconcile, store)):
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
    assert "EXACT" not in site.command()
    began = datetime.now(timezone.utc).replace(microsecond=0)
    site.answer(opening := site.made.aggregator().start())
    site.answer(opening)  # which is the same session
    site.spend(again(site.manifest), Spending(1.0, "row"), rows=9)
    site.spend(again(site.manifest), Spending(1.0, "row"), "other rows", rows=9)
    said = re.sub(r"\s+", " ", site.command())
    since = r"EXACT RESULTS up to 1, of sessions without a budget since 2\d{3}-.*: no epsilon bounds these"
    assert re.search(rf"epsilon 1 .*{since}", said)
    assert said.count("EXACT") == 1
    told = json.loads(site.command("--json"))["data_sets"]
    assert (told["rows"]["exact"]["sessions"], told["other rows"]["exact"]) == (1, None)
    assert began <= datetime.fromisoformat(told["rows"]["exact"]["since"]) <= now()


def sessions_of_a_report(epsilon: float) -> list[tuple[Manifest, Spending]]:
    plugin = registry.load("histogram-distributed-dp")
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": epsilon})
    found = []
    for each, asked in zip((registry.finder(plugin), plugin), plugin.staged(request, 0), strict=True):
        made = each.manifest_of(asked)
        spent = each.spends(made)
        assert spent is not None
        found.append((again(made), spent))
    return found


def test_a_private_auc_and_a_private_report_add_up_to_both_epsilons_of_a_row(site: Site) -> None:
    site.command("--limit", "1")
    site.answer()  # verified, with 0.5
    sessions = sessions_of_a_report(0.5)
    for made, spent in sessions:
        site.spend(made, spent, rows=9)
    spent = [0.5, 0.055, 0.445]
    assert sorted(each.epsilon for each in site.entries().values()) == pytest.approx(sorted(spent))
    with site.store() as store:
        assert LEDGER.stored(store).spent("rows")[0] == pytest.approx(1.0)
        assert LEDGER.stored(store).protects("rows") == "label and score"
    said = re.sub(r"\s+", " ", site.command())
    assert "rows epsilon 1 of 1; 0 is left" in said
    assert all(f" {epsilon:g} a row " in said for epsilon in spent)
    with pytest.raises(InputError, match="of which 1 is spent and 1 is the limit"):
        site.another()


def test_a_report_that_asks_more_than_a_private_auc_has_left_is_refused_before_its_first_session(site: Site) -> None:
    """Its thresholds alone would be worth nothing; what they take would be gone."""
    site.command("--limit", "0.9")
    site.answer()
    (first, spent), _ = sessions_of_a_report(0.5)
    assert spent == (pytest.approx(0.055), "row", 0.0, pytest.approx(0.445))
    both = (
        r"the session and the one after it would spend epsilon = 0\.5 .* of which 0\.5 is spent and 0\.9 is the limit"
    )
    with pytest.raises(InputError, match=rf"{both}.*; nothing was sent"):
        site.spend(first, spent, rows=9)
    assert list(site.entries()) == [site.id]
    for made, part in sessions_of_a_report(0.4):
        site.spend(made, part, rows=9)


def test_each_noisy_protocol_says_what_a_session_spends() -> None:
    spent = {
        ("dpauc-laplace",): TENTH,
        ("dpauc-gaussian", ("delta", 1e-6)): Spending(0.1, "label", 1e-6),
        ("dpauc-rr",): TENTH,
        ("dpauc-rr", ("score_epsilon", 50.0)): Spending(50.1, "row"),
        ("histogram-distributed-dp",): Spending(0.1, "row"),
        ("histogram-local-dp",): Spending(0.1, "row"),
        ("ustat-krr",): Spending(0.1, "score"),
    }
    for (protocol, *options), wanted in spent.items():
        assert registry.load(protocol).spends(manifest(protocol, **dict(options))) == wanted, protocol
