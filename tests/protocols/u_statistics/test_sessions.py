"""The AUC plug-ins on the ordinary rounds: real sessions, what travels, and what is refused.

Tests that compare noisy numbers take the fixture `seeded`, so that they pass or fail every time alike; no other test
can fail by chance with a probability above 1e-9.
"""

import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc import federated_auc
from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.serialise import encode
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.sessions import Tallies, UstatHierarchy, UstatKrr
from tests.support.pooled import sklearns_auc
from tests.support.random_sites import sites
from tests.support.roles import SessionRoles, unencrypted
from tests.support.wire import changed, payload_of

PLUGINS = {"ustat-krr": UstatKrr, "ustat-hierarchy": UstatHierarchy}
either = pytest.mark.parametrize("name", PLUGINS)


@pytest.fixture
def seeded() -> Callable[[], exact_sampling.Source]:
    source = exact_sampling.SeededExperiment(np.random.default_rng(1))
    return lambda: source


def request(parties: list[PartyData], size: int = 16, **changes: Any) -> Request:
    given = {"parties": tuple(p.name for p in parties), "thresholds": np.linspace(0, 1, size), **changes}
    given["options"] = {"epsilon": 1.0, **changes.get("options", {})}
    return Request(**given)


def played(name: str, parties: list[PartyData], source: Any, **changes: Any) -> Any:
    """Of a real session, with this source of randomness."""
    plugin: Any = PLUGINS[name]()
    plugin.source = source
    return one_process.run(plugin, request(parties, **changes), parties, lambda *_: None)


def roles(name: str, parties: list[PartyData], size: int = 16, **options: Any) -> SessionRoles:
    asked = {"thresholds": np.linspace(0, 1, size), "options": {"epsilon": 1.0, **options}}
    return unencrypted(PLUGINS[name](), parties, **asked)


@either
def test_a_session_estimates_the_pooled_auc_within_its_precision(name: str, seeded: Any) -> None:
    parties = sites(rows=4000)
    asked = {"thresholds": thresholds.uniform(16), "min_rows": 12_000, "options": {"epsilon": 4}}
    found = played(name, parties, seeded, **asked)
    slack = 4 * found.settings["standard error"] + found.settings.get("undecided by bins", 0)
    assert abs(found.auc - sklearns_auc(parties)) <= slack
    assert np.isnan([found.binning_error, found.numerical_error]).all()
    assert (found.backend, found.keys, found.security_bits, found.verified) == ("none", "none", 0, False)
    assert (found.rounds, found.settings["epsilon"]) == (2, 4.0)
    assert 0 < found.settings["standard error"] < found.settings["standard error bound"]
    assert "labels, which are public" in registry.load(name).trust
    assert "labels are public" in found.warnings[0]
    assert "budgets of sessions on the same rows add up" in found.warnings[1]
    assert not any("that party's own AUC" in warning for warning in found.warnings)
    of_one = played(name, parties[:1], seeded)
    assert any("that party's own AUC" in warning for warning in of_one.warnings)
    json.dumps(found.as_dict())


@either
def test_what_a_party_sends_adds_up_to_its_rows_and_differs_every_time(name: str) -> None:
    parties = sites(1, rows=500)
    seen = set()
    for _ in range(2):
        payload = payload_of(roles(name, parties).submit()[0])
        sums = Tallies.submitted(payload)
        ones = parties[0].y_true.sum()
        assert (sum(sums.positives), sum(sums.negatives), sums.parties) == (ones, 500 - ones, 1)
        seen.add(payload)
    assert len(seen) == 2


@either
def test_an_estimate_outside_the_range_is_clipped_and_said_so(name: str, seeded: Any) -> None:
    parties = [PartyData.from_arrays("one", [0, 1] * 4, [0.1, 0.9] * 4)]
    asked = {"thresholds": thresholds.uniform(8), "options": {"epsilon": 0.1}}
    found = [played(name, parties, seeded, **asked) for _ in range(40)]
    assert all(0 <= of.auc <= 1 and 0 <= of.settings.get("undecided by bins", 0) <= 0.5 for of in found)
    clipped = [of for of in found if any("outside [0, 1]" in warning for warning in of.warnings)]
    assert clipped
    assert all(of.auc in (0, 1) for of in clipped)


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        *(("ustat-krr", {"bins": bins}, rf"from 2 .* 16, got {bins}") for bins in (1, 17, 2.5, True)),
        ("ustat-hierarchy", {"bins": 4}, "no option 'bins'"),
    ],
)
def test_requests_that_cannot_be_met_are_refused(name: str, options: dict, what: str) -> None:
    with pytest.raises(InputError, match=what):
        PLUGINS[name]().prepare(request(sites(rows=10), options=options))


def test_bins_of_a_session_follow_the_rule_at_the_least_number_of_rows_or_the_manifest_is_refused() -> None:
    parties = sites(2, rows=10)
    for changes, bins in (
        ({"size": 100, "min_rows": 10_000}, 10),
        ({"size": 4, "min_rows": 10_000}, 4),
        ({"options": {"bins": 7}}, 7),
    ):
        manifest = UstatKrr().prepare(request(parties, **changes)).manifest
        assert manifest.options == {"epsilon": 1.0, "bins": bins}
    for wrong in ({}, *({"bins": bins} for bins in (1, 17, True, "8"))):
        with pytest.raises(InputError, match="no number of bins"):
            UstatKrr().aggregator(msgspec.structs.replace(manifest, options={"epsilon": 1.0, **wrong}), b"")


def test_a_bound_that_theorem_3_does_not_give_is_not_told() -> None:
    parties = sites(2, rows=20)  # 40 users, and 7 levels for 128 bins, of 49 users at least
    grids = ("uniform:64", "uniform:128")
    found = [federated_auc(parties, protocol="ustat-hierarchy", thresholds=grid, epsilon=4) for grid in grids]
    assert ["standard error bound" in of.settings for of in found] == [True, False]
    assert all(math.isfinite(of.settings["standard error"]) for of in found)


def test_a_tally_that_fits_is_always_within_the_limit() -> None:
    session = roles("ustat-hierarchy", sites(rows=10), size=1000)
    aggregator, (first, second, *_) = session.aggregator, session.submit()
    size = 2 * 2 * 2**10
    largest = encode(Tallies(1, (2**62 // size,) * size, (2**62 // size,) * size))
    aggregator.receive("site 0", changed(first, payload=largest))
    with pytest.raises(DeserialisationError, match=r"no more than 2\^62"):  # with those of site 0
        aggregator.receive("site 1", changed(second, payload=largest))
