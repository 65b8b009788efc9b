"""The AUC plug-ins on the ordinary rounds: real sessions, what travels, and what is refused.

Tests that compare noisy numbers take the fixture `seeded`, so that they pass or fail every time alike; no other test
can fail by chance with a probability above 1e-9.
"""

import json
import math
import time
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, InputError, UndefinedAucError
from fhe_auc.base.serialise import encode
from fhe_auc.question import thresholds
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import one_process, registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.sessions import Tallies, UstatHierarchy, UstatKrr
from tests.support.chosen import federated_auc
from tests.support.pooled import sklearns_auc
from tests.support.random_sites import sites
from tests.support.wire import changed, payload_of

PLUGINS = {"ustat-krr": UstatKrr, "ustat-hierarchy": UstatHierarchy}
either = pytest.mark.parametrize("name", PLUGINS)


@pytest.fixture
def seeded() -> Callable[[], exact_sampling.Source]:
    source = exact_sampling.SeededExperiment(np.random.default_rng(1))
    return lambda: source


def played(plugin: Any, asked: Request, parties: list[PartyData]) -> Any:
    return one_process.run(plugin, asked, parties, lambda *_: None)


def request(parties: list[PartyData], size: int = 16, **changes: Any) -> Request:
    given = {"parties": tuple(p.name for p in parties), "thresholds": np.linspace(0, 1, size), **changes}
    given["options"] = {"epsilon": 1.0, **changes.get("options", {})}
    return Request(**given)


def roles(name: str, parties: list[PartyData], **changes: Any) -> tuple[Any, list[Any], Manifest]:
    plugin = PLUGINS[name]()
    manifest = plugin.prepare(request(parties, **changes)).manifest
    return plugin.aggregator(manifest, b""), [plugin.party(manifest, b"", each) for each in parties], manifest


@either
def test_a_session_estimates_the_pooled_auc_within_its_precision(name: str, seeded: Any) -> None:
    parties = sites(rows=4000)
    asked = request(parties, thresholds=thresholds.uniform(16), min_rows=12_000, options={"epsilon": 4})
    found = played(PLUGINS[name](seeded), asked, parties)
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
    (alone,) = parties[:1]
    of_one = played(PLUGINS[name](seeded), request([alone]), [alone])
    assert any("that party's own AUC" in warning for warning in of_one.warnings)
    json.dumps(found.as_dict())


@pytest.mark.slow
@either
def test_over_many_sessions_the_auc_is_right_on_average_and_varies_as_its_error_says(name: str, seeded: Any) -> None:
    parties, plugin, runs = sites(rows=1500), PLUGINS[name](seeded), 60
    options = {"epsilon": 8.0, "bins": 16} if name == "ustat-krr" else {"epsilon": 8.0}
    found = [played(plugin, request(parties, options=options), parties) for _ in range(runs)]
    aucs, undecided = (
        np.array(each) for each in zip(*((of.auc, of.settings["undecided by bins"]) for of in found), strict=True)
    )
    # Four standard errors, and a tenth of the ties that thresholds make.
    slack = 4 * aucs.std(ddof=1) / math.sqrt(runs) + undecided.mean() / 10
    assert abs(aucs.mean() - sklearns_auc(parties)) < slack
    noise = np.sqrt(np.square([of.settings["standard error"] for of in found]) - undecided**2)
    assert np.median(noise) == pytest.approx(aucs.std(ddof=1), rel=0.5)


@either
def test_a_sessions_errors_cover_what_bins_leave_undecided_of_squeezed_scores(name: str, seeded: Any) -> None:
    """Rare events: nearly all scores lie in the first of sixteen bins, where the protocol cannot tell them apart."""
    generator, parties = np.random.default_rng(3), []
    for site in range(3):
        labels = generator.random(4000) < 0.1
        scores = 0.08 * generator.random(4000) ** 2 + 0.06 * labels
        parties.append(PartyData.from_arrays(f"site {site}", labels, scores))
    options = {"epsilon": 8.0, **({"bins": 16} if name == "ustat-krr" else {})}
    coarse, fine = (
        played(PLUGINS[name](seeded), request(parties, thresholds=grid, options=options, min_rows=12_000), parties)
        for grid in (np.linspace(0, 1, 16), np.linspace(0, 0.14, 16))
    )
    error = coarse.settings["standard error"]
    off = abs(coarse.auc - sklearns_auc(parties))
    assert 0.1 < off < min(1.5 * error, coarse.settings["standard error bound"])
    assert any("bins leave the AUC undecided by" in warning for warning in coarse.warnings)
    assert fine.settings["standard error"] < error / 2


@either
def test_what_a_party_sends_adds_up_to_its_rows_and_differs_every_time(name: str) -> None:
    parties = sites(1, rows=500)
    seen = set()
    for _ in range(2):
        aggregator, (party,), _ = roles(name, parties)
        payload = payload_of(party.respond(aggregator.start()))
        sums = Tallies.submitted(payload)
        ones = parties[0].y_true.sum()
        assert (sum(sums.positives), sum(sums.negatives), sums.parties) == (ones, 500 - ones, 1)
        seen.add(payload)
    assert len(seen) == 2


