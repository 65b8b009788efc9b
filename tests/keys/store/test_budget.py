"""The ledger of privacy budgets in a site's key store: what is spent once, what adds up, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import InputError
from fhe_auc.base.errors import FheAucError
from fhe_auc.base.files import write_atomically
from fhe_auc.session import registry
from fhe_auc.session.aggregator import conduct
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request, Spending, new_session_id
from fhe_auc.sums.residues import pack
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.store_check import problems
from fhe_auc_keys.store import audit, budget
from fhe_auc_keys.store.budget import Ledger
from fhe_auc_keys.store.key_store import TRAIL, KeyStore
from fhe_auc_keys.store.vault import certified_identity
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from tests.support.exact_sessions import GRID, rows
from tests.support.keys_commands import ok
from tests.support.stored_sites import Consortium

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)


@pytest.fixture
def private(tmp_path: Path) -> Consortium:
    sites = rows(3, 9)
    sizes = tuple(data.rows for data in sites)
    return Consortium(sites, tmp_path / "sites", "verified", rows=sizes, thresholds=GRID, options={"epsilon": 0.5})


def entries(made: Consortium, name: str) -> dict[str, budget.Entry]:
    with made.store(name) as store:
        return dict(Ledger.stored(store).entries)


def limit(made: Consortium, name: str, epsilon: float, delta: float | None = None) -> None:
    with made.store(name) as store:
        budget.set_limit(store, "rows", epsilon, delta)


def test_a_session_spends_once_however_often_it_is_asked(private: Consortium) -> None:
    name, opening = next(iter(private.sites)), private.aggregator().start()
    assert entries(private, name) == {}
    first = private.answer(name, opening)
    assert private.answer(name, opening) == first
    (entry,) = entries(private, name).values()
    assert (entry.data_set, entry.protocol, entry.epsilon, entry.unit) == ("rows", "verified", 0.5, "row")


def test_it_is_written_down_before_the_submission_is_and_after_a_crash_between_the_two_once(
    private: Consortium,
) -> None:
    name, opening = next(iter(private.sites)), private.aggregator().start()

    def crash() -> None:
        raise OSError("no power")

    with pytest.raises(OSError, match="no power"):
        private.answer(name, opening, keep=crash)
    assert len(entries(private, name)) == 1
    private.answer(name, opening)
    assert len(entries(private, name)) == 1


def test_beyond_the_limit_nothing_is_sent_and_nothing_kept_until_it_is_raised(private: Consortium) -> None:
    name, opening = next(iter(private.sites)), private.aggregator().start()
    limit(private, name, 0.4)
    with pytest.raises(
        InputError, match=r"would spend epsilon = 0\.5 of data set 'rows', of which 0 is spent and 0\.4"
    ):
        private.answer(name, opening)
    assert entries(private, name) == {}
    with private.store(name) as store:
        assert private.id.hex() not in store.names("state")
        budget.set_limit(store, "rows", 0.5)
    private.answer(name, opening)
    assert len(entries(private, name)) == 1


def manifest(protocol: str = "dpauc-laplace", **options: Any) -> Any:
    request = Request(parties=("a", "b"), thresholds=GRID, options={"epsilon": 0.1, **options})
    return registry.load(protocol).prepare(request).manifest


def spend(store: KeyStore, made: Manifest, spending: Spending | None, data_set: str = "rows", rows: int = 1000) -> None:
    budget.spend(store, data_set, made, spending, rows=rows, at=datetime.now(timezone.utc))


def again(made: Manifest) -> Manifest:
    return msgspec.structs.replace(made, session=new_session_id())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeyStore]:
    with KeyStore.create(tmp_path / "store", "passphrase", log2_cost=10) as made:
        yield made


def test_sessions_add_up_by_data_set_and_ten_tenths_are_one(store: KeyStore) -> None:
    budget.set_limit(store, "2025", 1.0)
    made, tenth = manifest(), Spending(0.1, "label")
    for _ in range(10):
        last = again(made)
        spend(store, last, tenth, "2025")
    spend(store, made, tenth, "2026")
    ledger = Ledger.stored(store)
    assert ledger.spent("2025") == (pytest.approx(1.0), 0)
    assert ledger.spent("2026") == (0.1, 0)
    with pytest.raises(InputError, match=r"of which 1 is spent and 1 is the limit\. .*; nothing was sent"):
        spend(store, again(made), tenth, "2025")
    spend(store, last, tenth, "2025")  # this one is in the ledger


def test_a_damaged_ledger_stops_sessions(store: KeyStore) -> None:
    spend(store, manifest(), Spending(0.1, "label"))
    path = store.directory / "budget" / "ledger"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FheAucError, match="budget/"):
        spend(store, manifest(), Spending(0.1, "label"))


@pytest.mark.parametrize(
    "protocol", ["exact", "verified", "semi-honest", "histogram-federated", "boundaries-federated"]
)
def test_where_a_data_set_has_a_limit_a_session_without_a_budget_sends_nothing(tmp_path: Path, protocol: str) -> None:
    """It would spend all that there is, and more."""
    options = {"bins": 4} if protocol.startswith("boundaries") else {}
    made = Consortium(rows(3, 9), tmp_path / "sites", protocol, thresholds=GRID, options=options)
    name, opening = next(iter(made.sites)), made.aggregator().start()
    limit(made, name, 1e6)
    with pytest.raises(InputError, match=r"data set 'rows' has a limit, and the session no privacy budget"):
        made.answer(name, opening)
    other = list(made.sites)[1]
    assert made.answer(other, opening)
    assert entries(made, other) == {}


def test_what_bounds_nothing_is_refused_where_there_is_a_limit(store: KeyStore) -> None:
    """A budget for scores leaves labels without a bound, and the other way round: then the sum bounds neither."""
    spend(store, manifest(), Spending(0.1, "label"))
    spend(store, manifest(), Spending(0.1, "row"))
    assert Ledger.stored(store).protects("rows") == "label"
    budget.set_limit(store, "rows", 4)
    with pytest.raises(InputError, match="nothing is left that the limit bounds; nothing was sent"):
        spend(store, manifest(), Spending(0.1, "score"))
    spend(store, manifest(), Spending(0.1, "score"), "without a limit")
    spend(store, manifest(), Spending(0.1, "label"), "without a limit")
    assert Ledger.stored(store).protects("without a limit") == "nothing"


def test_delta_must_be_below_1_over_the_rows_with_a_limit_or_without(tmp_path: Path) -> None:
    """With delta = 0.999999 a session may publish a row outright, at any epsilon."""
    options = {"epsilon": 1e-6, "delta": 0.999999}
    made = Consortium(rows(3, 9), tmp_path / "sites", "dpauc-gaussian", thresholds=GRID, options=options)
    name, opening = next(iter(made.sites)), made.aggregator().start()
    with pytest.raises(InputError, match=r"delta = 0\.999999, which must be below 1/rows"):
        made.answer(name, opening)
    assert entries(made, name) == {}


def test_deltas_add_up_to_less_than_1_over_the_rows_or_to_the_limit_that_is_set(store: KeyStore) -> None:
    part = Spending(0.1, "label", 4e-4)
    for _ in range(2):
        spend(store, manifest(), part, rows=1000)
    assert Ledger.stored(store).spent("rows")[1] == pytest.approx(8e-4)
    with pytest.raises(
        InputError, match=r"delta = 0\.0004 .* of which 0\.0008 is spent, and the sum must be below 1/rows"
    ):
        spend(store, manifest(), part, rows=1000)
    budget.set_limit(store, "rows", 10, 1.2e-3)
    spend(store, manifest(), part, rows=1000)
    with pytest.raises(InputError, match=r"the limit is 0\.0012"):
        spend(store, manifest(), part, rows=1000)
    with pytest.raises(InputError, match="must be below 1/rows"):
        spend(store, manifest(), Spending(0.1, "label", 1e-3), "another", rows=1000)


def test_the_sum_of_deltas_is_held_against_the_most_rows_of_any_session(store: KeyStore) -> None:
    """Else a session on ten rows could add a delta that publishes rows of an earlier one, which had 100,000."""
    spend(store, manifest(), Spending(0.1, "label", 1e-6), rows=100_000)
    with pytest.raises(InputError, match=r"the sum must be below 1/rows = 1e-05"):
        spend(store, manifest(), Spending(0.1, "label", 0.05), rows=10)
    spend(store, manifest(), Spending(0.1, "label", 0.05), "ten rows", rows=10)


# The audit trail, which is signed and chained, says what the ledger says.


def played(made: Consortium, name: str) -> bytes:
    """Let a site answer a session's first round; return what is in its ledger's file then."""
    made.answer(name, made.aggregator().start())
    return ledger_file(made, name).read_bytes()


def ledger_file(made: Consortium, name: str) -> Path:
    return Path(made.made.sites[name]["store"], "budget", "ledger")


def another(made: Consortium, name: str) -> None:
    """Let the site's store be charged for another session on the same rows."""
    with made.store(name) as store:
        spend(store, again(made.session.manifest), Spending(0.5, "row"))


