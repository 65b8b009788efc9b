"""The ledger of privacy budgets in a site's key store: what is spent once, what adds up, what is refused."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fhe_auc import InputError
from fhe_auc.base.errors import FheAucError
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request, Spending, new_session_id
from fhe_auc.session.rounds import conduct
from fhe_auc_keys.store import budget
from fhe_auc_keys.store.key_store import KeyStore
from tests.support.exact_sessions import GRID, rows
from tests.support.stored_sites import Consortium
from tests.support.wire import flipped

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)


@pytest.fixture
def private(tmp_path: Path) -> Consortium:
    sites = rows(3, 9)
    sizes = tuple(data.rows for data in sites)
    return Consortium(sites, tmp_path / "sites", "verified", rows=sizes, thresholds=GRID, options={"epsilon": 0.5})


def entries(made: Consortium, name: str) -> dict[str, budget.Entry]:
    with made.store(name) as store:
        return budget.entries(store)


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
    with private.store(name) as store:
        budget.set_limit(store, "rows", 0.4)
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


def test_sessions_add_up_by_data_set_and_ten_tenths_are_one(store: KeyStore) -> None:
    budget.set_limit(store, "2025", 1.0)
    made, tenth = manifest(), Spending(0.1, "label")
    for _ in range(10):
        again = msgspec.structs.replace(made, session=new_session_id())
        budget.spend(store, "2025", again, tenth, at=NOW)
    budget.spend(store, "2026", made, tenth, at=NOW)
    assert budget.spent(store) == {"2025": pytest.approx(1.0), "2026": 0.1}
    with pytest.raises(InputError, match="of which 1 is spent and 1 is the limit; nothing was sent"):
        budget.spend(store, "2025", msgspec.structs.replace(made, session=new_session_id()), tenth, at=NOW)
    budget.spend(store, "2025", again, tenth, at=NOW)  # this one is in the ledger


def test_a_damaged_ledger_stops_sessions(store: KeyStore, tmp_path: Path) -> None:
    budget.spend(store, "rows", manifest(), Spending(0.1, "label"), at=NOW)
    (path,) = (tmp_path / "store" / "budget").iterdir()
    path.write_bytes(flipped(path.read_bytes(), -1))
    with pytest.raises(FheAucError, match="budget/"):
        budget.spend(store, "rows", manifest(), Spending(0.1, "label"), at=NOW)


@pytest.mark.parametrize(
    ("protocol", "options", "wanted"),
    [
        ("dpauc-laplace", {}, Spending(0.1, "label")),
        ("dpauc-gaussian", {"delta": 1e-6}, Spending(0.1, "label", 1e-6)),
        ("dpauc-rr", {}, Spending(0.1, "label")),
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
        budget.checked_data_set(name)


def test_all_sites_end_with_the_same_private_auc_and_each_has_spent_it(private: Consortium) -> None:
    conduct(private.aggregator(), private.exchange)
    aucs = {found.auc for found in private.results.values()}
    assert len(private.results) == 3
    assert len(aucs) == 1
    assert all(len(entries(private, name)) == 1 for name in private.sites)
