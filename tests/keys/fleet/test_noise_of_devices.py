"""A fleet's AUC with noise of its devices: how private it is, by enumeration and by audit, and what devices read."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from fhe_auc.base.errors import CapacityError, DeserialisationError, InputError, ResultCheckError
from fhe_auc.base.serialise import encode
from fhe_auc.question.score_bins import bins_of
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rlwe.modular import signed
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc_keys.fleet import tables
from fhe_auc_keys.fleet.device import Floor
from fhe_auc_keys.fleet.session import opened_part, opened_sums
from fhe_auc_protocols import noise_shares
from fhe_auc_protocols.exact_auc.auc_sums import counts_name
from fhe_auc_protocols.exact_auc.computations import ExactComputation
from fhe_auc_protocols.exact_auc.epsilon_noise import Privacy, possible
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_sampling import SeededExperiment
from fhe_auc_protocols.result_warnings import UNPROVED
from tests.support.discrete_laplace import p_value_discrete
from tests.support.exact_sessions import pairs_of, slow
from tests.support.fleet_sessions import CAP, GRID, Play

UNITS = ("device", "row")
Rows = tuple[tuple[int, int], ...]  # label and bin of each row of a device


def budget(members: int, cap: int, unit: str = "device", epsilon: float = 1.0, **others: Any) -> Privacy:
    asked = {"models": 1, "shares": max(1, members - 1), **others}
    return Privacy(epsilon=epsilon, unit=unit, rows=(cap,), members=members, **asked)  # type: ignore[arg-type]


def numbers_of(*devices: Rows) -> tuple[int, int, int, int]:
    """D, T, P and N of these devices' rows, by pairs."""
    rows = [row for device in devices for row in device]
    ones, zeros = ([at for label, at in rows if label == own] for own in (1, 0))
    signs = [int(np.sign(a - b)) for a in ones for b in zeros]
    return sum(signs), signs.count(0), len(ones), len(zeros)