def wrong_with(made: Consortium, name: str) -> list[str]:
    with made.store(name) as store:
        return [each.wrong for each in problems(store, at=datetime.now(timezone.utc))]


def test_a_ledger_that_is_removed_shows_and_no_session_goes_on(private: Consortium) -> None:
    name = next(iter(private.sites))
    whole = played(private, name)
    assert wrong_with(private, name) == []
    ledger_file(private, name).unlink()
    lost = f"session {private.id.hex()} has spent a budget, and the ledger has no entry of it"
    assert wrong_with(private, name) == [lost]
    with pytest.raises(KeysError, match=f"the audit trail differ: {lost}; nothing was sent"):
        another(private, name)
    write_atomically(ledger_file(private, name), whole, mode=0o600)
    another(private, name)


def test_a_ledger_that_is_put_back_to_an_older_version_shows(private: Consortium) -> None:
    name = next(iter(private.sites))
    limit(private, name, 4)
    before = ledger_file(private, name).read_bytes()
    played(private, name)
    write_atomically(ledger_file(private, name), before, mode=0o600)
    assert any("the ledger has no entry of it" in each for each in wrong_with(private, name))
    with pytest.raises(KeysError, match="differ"):
        another(private, name)


def test_a_limit_that_is_taken_away_with_the_ledger_shows(private: Consortium) -> None:
    """The command writes a limit into the trail as well."""
    name = next(iter(private.sites))
    site = private.made.sites[name]
    ok("budget", "--limit", "0.6", "--store", site["store"], "--passphrase-file", site["passphrase-file"])
    assert wrong_with(private, name) == []
    ledger_file(private, name).unlink()
    assert wrong_with(private, name) == ["the limit of data set 'rows' is not the one that was set last"]
    with pytest.raises(KeysError, match="differ: the limit of data set 'rows'"):
        private.answer(name, private.aggregator().start())


