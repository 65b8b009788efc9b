"""The private score histogram of a fleet: whole vectors, padded, with noise of each device, and no proof of any."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc.base.errors import InputError, ResultCheckError
from fhe_auc.base.serialise import encode
from fhe_auc.question.score_bins import bins_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.vector_computation import VectorPlan
from fhe_auc_protocols.histograms.distributed_noise import SharedNoise
from fhe_auc_protocols.result_warnings import UNPROVED
from tests.support.discrete_laplace import p_value_discrete
from tests.support.fleet_sessions import CAP, GRID, Play

NAME = "histogram-distributed-dp"


def private(folder: Path, number: int = 8, epsilon: float = 8.0, **others: Any) -> Play:
    options = {"epsilon": epsilon, **others.pop("options", {})}
    return Play(folder, number, protocol=NAME, proofs=False, options=options, **others)


def pooled(counted: list[PartyData]) -> np.ndarray:
    """Positives, then negatives, in each bin."""
    found = np.zeros((2, len(GRID)), np.int64)
    for data in counted:
        np.add.at(found, (1 - data.labels.astype(int), bins_of(data.y_score, GRID)), 1)
    return found


def without_noise(monkeypatch: pytest.MonkeyPatch, share: int = 0) -> None:
    monkeypatch.setattr(SharedNoise, "added", lambda self, counts, most: counts + share)


def test_devices_read_the_counts_of_those_that_count_with_their_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of eight drops out; each of the others adds 3 to each count."""
    without_noise(monkeypatch, 3)
    play = private(tmp_path, least=6, interval=0.95)
    play.write(play.records[:7])
    play.to_the_end()
    first, second = play.read(0), play.read(6)
    histogram = first.histogram
    assert histogram is not None
    assert (np.array([histogram.positives, histogram.negatives]) == pooled(play.rows[:7]) + 7 * 3).all()
    assert (first.auc, first.interval) == (second.auc, second.interval)
    assert (first.verified, first.soundness, first.fraction) == (False, None, None)
    assert any(UNPROVED in each and "nor does a device prove its counts" in each for each in first.warnings)
    assert first.settings.items() >= {"epsilon": 8.0, "noise_scale": 2 * CAP / 8, "noise_shares": 5}.items()
    assert first.settings["epsilon_unit"] == "device"


def test_all_that_a_device_can_change_is_within_the_scale_of_the_noise_and_the_law_is_the_promised_one(
    tmp_path: Path,
) -> None:
    """Its rows, CAP at most, leave their cells, and as many come into others; n shares are enough."""
    play = private(tmp_path, 40, epsilon=24.0, least=30)
    task: Any = registry.load(NAME).task(play.announced.manifest, play.rows[0])  # type: ignore[attr-defined]
    noise = task._noise
    rows = [PartyData.from_arrays("a device", [label] * CAP, [0.3 + 0.5 * label] * CAP) for label in (0, 1)]
    assert np.abs(pooled(rows[:1]) - pooled(rows[1:])).sum() / noise.scale == Fraction(24)
    assert noise.shares == 29
    counts = np.zeros(29 * 3000, np.int64)
    drawn = noise.added(counts, 10**6).reshape(29, 3000)
    assert p_value_discrete(drawn.sum(axis=0), stats.dlaplace(1 / float(noise.scale)).pmf) > 1e-8
    assert p_value_discrete(drawn[:14].sum(axis=0), stats.dlaplace(1 / float(noise.scale)).pmf) < 1e-8
    assert len({task.vector().tobytes() for _ in range(100)}) > 1  # a share is often 0 in all 24 cells


def test_a_rows_noise_is_that_of_a_device_divided_by_the_cap_and_the_result_says_whose_it_is(tmp_path: Path) -> None:
    """A row leaves its cell and comes into another one: that is two counts, by one each."""
    play, unit = private(tmp_path, 5, options={"epsilon_unit": "row"}), {"epsilon": 8.0, "epsilon_unit": "row"}
    task: Any = registry.load(NAME).task(play.announced.manifest, play.rows[0])  # type: ignore[attr-defined]
    assert task._noise.scale == Fraction(2, 8)
    assert registry.load(NAME).spends(play.announced.manifest) == (8.0, "row", 0.0, 0.0)
    play.write()
    play.to_the_end()
    assert play.read(1).settings.items() >= {**unit, "noise_scale": 0.25}.items()