def steps(change: int, grain: int) -> int:
    """So many multiples of the grain a number with a uniform part moves at most."""
    return -(-abs(change) // grain)


def told(privacy: Privacy, before: tuple[int, ...], after: tuple[int, ...]) -> Fraction:
    """What releases of two fleets tell at most: the sum over channels of steps by scale."""
    changes = zip(privacy.channels, before, after, strict=True)
    return sum((Fraction(steps(a - b, own.grain)) / own.scale for own, a, b in changes), Fraction(0))


# By enumeration.


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("members", "cap"), [(2, 2), (3, 1), slow(2, 3)])
def test_of_all_small_fleets_no_device_or_row_tells_more_than_epsilon(unit: str, members: int, cap: int) -> None:
    kinds = list(itertools.product((0, 1), range(2 if cap > 2 else 3)))
    contents = [each for size in range(cap + 1) for each in itertools.combinations_with_replacement(kinds, size)]

    def near(one: Rows, other: Rows) -> bool:
        return unit == "device" or (len(one) == len(other) and (Counter(one) - Counter(other)).total() == 1)

    for epsilon in (0.1, 1.0, 32.0):
        privacy = budget(members, cap, unit, epsilon)
        for others in itertools.combinations_with_replacement(contents, members - 1):
            found = [numbers_of(own, *others) for own in contents]
            pairs = itertools.combinations(zip(contents, found, strict=True), 2)
            assert all(told(privacy, a, b) <= epsilon for (own, a), (other, b) in pairs if near(own, other))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("members", "cap"), [(10, 3), (1000, 19), (10**6, 19), (50_000, 500)])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_worst_device_tells_hardly_less(unit: str, members: int, cap: int, epsilon: float) -> None:
    """Its c rows go from the top to the bottom, or to the other label, beside others of one label."""
    privacy, c = budget(members, cap, unit, epsilon), cap if unit == "device" else 1
    others = members * cap - c  # negatives between the device's positives and negatives
    top, bottom, other = (c * others, 0, c, others), (-c * others, 0, c, others), (0, 0, 0, others + c)
    worst = max(told(privacy, top, bottom), told(privacy, top, other))
    assert 0.85 * epsilon < worst <= epsilon
    for p0, n0, p1, n1 in itertools.product(sorted({0, 1, c // 2, c - 1, c}), repeat=4):
        if p0 + n0 <= c and p1 + n1 <= c:
            found = [(p * others, p * n, p, n + others) for p, n in ((p0, n0), (-p1, n1))]
            found[1] = (-p1 * others, p1 * n1, p1, n1 + others)
            assert told(privacy, *found) <= epsilon


# By audit: what somebody tells apart who sees releases.


def least_epsilon(privacy: Privacy, first: NDArray[np.int64], second: NDArray[np.int64], exact: Any) -> float:
    """A lower bound, at 99 %, on the budget of what gave these releases, (runs, channels), of two fleets.

    Events are those of the likelihood ratio of Laplace noise, and of how near a release is to the first fleet's
    numbers. The first half of releases chooses one, the others count it.
    """
    scales = np.array([own.grain * float(own.scale) for own in privacy.channels])
    middle = privacy.parties * (np.array([own.grain for own in privacy.channels]) - 1) / 2
    near = [np.abs(drawn[:, None] - middle - np.array(exact)) / scales for drawn in (first, second)]
    best, half = 0.0, len(first) // 2
    for score in (lambda own: (own[:, 1] - own[:, 0]).sum(axis=1), lambda own: -own[:, 0].sum(axis=1)):
        one, two = map(score, near)
        ends = np.quantile(one[:half], np.linspace(0.02, 0.98, 49))
        rates = [[(each[:half] >= end).mean() + 1e-4 for end in ends] for each in (one, two)]
        end = ends[np.argmax(np.log(rates[0]) - np.log(rates[1]))]
        hits = [int((each[half:] >= end).sum()) for each in (one, two)]
        low = stats.beta.ppf(0.005, hits[0], half - hits[0] + 1)
        high = stats.beta.ppf(0.995, hits[1] + 1, half - hits[1])
        best = max(best, float(np.log(low / high)))
    return best


CASES = {
    "a device's positives go from the top to the bottom": ("device", 3, (63, 0, 3, 21), (-63, 0, 3, 21)),
    "a device's positives become negatives": ("device", 3, (63, 0, 3, 21), (0, 0, 0, 24)),
    "a row goes from the top to the bottom": ("row", 3, (23, 0, 1, 23), (-23, 0, 1, 23)),
    "a row has the other label": ("row", 3, (23, 0, 1, 23), (0, 0, 0, 24)),
}


CHEAP = {("a device's positives go from the top to the bottom", 1.0), ("a row has the other label", 1.0)}


@pytest.mark.parametrize(
    ("case", "epsilon"), [each if each in CHEAP else slow(*each) for each in itertools.product(CASES, (0.3, 1.0, 3.0))]
)
def test_an_audit_of_100_000_releases_finds_no_more_than_epsilon_and_half_the_noise(case: str, epsilon: float) -> None:
    """Of eight devices with three rows each; a release has all devices' shares but the reader's own."""
    (unit, cap, *exact), members, runs = CASES[case], 8, 100_000
    privacy = budget(members, cap, unit, epsilon)
    random = SeededExperiment(np.random.default_rng([69, len(case), round(10 * epsilon)]))

    def released(devices: int) -> list[NDArray[np.int64]]:
        noise = [privacy.noise(devices * runs, random).reshape(runs, devices, -1).sum(axis=1) for _ in exact]
        return [own + np.array(numbers) for own, numbers in zip(noise, exact, strict=True)]

    found = least_epsilon(privacy, *released(members - 1), exact)
    assert 0.6 * epsilon < found < epsilon
    # Three of seven shares are fewer than what is promised takes.
    assert least_epsilon(privacy, *released((members - 1) // 2), exact) > epsilon


# A session.


def private(folder: Path, number: int = 12, **others: Any) -> Play:
    options = {"epsilon": 1.0, **others.pop("options", {})}
    return Play(folder, number, options=options, **others)


def privacy_of(play: Play) -> Privacy:
    found = play.announced.manifest.decoded_plan(ExactPlan).privacy
    assert found is not None
    return found


def expected(privacy: Privacy, counted: list[PartyData], noise: NDArray[np.int64]) -> float:
    auc, _, positives, negatives = pairs_of(counted)
    numbers = noise - len(counted) * (np.array([own.grain for own in privacy.channels]) - 1) / 2
    difference = float((2 * auc - 1) * positives * negatives) + numbers[0]
    return min(max(0.5 + difference / (2 * (positives + numbers[2]) * (negatives + numbers[3])), 0.0), 1.0)


@pytest.mark.parametrize("unit", UNITS)
def test_devices_read_the_definition_with_the_noise_of_those_that_count(
    unit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices of twelve drop out."""
    drawn, honest = list[NDArray[np.int64]](), Privacy.noise
    monkeypatch.setattr(Privacy, "noise", lambda self: (drawn.append(honest(self)), drawn[-1])[1])
    play = private(tmp_path, least=9, interval=0.95, options={"epsilon": 32.0, "epsilon_unit": unit})
    play.write(play.records[:10])
    play.to_the_end()
    found, privacy = [play.read(index) for index in (0, 7)], privacy_of(play)
    assert len({each.auc for each in found}) == 1
    assert found[0].auc == pytest.approx(expected(privacy, play.rows[:10], np.concatenate(drawn[:10]).sum(axis=0)))
    assert found[0].settings.items() >= {"epsilon": 32.0, "epsilon_unit": unit, "noise_shares": 8}.items()
    assert (found[0].fraction, found[0].positives, found[0].inputs_proved) == (None, None, "row caps, not the noise")
    assert UNPROVED in found[0].warnings
    assert found[0].interval.high > found[0].interval.low  # type: ignore[union-attr]


def test_nothing_but_the_noisy_numbers_is_in_what_a_device_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fleets of other rows, with noise that makes up for that, give the same result."""
    results = []
    for which in (0, 1):
        play = private(tmp_path / f"{which}", 6)
        flipped = [(each.y_true, np.abs(which - each.y_score)) for each in play.rows]
        play.rows = [PartyData.from_arrays("a device", *each) for each in flipped]
        auc, half, positives, negatives = pairs_of(play.rows)
        pairs = positives * negatives
        exact = round((2 * auc - 1) * pairs), round(2 * half * pairs), positives, negatives
        first = np.array([[500, 300, 40, 60]]) - np.array(exact)
        shares = iter([first, *[np.zeros((1, 4), np.int64)] * 5])
        monkeypatch.setattr(Privacy, "noise", lambda self, shares=shares: next(shares))
        play.write()
        play.to_the_end()
        found: Evaluation = replace(play.read(2), warnings=())
        results.append({name: str(value) for name, value in found.as_dict().items() if name != "seconds"})
    assert results[0] == results[1]


def test_with_too_few_nothing_is_opened_and_sums_of_fewer_are_not_read(tmp_path: Path) -> None:
    play = private(tmp_path, least=9)
    play.write(play.records[:8])
    play.collect()
    assert not play.asked().opened
    other = private(tmp_path / "other", 6, least=4)
    other.write(other.records[:5])
    other.to_the_end()
    manifest = msgspec.structs.replace(other.announced.manifest, min_parties=6)
    device = other.device(1)
    device.manifest = manifest
    sums, part = Path(other.place("answers/sums")).read_bytes(), other.parts()[1]
    with pytest.raises(DeserialisationError, match="the sums are of 5 members, fewer"):
        device.read(other.rows[1], other.submitted[1].response_key, part, sums)


@pytest.mark.parametrize("colluders", [0, 3])
def test_the_shares_of_all_others_than_the_reader_and_colluders_hold_the_noise_promised(colluders: int) -> None:
    """A device that lies and adds none is one more colluder: then so many fewer add up, and that is caught."""
    play = registry.load("exact")
    members, runs, random = 40, 4000, SeededExperiment(np.random.default_rng(colluders))
    fleet = fleet_of(members)
    asked = Request(
        parties=(), fleet=fleet, thresholds=np.linspace(0, 1, 5), keys="helper", row_caps=fleet.row_cap,
        options={"epsilon": 4.0, "colluders": colluders}, min_parties=30,
    )  # fmt: skip
    privacy: Any = play.planned(asked).privacy  # type: ignore[attr-defined]
    assert privacy.shares == 29 - colluders
    (channel,) = (own for own in privacy.channels if own.model is None and own.label == 1)
    at = privacy.channels.index(channel)
    for silent, enough in ((0, True), (14, False)):
        devices = 29 - colluders - silent
        drawn = privacy.noise(runs * devices, random)[:, at].reshape(runs, devices).sum(axis=1)
        p_value = p_value_discrete(drawn, stats.dlaplace(1 / float(channel.scale)).pmf)
        assert p_value > 0.01 if enough else p_value < 1e-8


def fleet_of(members: int, cap: int = CAP) -> Any:
    from fhe_auc.question.fleet import Fleet

    return Fleet(members=members, keys=bytes(32), row_cap=cap)


def test_a_device_that_shows_noise_that_none_draws_spoils_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, honest = private(tmp_path, 6), Privacy.noise
    shares: Iterator[Any] = iter([2**30 * np.eye(4, dtype=np.int64)[None, 0], *[None] * 5])
    monkeypatch.setattr(Privacy, "noise", lambda self: honest(self) if (own := next(shares)) is None else own)
    play.write()
    play.to_the_end()
    with pytest.raises(ResultCheckError, match="none that rows and noise can give"):
        play.read(3)


@pytest.mark.parametrize("histogram", [False, True])
def test_a_device_takes_part_up_to_its_own_budget_and_not_without_one(tmp_path: Path, histogram: bool) -> None:
    """Of a row it takes none: that is up to the cap times as much a device."""
    kind: dict[str, Any] = {"protocol": "histogram-distributed-dp", "proofs": False} if histogram else {}
    play, exact = private(tmp_path / "a", 5, **kind), Play(tmp_path / "b", 5)
    rows = private(tmp_path / "c", 5, options={"epsilon_unit": "row"}, **kind)
    play.device(0, Floor(4, 0.25, epsilon=1.0))
    for each, floor, message in (
        (play, 0.5, "has epsilon = 1 a device, and this device takes part up to epsilon = 0.5"),
        (exact, 9.0, "has no noise"),
        (rows, 9.0, "has epsilon = 1 a row"),
    ):
        with pytest.raises(InputError, match=message):
            each.device(0, Floor(4, 0.25, epsilon=floor))


# A server that lies, and has a device that reads the result.


def positives_in(counted: list[PartyData], bins: list[int]) -> list[int]:
    """How many positives lie in each of these bins."""
    found = np.concatenate([bins_of(each.y_score[each.labels == 1], GRID) for each in counted])
    return [int((found == own).sum()) for own in bins]


def test_a_server_that_lies_reads_past_epsilon_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positives in three bins, exactly: it adds far more negatives to these than noise is large, so T multiplies them.

    Its device opens the sums. It knows all other rows but those of one device, whose counts that leaves.
    """
    play, honest, room = private(tmp_path, 5, options={"epsilon": 0.1}), ExactComputation.sketches, 20
    plan, manifest, target = play.computation.plan, play.announced.manifest, play.rows[3]
    (prime,), privacy = plan.parameters.plain_moduli, privacy_of(play)
    bins = np.argsort(positives_in(play.rows, [*range(len(GRID) - 1)]))[-3:].tolist()

    def lying(self: ExactComputation, totals: Any) -> list[Any]:
        (pooled,) = honest(self, totals)
        negatives = plan.releases[0].sketch.split(made := pooled.copy())[counts_name(0, 0, 0)]
        for place, own in enumerate(bins):
            negatives[own] = (int(negatives[own]) + 2 ** (room + 6 * place)) % prime
        return [made]

    play.until_opened()
    with monkeypatch.context() as patched:
        patched.setattr(ExactComputation, "sketches", lying)
        result = play.add()
    play.decrypt(result)
    key = opened_part(play.submitted[0].response_key, play.parts()[0], manifest.digest, 0)
    sums = tables.read_file(play.place("answers/sums"))
    _, (numbers,) = opened_sums(sums, play.helper.helper.signing_key, key, manifest.digest)
    ties = int(signed(numbers, prime)[1]) + 2 ** (room - 1) >> room
    pooled = [ties >> 6 * place & 63 for place in range(3)]  # 5·12 rows at most
    others = positives_in([each for each in play.rows if each is not target], bins)
    assert np.subtract(pooled, others).tolist() == positives_in([target], bins) != [0, 0, 0]
    # An honest T tells next to nothing: its noise is 20 times as large as what 60 rows can make of it.
    channel = privacy.channels[1]
    assert channel.ties
    assert privacy.variance(channel, 5) ** 0.5 > 20 * possible(channel, 60)[1]
    with pytest.raises(ResultCheckError, match="none that rows and noise can give"):  # and it has been read
        play.read(1)


# Plans.


def request(**others: Any) -> Request:
    fleet = others.pop("fleet", fleet_of(1000))
    asked: dict[str, Any] = {"keys": "helper", "row_caps": fleet.row_cap, "options": {"epsilon": 1.0}, **others}
    return Request(parties=(), fleet=fleet, thresholds=np.linspace(0, 1, 11), **asked)


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"row_caps": None}, "no proofs = false"),
        ({"options": {"epsilon": 1.0, "epsilon_unit": "label"}}, "must be device or row in a fleet, got 'label'"),
        ({"options": {"epsilon_unit": "row"}}, "goes with epsilon alone"),
        ({"options": {"epsilon": 1.0, "colluders": 999}}, "999 cannot collude"),
        ({"options": {"epsilon": 1.0, "colluders": 4}, "min_parties": 5}, "of 5 parties that must take part, 4 cannot"),
        ({"options": {"epsilon": 1e-6}}, "too small"),
    ],
)
def test_what_does_not_go_with_a_fleets_budget_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.load("exact").plan(request(**others))


def test_a_fleet_proves_as_many_rows_as_one_prime_holds_and_more_are_refused_with_that_number() -> None:
    plan: Any = registry.load("exact").plan(request(fleet=fleet_of(10**6, 47)))
    assert plan.max_rows == 47 * 10**6  # whatever max_rows is: noise is for all that members can prove
    with pytest.raises(CapacityError, match=r"48,000,000 pooled rows take more \(47,[0-9]+,[0-9]+ would do\)"):
        registry.load("exact").plan(request(fleet=fleet_of(10**6, 48)))


def test_sites_of_exact_have_no_budget_nor_has_a_manifest_of_another_fleet() -> None:
    plugin: Any = registry.load("exact")
    with pytest.raises(InputError, match="adds no noise"):
        plugin.plan(Request(parties=("a", "b"), thresholds=np.linspace(0, 1, 11), options={"epsilon": 1.0}))
    manifest = plugin.prepare(request()).manifest
    plugin.plan_of(manifest)
    plan = msgspec.to_builtins(manifest.decoded_plan(ExactPlan))
    for of_privacy, message in (
        ({"members": 1100}, "budget is that of another session"),
        ({"rows": [3]}, "rows that they state"),
        ({"shares": 998}, "other privacy budgets"),
        ({"epsilon": 2.0}, "other privacy budgets"),
    ):
        content = EncodedPlan("exact sums", encode(plan | {"privacy": plan["privacy"] | of_privacy}))
        with pytest.raises(InputError, match=message):
            plugin.plan_of(msgspec.structs.replace(manifest, plan=content))
    sites = msgspec.structs.replace(manifest, fleet=None, parties=tuple(f"site {n}" for n in range(1000)))
    with pytest.raises(InputError, match="other privacy budgets"):
        plugin.plan_of(sites)


def test_a_device_of_100_000_draws_its_noise_in_less_than_2_ms() -> None:
    privacy, seconds = budget(10**5, 19), []
    for _ in range(9):
        noise_shares._table.cache_clear()
        before = time.process_time()
        privacy.noise()
        seconds.append(time.process_time() - before)
    assert min(seconds) < 0.002