def test_an_entry_that_is_changed_or_moved_or_has_no_submission_shows(private: Consortium) -> None:
    name = next(iter(private.sites))
    played(private, name)
    with private.store(name) as store:
        ledger = Ledger.stored(store)
        ((session, entry),) = ledger.entries.items()
        ledger.with_entry(session, msgspec.structs.replace(entry, epsilon=0.1)).keep(store)
    assert wrong_with(private, name) == [f"the ledger's entry of session {session} is not what was submitted"]
    with private.store(name) as store:
        ledger.with_entry("00" * 16, entry).keep(store)
    extra = f"the ledger has an entry of session {'00' * 16}, which has not submitted"
    assert wrong_with(private, name) == [extra]
    with private.store(name) as store:
        told = {"session": "00" * 16, "spent": entry.facts()}
        audit.append_line(
            store.directory, certified_identity(store), "submitted", at=datetime.now(timezone.utc), **told
        )
        Ledger({}, {"00" * 16: entry, session: entry}).keep(store)
    assert wrong_with(private, name) == ["the ledger's entries are not in the order of the submissions"]


def trail_of(made: Consortium, name: str) -> Path:
    return Path(made.made.sites[name]["store"], TRAIL)


def test_lines_removed_from_the_trail_show_beside_the_ledger(private: Consortium) -> None:
    name = next(iter(private.sites))
    played(private, name)
    trail_of(private, name).unlink()
    lost = f"session {private.id.hex()} has spent a budget, and the audit trail does not say so"
    assert lost in wrong_with(private, name)
    with pytest.raises(KeysError, match=f"differ: {lost}; nothing was sent"):
        another(private, name)


