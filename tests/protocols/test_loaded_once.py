"""A session in one process makes its keys once, loads the public context once, and makes no evaluation keys."""

import importlib
from collections import Counter
from functools import lru_cache
from typing import Any

import pytest

from fhe_auc import Setup
from fhe_auc.api import federated_auc
from fhe_auc.rlwe import context
from fhe_auc.rlwe.context import BasePublicContext, Library, library_for
from fhe_auc.rows.party_data import PartyData


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, calls: Counter[str]) -> None:
    real = getattr(owner, name)

    def counted(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return real(*arguments, **named)

    monkeypatch.setattr(owner, name, counted)


@pytest.fixture
def calls(backend: str, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts of what is made and loaded, in a process that has had no session before."""
    monkeypatch.setattr(context, "library_for", lru_cache(library_for.__wrapped__))
    calls: Counter[str] = Counter()
    counting(monkeypatch, BasePublicContext, "__init__", calls)
    counting(monkeypatch, Library, "new_secret_key", calls)
    if backend == "openfhe":
        of_library: Any = importlib.import_module("openfhe").CryptoContext
        names = "EvalMultKeyGen", "EvalRotateKeyGen"
    else:
        of_library = importlib.import_module("tenseal.sealapi").KeyGenerator
        names = "create_relin_keys", "create_galois_keys"
    for name in names:
        counting(monkeypatch, of_library, name, calls)
    return calls


@pytest.mark.parametrize("protocol", ["semi-honest", "verified"])
def test_a_session_under_ckks_and_one_under_bfv(
    protocol: str, calls: Counter[str], backend: str, site_rows: list[PartyData]
) -> None:
    rows = {data.name: (data.labels, data.y_score) for data in site_rows}
    federated_auc(rows, protocol=protocol, setup=Setup(backend=backend), thresholds="uniform:16")
    assert calls == {"__init__": 1, "new_secret_key": 1}