def test_units_of_no_fleet_and_of_sites_are_refused_in_requests_and_manifests(tmp_path: Path) -> None:
    play, plugin = private(tmp_path, 5), registry.load(NAME)
    manifest, changed = play.announced.manifest, msgspec.structs.replace
    sites = {"fleet": None, "parties": ("a", "b")}
    for unit in ("label", "", 1):
        options = {"epsilon": 8.0, "epsilon_unit": unit}
        with pytest.raises(InputError, match="must be device or row in a fleet"):
            plugin.plan(replace(play.request, options=options))
        with pytest.raises(InputError, match="must be device or row in a fleet"):
            play.device(0, announced=replace(play.announced, manifest=changed(manifest, options=options))).submit(
                play.rows[0], b""
            )
    for unit in ("device", "row"):
        options = {"epsilon": 8.0, "epsilon_unit": unit}
        with pytest.raises(InputError, match="no option 'epsilon_unit'"):
            plugin.plan(replace(play.request, options=options, row_caps=None, **sites))
        of_sites = plugin.manifest_of(replace(play.request, options={"epsilon": 8.0}, row_caps=None, **sites))
        data = replace(play.rows[0], name="a")
        with pytest.raises(InputError, match="no option 'epsilon_unit'"):
            plugin.task(changed(of_sites, options=options), data)  # type: ignore[attr-defined]


def test_who_lacks_a_devices_pad_sees_uniform_numbers_and_the_server_sees_the_noisy_sum_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_noise(monkeypatch)
    play = private(tmp_path, 5)
    computation: Any = registry.load(NAME).key_kinds()["helper"]().computation(play.announced.manifest)  # type: ignore[attr-defined]
    values = registry.load(NAME).task(play.announced.manifest, play.rows[0]).encode(b"")  # type: ignore[attr-defined]
    parts = [computation.unpacked(0, computation.under_pad(0, bytes([seed]) * 32, values).parts[0]) for seed in (1, 2)]
    pads = [computation.pads([0], [bytes([seed]) * 32])[0] for seed in (1, 2)]
    t = computation.sums.modulus
    assert all(((part + (t - pad)) % t == values[0]).all() for part, pad in zip(parts, pads, strict=True))
    assert not (parts[0] == parts[1]).any()


def test_what_a_device_makes_up_shifts_its_own_cells_and_beyond_what_rows_give_nobody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for made_up, refused in ((50, False), (2**39, True)):
        play = private(tmp_path / f"{made_up}", 5)
        lie = np.zeros(2 * len(GRID), np.int64)
        lie[4] = made_up
        shares = iter([lie, *[np.zeros_like(lie)] * 4])
        monkeypatch.setattr(SharedNoise, "added", lambda self, counts, most, shares=shares: counts + next(shares))
        play.write()
        play.to_the_end()
        if refused:
            with pytest.raises(ResultCheckError, match="none that rows and noise can give"):
                play.read(1)
            continue
        histogram = play.read(1).histogram
        assert histogram is not None
        off = np.array([histogram.positives, histogram.negatives]) - pooled(play.rows)
        assert (off.ravel() == lie).all()


def test_a_fleet_has_no_exact_counts_and_no_other_plan(tmp_path: Path) -> None:
    play = private(tmp_path, 5)
    request, changed = replace(play.request, options={}), msgspec.structs.replace
    for name in ("histogram-federated", "counts-federated"):
        with pytest.raises(InputError, match=f"noisy histograms alone, as {name} has none"):
            registry.load(name).plan(request)
    with pytest.raises(InputError, match="noisy histograms alone, as boundaries-distributed-dp has none"):
        registry.load("boundaries-distributed-dp").plan(play.request)
    manifest = play.announced.manifest
    plan = msgspec.to_builtins(manifest.decoded_plan(VectorPlan)) | {"fleet": False}
    other = changed(manifest, plan=EncodedPlan(VectorPlan.kind, encode(plan)))
    with pytest.raises(InputError, match="for sites where a fleet takes part"):
        registry.load(NAME).key_kinds()["helper"]().computation(other)  # type: ignore[attr-defined]
    federated = changed(manifest, protocol="histogram-federated", options={})
    with pytest.raises(InputError, match="noisy histograms alone"):
        registry.load("histogram-federated").plan_of(federated)