def test_a_ledger_and_a_trail_that_are_cut_off_alike_show_beside_what_the_session_s_state_says(
    private: Consortium,
) -> None:
    """Whoever removes both has removed what was spent, and that a result was refused."""
    name = next(iter(private.sites))
    private.done = lambda *_: None  # type: ignore[method-assign]
    before = played(private, name)
    lied_to(private)
    trail = trail_of(private, name)
    write_atomically(ledger_file(private, name), before, mode=0o600)
    trail.write_bytes(b"".join(trail.read_bytes().splitlines(keepends=True)[:-1]))
    ended = f"session {private.id.hex()} has had its result refused, and the audit trail does not say so"
    assert wrong_with(private, name) == [ended]
    ledger_file(private, name).unlink()
    trail.unlink()
    assert wrong_with(private, name) == [ended]
    with pytest.raises(KeysError, match="nothing was sent"):
        another(private, name)
    reconcile(private, name)
    assert entries(private, name)[private.id.hex()].epsilon == 0.5
    assert wrong_with(private, name) == [incident(private)]
    acknowledge(private, name, "Ada Osei")
    assert wrong_with(private, name) == []
    another(private, name)


def incident(made: Consortium) -> str:
    return f"the result of session {made.id.hex()} was refused (VerificationError), and nobody has acknowledged it"


def test_a_trail_whose_line_says_another_outcome_than_was_signed_stops_sessions(private: Consortium) -> None:
    name = next(iter(private.sites))
    private.done = lambda *_: None  # type: ignore[method-assign]
    before = played(private, name)
    lied_to(private)
    trail = trail_of(private, name)
    write_atomically(ledger_file(private, name), before, mode=0o600)
    trail.write_bytes(trail.read_bytes().replace(b'"VerificationError"', b'"result"'))
    with pytest.raises(KeysError, match="line 2 of the audit trail is not what its role has signed; nothing was sent"):
        another(private, name)


@pytest.mark.parametrize("how", ["its first line is gone", "a line was added"])
def test_a_trail_that_was_trimmed_stops_nothing_without_a_budget_and_can_be_reconciled(
    private: Consortium, how: str
) -> None:
    name = next(iter(private.sites))
    played(private, name)
    trail = trail_of(private, name)
    whole = trail.read_bytes()
    trail.write_bytes(whole + b"\n")
    if how.startswith("its first"):
        trail.write_bytes(whole.split(b"\n", 1)[1])
    with private.store(name) as store:
        spend(store, again(private.session.manifest), None, "other rows")
    with pytest.raises(KeysError, match=r"differ: .*; nothing was sent\. Find out why .*--reconcile"):
        another(private, name)
    reconcile(private, name)
    with private.store(name) as store:
        assert budget.differences(store, at=datetime.now(timezone.utc)) == []
    another(private, name)


def test_a_line_taken_out_of_the_trail_with_an_older_ledger_stops_sessions(private: Consortium) -> None:
    """A limit is in no session's state: the chain of lines has it."""
    name = next(iter(private.sites))
    site = private.made.sites[name]
    ok("budget", "--limit", "0.6", "--store", site["store"], "--passphrase-file", site["passphrase-file"])
    played(private, name)
    with private.store(name) as store:
        Ledger({}, Ledger.stored(store).entries).keep(store)
    trail = trail_of(private, name)
    trail.write_bytes(trail.read_bytes().split(b"\n", 1)[1])
    assert any(
        "before line 1 of the audit trail lines were removed or changed" in each for each in wrong_with(private, name)
    )
    with pytest.raises(KeysError, match="lines were removed or changed; nothing was sent"):
        another(private, name)