def test_reports_are_randomised_and_not_the_scores(seeded: Any) -> None:
    data = PartyData.from_arrays("one", [1] * 4000 + [0] * 4000, [0.5] * 8000)
    plugin = UstatKrr(seeded)
    manifest = plugin.prepare(request([data], options={"epsilon": 1, "bins": 8})).manifest
    aggregator, party = plugin.aggregator(manifest, b""), plugin.party(manifest, b"", data)
    reported = np.array(Tallies.submitted(payload_of(party.respond(aggregator.start()))).positives)
    kept = math.e / (math.e + 7)
    # Five standard deviations.
    assert abs(reported.max() - 4000 * kept) < 5 * math.sqrt(4000 * kept * (1 - kept))
    assert reported.min() > 0


@either
def test_a_party_without_one_class_takes_part_and_one_class_in_the_whole_pool_has_no_auc(name: str) -> None:
    parties = [*sites(rows=2000), PartyData.from_arrays("ones", [1, 1], [0.2, 0.9])]
    asked = {"protocol": name, "thresholds": "uniform:16", "epsilon": 8}
    assert federated_auc(parties, **asked).parties == 4
    with pytest.raises(UndefinedAucError, match="one class only"):
        federated_auc([([1, 1], [0.1, 0.2]), ([1], [0.5])], **asked)


@either
def test_an_estimate_outside_the_range_is_clipped_and_said_so(name: str, seeded: Any) -> None:
    parties = [PartyData.from_arrays("one", [0, 1] * 4, [0.1, 0.9] * 4)]
    asked = request(parties, thresholds=thresholds.uniform(8), options={"epsilon": 0.1})
    found = [played(PLUGINS[name](seeded), asked, parties) for _ in range(40)]
    assert all(0 <= of.auc <= 1 and 0 <= of.settings.get("undecided by bins", 0) <= 0.5 for of in found)
    clipped = [of for of in found if any("outside [0, 1]" in warning for warning in of.warnings)]
    assert clipped
    assert all(of.auc in (0, 1) for of in clipped)


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        *(("ustat-krr", {"bins": bins}, rf"from 2 .* 16, got {bins}") for bins in (1, 17, 2.5, True)),
        ("ustat-hierarchy", {"bins": 4}, "no option 'bins'"),
        ("ustat-krr", {"epsilon": 0}, "epsilon must lie between 0.000001 and 32"),
        *(("ustat-hierarchy", {"epsilon": epsilon}, "epsilon") for epsilon in ("much", math.nan)),
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
        manifest = roles("ustat-krr", parties, **changes)[2]
        assert manifest.options == {"epsilon": 1.0, "bins": bins}
    for wrong in ({}, *({"bins": bins} for bins in (1, 17, True, "8"))):
        with pytest.raises(InputError, match="no number of bins"):
            UstatKrr().aggregator(msgspec.structs.replace(manifest, options={"epsilon": 1.0, **wrong}), b"")


@either
def test_what_bins_leave_undecided_is_told_only_where_it_stands_out_of_the_noise(name: str, seeded: Any) -> None:
    def told(rows: int, epsilon: float, size: int) -> list[bool]:
        plugin, parties = PLUGINS[name](seeded), sites(rows=rows)
        bins = {"bins": size} if name == "ustat-krr" else {}
        asked = request(parties, size, options={"epsilon": epsilon, **bins})
        found = [played(plugin, asked, parties) for _ in range(10)]
        warned = [any("bins leave the AUC undecided by" in warning for warning in of.warnings) for of in found]
        undecided = ["undecided by bins" in of.settings for of in found]
        assert all(of_bins or not warning for of_bins, warning in zip(undecided, warned, strict=True))
        assert rows < 4000 or all(warned)
        return undecided

    assert all(told(4000, 16.0, 4))
    # A true share far below the noise: an estimate exceeds its standard error in one of six or less.
    assert sum(told(30, 0.5, 16)) <= 4


def test_a_bound_that_theorem_3_does_not_give_is_not_told() -> None:
    parties = sites(2, rows=20)  # 40 users, and 7 levels for 128 bins, of 49 users at least
    grids = ("uniform:64", "uniform:128")
    found = [federated_auc(parties, protocol="ustat-hierarchy", thresholds=grid, epsilon=4) for grid in grids]
    assert ["standard error bound" in of.settings for of in found] == [True, False]
    assert all(math.isfinite(of.settings["standard error"]) for of in found)


def test_a_tally_that_fits_is_always_within_the_limit() -> None:
    aggregator, (party, other, *_), _ = roles("ustat-hierarchy", sites(rows=10), size=1000)
    opening = aggregator.start()
    size = 2 * 2 * 2**10
    largest = encode(Tallies(1, (2**62 // size,) * size, (2**62 // size,) * size))
    aggregator.receive("site 0", changed(party.respond(opening), payload=largest))
    second = changed(other.respond(opening), payload=largest)
    with pytest.raises(DeserialisationError, match=r"no more than 2\^62"):  # with those of site 0
        aggregator.receive("site 1", second)


@pytest.mark.slow
@either
def test_a_million_rows_take_less_than_a_minute_with_secure_randomness(name: str) -> None:
    generator = np.random.default_rng(5)
    labels = generator.random(10**6) < 0.3
    scores = np.clip(0.4 + 0.2 * labels + 0.2 * generator.standard_normal(10**6), 0, 1)
    parties = [PartyData.from_arrays("one", labels, scores)]
    started = time.process_time()  # of this process alone: other work on the machine does not count
    found = played(PLUGINS[name](), request(parties, 1000, min_rows=10**6), parties)
    assert time.process_time() - started < 60
    assert abs(found.auc - sklearns_auc(parties)) < 5 * found.settings["standard error"] + 0.01