def test_a_line_of_the_trail_that_is_changed_shows_in_a_check(private: Consortium) -> None:
    name = next(iter(private.sites))
    played(private, name)
    trail = Path(private.made.sites[name]["store"], TRAIL)
    trail.write_bytes(trail.read_bytes().replace(b'"epsilon": 0.5', b'"epsilon": 0.1'))
    found = wrong_with(private, name)
    assert any(each.startswith("line 1: it is not what") for each in found)
    assert any("line 1 of the audit trail is not what its role has signed" in each for each in found)


def test_a_session_that_a_crash_has_left_in_the_ledger_is_for_no_other_rows_afterwards(private: Consortium) -> None:
    name = next(iter(private.sites))
    made = private.session.manifest
    with private.store(name) as store:
        spend(store, made, Spending(0.5, "row"), rows=9)
        for rows_now, data_set in ((9, "other rows"), (10, "rows")):
            with pytest.raises(InputError, match=r"was charged to 9 rows of data set 'rows' before, .* nothing was"):
                spend(store, made, Spending(0.5, "row"), data_set, rows_now)
        spend(store, made, Spending(0.5, "row"), rows=9)


def test_what_a_ledger_has_lost_is_put_back_from_the_trail_by_somebody_who_says_so(private: Consortium) -> None:
    name = next(iter(private.sites))
    played(private, name)
    before = entries(private, name)[private.id.hex()]
    ledger_file(private, name).unlink()
    reconcile(private, name)
    (entry,) = entries(private, name).values()
    assert (entry.epsilon, entry.data_set, entry.rows) == (before.epsilon, before.data_set, before.rows)
    assert json.loads(trail_of(private, name).read_text().splitlines()[-1])["by"] == "Ada Osei"
    assert wrong_with(private, name) == []
    another(private, name)


# A refused result of a session with a budget.


def acknowledge(made: Consortium, name: str, by: str) -> None:
    budget_command(made, name, "--acknowledge", made.id.hex(), "--by", by)


def reconcile(made: Consortium, name: str) -> None:
    budget_command(made, name, "--reconcile", "--by", "Ada Osei")


def budget_command(made: Consortium, name: str, *options: str) -> None:
    site = made.made.sites[name]
    ok("budget", *options, "--store", site["store"], "--passphrase-file", site["passphrase-file"])


def lied_to(made: Consortium) -> None:
    """Play a session whose aggregator adds one to a count: a guess, of which the verdict would tell it more."""
    aggregator = made.aggregator()
    message: bytes | None = aggregator.start()
    while message is not None:
        for sender, submission in made.exchange(message):
            aggregator.receive(sender, submission)
        if aggregator.round == 1:
            plan = aggregator.manifest.decoded_plan(ExactPlan)
            one = np.zeros(plan.computed.sketch.size, dtype=np.uint64)
            one[3] = 1
            primes = plan.parameters.plain_moduli
            aggregator._sum.add(tuple(pack(one, prime) for prime in primes))  # type: ignore[attr-defined]
        message = aggregator.finish_round()


def test_a_refused_result_stops_the_data_set_until_somebody_has_acknowledged_it(private: Consortium) -> None:
    """Published or not is one exact bit of the aggregator's choice: with a budget it must not be had twice."""
    name = next(iter(private.sites))

    def unread(*_: Any) -> None:
        pass

    private.done = unread  # type: ignore[method-assign]
    lied_to(private)
    assert [entries(private, each)[private.id.hex()].refused for each in private.sites] == ["VerificationError"] * 3
    assert wrong_with(private, name) == [incident(private)]
    for spending in (Spending(0.01, "row"), None):
        with private.store(name) as store, pytest.raises(InputError, match=f"session {private.id.hex()} on data set"):
            spend(store, again(private.session.manifest), spending)
    with private.store(name) as store:
        spend(store, again(private.session.manifest), None, "other rows")
    site = private.made.sites[name]
    at = ("--store", site["store"], "--passphrase-file", site["passphrase-file"])
    assert re.search(r"INCIDENT .*NOT\s+acknowledged", ok("budget", *at).stdout, re.DOTALL)
    acknowledge(private, name, "Ada Osei")
    assert re.search(r"INCIDENT .*acknowledged\s+by\s+Ada\s+Osei", ok("budget", *at).stdout, re.DOTALL)
    last = json.loads(Path(site["store"], TRAIL).read_text().splitlines()[-1])
    assert (last["event"], last["session"], last["by"]) == ("acknowledged", private.id.hex(), "Ada Osei")
    assert wrong_with(private, name) == []
    another(private, name)


@pytest.mark.parametrize("when", ["before it submits", "before the result"])
def test_a_result_that_is_refused_after_a_difference_was_acknowledged_is_an_incident_all_the_same(
    private: Consortium, when: str
) -> None:
    """Whoever expects a refused result could else have it acknowledged before."""
    name = next(iter(private.sites))
    private.done = lambda *_: None  # type: ignore[method-assign]
    if when == "before it submits":  # what a crash leaves between ledger and trail
        size = private.sites[name].rows
        with private.store(name) as store:
            spend(store, private.session.manifest, Spending(0.5, "row"), rows=size)
    else:
        played(private, name)
        ledger_file(private, name).unlink()
    reconcile(private, name)
    with private.store(name) as store, pytest.raises(InputError, match="is no incident to acknowledge"):
        budget.acknowledged(store, private.id.hex(), "Ada Osei")
    lied_to(private)
    assert entries(private, name)[private.id.hex()].is_open
    assert wrong_with(private, name) == [incident(private)]
    with pytest.raises(InputError, match=f"session {private.id.hex()} on data set 'rows' ended with a result"):
        another(private, name)


def test_a_session_under_way_gives_no_second_verdict_beside_an_open_incident(private: Consortium) -> None:
    """Else two sessions at once would tell two bits before anybody has looked into the first."""
    name = next(iter(private.sites))
    aggregator = private.aggregator()
    for sender, submission in private.exchange(aggregator.start()):
        aggregator.receive(sender, submission)
    result, other = aggregator.finish_round(), again(private.session.manifest)
    assert result is not None
    with private.store(name) as store:
        spend(store, other, Spending(0.1, "row"), rows=9)
        budget.refuse(store, other, "VerificationError")
    with pytest.raises(InputError, match=f"session {other.session.hex()} on data set 'rows' ended with a result that"):
        private.answer(name, result)
    assert not entries(private, name)[private.id.hex()].refused


def test_who_has_submitted_and_lost_the_state_answers_nothing_more(tmp_path: Path) -> None:
    """Each answer has fresh noise: one charge would buy as many as somebody who removes states likes."""
    made = Consortium(rows(3, 9), tmp_path / "sites", "dpauc-laplace", thresholds=GRID, options={"epsilon": 0.5})
    name, opening = next(iter(made.sites)), made.aggregator().start()
    made.answer(name, opening)
    (state,) = Path(made.made.sites[name]["store"], "state").iterdir()
    state.unlink()
    with pytest.raises(InputError, match="the site has submitted in this session, and its state is gone"):
        made.answer(name, opening)


def test_a_crash_between_the_bytes_and_the_trail_s_line_loses_neither(
    private: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, opening = next(iter(private.sites)), private.aggregator().start()
    with monkeypatch.context() as context:
        context.setattr(audit, "append_line", crash)
        with pytest.raises(OSError, match="no power"):
            private.answer(name, opening)
    assert not trail_of(private, name).exists()
    another_data_set = again(private.session.manifest)
    with private.store(name) as store:
        spend(store, another_data_set, Spending(0.1, "row"), "other rows")
    first = private.answer(name, opening)
    assert private.answer(name, opening) == first
    assert [json.loads(line)["event"] for line in trail_of(private, name).read_text().splitlines()] == ["submitted"]


def test_an_open_incident_stops_a_session_that_a_crash_has_left_in_the_ledger_too(private: Consortium) -> None:
    name = next(iter(private.sites))
    private.done = lambda *_: None  # type: ignore[method-assign]
    other = again(private.session.manifest)
    with private.store(name) as store:
        spend(store, other, Spending(0.1, "row"), rows=9)
    lied_to(private)
    with private.store(name) as store, pytest.raises(InputError, match=f"session {private.id.hex()} on data set"):
        spend(store, other, Spending(0.1, "row"), rows=9)


def test_what_is_acknowledged_keeps_its_date(private: Consortium) -> None:
    name = next(iter(private.sites))
    private.done = lambda *_: None  # type: ignore[method-assign]
    lied_to(private)
    before = entries(private, name)[private.id.hex()].at
    acknowledge(private, name, "Ada Osei")
    assert entries(private, name)[private.id.hex()].at == before > 1.7e9


def test_a_refused_result_is_written_down_before_anything_is_answered(private: Consortium) -> None:
    private.done = crash  # type: ignore[assignment]
    with pytest.raises(OSError, match="no power"):
        lied_to(private)
    assert any(each.is_open for name in private.sites for each in entries(private, name).values())


def crash(*_: object, **__: object) -> None:
    raise OSError("no power")


def test_nothing_can_be_acknowledged_where_nothing_is_wrong_or_by_nobody(private: Consortium) -> None:
    name = next(iter(private.sites))
    played(private, name)
    with private.store(name) as store:
        for session in (private.id.hex(), "00" * 16):
            with pytest.raises(InputError, match="is no incident to acknowledge"):
                budget.acknowledged(store, session, "Ada Osei")
        with pytest.raises(InputError, match="nothing to reconcile"):
            budget.reconciled(store, "Ada Osei", at=datetime.now(timezone.utc))
        for say in (partial(budget.acknowledged, store, private.id.hex()), partial(budget.reconciled, store, at=NOW)):
            with pytest.raises(InputError, match="by: a name has"):
                say(by=" ")


def test_an_incident_that_is_taken_out_of_the_ledger_shows(private: Consortium) -> None:
    name = next(iter(private.sites))
    before = played(private, name)
    private.done = lambda *_: None  # type: ignore[method-assign]
    lied_to(private)
    write_atomically(ledger_file(private, name), before, mode=0o600)
    assert wrong_with(private, name) == [f"the ledger's entry of session {private.id.hex()} is not what was submitted"]
    with pytest.raises(KeysError, match="differ"):
        another(private, name)


@pytest.mark.parametrize(
    ("protocol", "options", "wanted"),
    [
        ("dpauc-laplace", {}, Spending(0.1, "label")),
        ("dpauc-gaussian", {"delta": 1e-6}, Spending(0.1, "label", 1e-6)),
        ("dpauc-rr", {}, Spending(0.1, "label")),
        ("dpauc-rr", {"score_epsilon": 50.0}, Spending(50.1, "row")),
        ("histogram-distributed-dp", {}, Spending(0.2, "row")),
        ("histogram-local-dp", {}, Spending(0.1, "row")),
        ("ustat-krr", {}, Spending(0.1, "score")),
    ],
)
def test_each_noisy_protocol_says_what_a_session_spends(
    protocol: str, options: dict[str, Any], wanted: Spending
) -> None:
    assert registry.load(protocol).spends(manifest(protocol, **options)) == wanted


def test_exact_protocols_spend_nothing() -> None:
    for protocol in ("exact", "verified", "semi-honest"):
        prepared = registry.load(protocol).prepare(Request(parties=("a", "b"), thresholds=GRID))
        assert registry.load(protocol).spends(prepared.manifest) is None


@pytest.mark.parametrize("name", ["", " rows", "a\nb", "x" * 101])
def test_a_data_set_has_a_name_that_can_be_shown(name: str) -> None:
    with pytest.raises(InputError, match="data-set"):
        budget.checked_name("data-set", name)


def test_all_sites_end_with_the_same_private_auc_and_each_has_spent_it(private: Consortium) -> None:
    conduct(private.aggregator(), private.exchange)
    aucs = {found.auc for found in private.results.values()}
    assert len(private.results) == 3
    assert len(aucs) == 1
    assert all(len(entries(private, name)) == 1 for name in private.sites)
