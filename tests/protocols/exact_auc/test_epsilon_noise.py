"""The private AUC: what a row can change, what noise hides of it, and that nothing else is released."""

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from fhe_auc import InputError, federated_auc
from fhe_auc.base.errors import CapacityError, VerificationError
from fhe_auc.base.options import check_names
from fhe_auc.base.serialise import encode
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues, add, residues
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.protocol import Request
from fhe_auc.session.registry import load
from fhe_auc.sums.proof import released
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Lie, View, lying_party
from fhe_auc_protocols.exact_auc.epsilon_noise import VERDICT, Channel, Privacy, possible
from fhe_auc_protocols.exact_auc.epsilon_sums import PrivateReading
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from tests.support.exact_sessions import GRID, pairs_of, slow
from tests.support.helped_sessions import SITES, Play

UNITS = ("row", "label")
Pool = tuple[tuple[int, int], ...]  # label and bin of each row


def budget(rows: tuple[int, ...] = (3, 2), unit: str = "row", **others: Any) -> Privacy:
    kinds = {"epsilon": 1.0, "models": 1, "shares": max(1, len(rows) - 1), **others}
    return Privacy(unit=unit, rows=rows, **kinds)  # type: ignore[arg-type]


def by_rows(pool: Pool) -> tuple[int, int, int]:
    """Return D, T and P, by their definition over rows."""
    signs = [np.sign(s - other) for (y, s), (label, other) in itertools.product(pool, pool) if y > label]
    return int(sum(signs)), sum(sign == 0 for sign in signs), sum(y for y, _ in pool)


def neighbours(pool: Pool, unit: str, bins: int) -> Iterator[Pool]:
    label, score = pool[0]  # pools are all there are, so which row differs does not matter
    for other in itertools.product((0, 1), range(bins)):
        if other != (label, score) and (unit == "row" or other[1] == score):
            yield (other, *pool[1:])


@pytest.mark.parametrize("unit", UNITS)
def test_of_all_small_pools_no_row_changes_more_than_is_stated_and_some_row_does(unit: str) -> None:
    for size in (2, 3, 4):
        same, other = [0], [0]
        for pool in itertools.product(itertools.product((0, 1), range(3)), repeat=size):
            d, t, p = by_rows(pool)
            for neighbour in neighbours(pool, unit, 3):
                d_after, t_after, p_after = by_rows(neighbour)
                assert abs(p - p_after) <= 1
                (same if p == p_after else other).append(abs(d - d_after) + abs(t - t_after))
        assert max(same) == (2 * (size - 1) if unit == "row" else 0)
        assert max(other) == size - 1


def steps_apart(change: int, grain: int) -> int:
    """Return by how many multiples of the grain X + U differs at most, given its remainder: over all U."""
    pairs = itertools.product(range(grain), range(grain))
    return max(abs(u - change - v) // grain for u, v in pairs if (u - change - v) % grain == 0)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("models", [slow(1), 3])
@pytest.mark.parametrize("size", [2, 3, 12, slow(5), slow(40), slow(90)])
@pytest.mark.parametrize("epsilon", [0.1, slow(1.0), 4.0])
def test_what_is_released_is_as_private_as_stated_and_hardly_more(
    unit: str, models: int, size: int, epsilon: float
) -> None:
    """All that a row can do to D, T and P, and all that noise hides of it: by steps of each released number."""
    privacy, most = budget((size - 1, 1), unit, epsilon=epsilon, models=models), size - 1
    changes = [(d, most - abs(d), 1) for d in range(-most, most + 1)]
    if unit == "row":
        changes += [(d, 2 * most - abs(d), 0) for d in range(-2 * most, 2 * most + 1)]

    def moved(channel: Channel, d: int, t: int, p: int) -> int:
        return (0 if channel.model is None else t if channel.ties else d) + channel.weight * p

    worst = max(
        sum(Fraction(steps_apart(moved(each, sign * d, t, p), each.grain)) / each.scale for each in privacy.channels)
        for (d, t, p), sign in itertools.product(changes, (1, -1))
    )
    assert worst <= Fraction(epsilon)
    assert worst >= Fraction(epsilon) * Fraction(9, 10)


def test_shares_of_the_noise_add_up_to_what_is_promised() -> None:
    """n parties' shares, less the mean of their uniform parts, have the variance stated; K of them more."""
    for unit in UNITS:
        privacy = budget((300,) * 5, unit, models=2, shares=4)
        drawn = np.array([privacy.noise(5).sum(axis=0) for _ in range(1000)], float)
        for channel, column in zip(privacy.channels, drawn.T, strict=True):
            noise = column - 5 * (channel.grain - 1) / 2
            variance = privacy.variance(channel, 5)
            assert abs(float((noise**2).mean()) - variance) < 8 * variance * math.sqrt(6 / len(noise))
            assert abs(float(noise.mean())) < 8 * math.sqrt(variance / len(noise))


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("parties", "shares"), [(2, 1), (10, 9), (40, 20), (5, 1)])
def test_noise_hardly_ever_exceeds_the_room_for_it(unit: str, parties: int, shares: int) -> None:
    privacy = budget((100,) * parties, unit, epsilon=0.5, shares=shares)
    room = (privacy.least_modulus - 1) // 2
    for model, weight, grain, scale, *_ in privacy.channels:
        exact = (0 if model is None else privacy.total**2 // 4) + abs(weight) * privacy.total
        steps = (room - exact - parties * grain) // grain
        assert stats.nbinom.sf(steps, parties / shares, -math.expm1(-1 / float(scale))) < 2.0**-43


def pool_of(rows: int, parties: int, seed: int, *, rate: float = 0.3) -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(rows) < rate).astype(int)
    scores = np.round(1 / (1 + np.exp(-rng.normal(size=rows) - labels)), 2)
    return {f"site {k}": (labels[k::parties], scores[k::parties]) for k in range(parties)}


def definition(pool: dict[str, tuple[Any, Any]]) -> tuple[int, int, int]:
    """Return D, T and P of the pool, by pairs of rows."""
    rows = [row for labels, scores in pool.values() for row in zip(labels.tolist(), scores.tolist(), strict=True)]
    return by_rows(tuple((label, round(100 * score)) for label, score in rows))


def request(**others: Any) -> Request:
    asked: dict[str, Any] = {"keys": "helper", "row_caps": 5, "options": {"epsilon": 1.0}, **others}
    return Request(parties=("a", "b", "c"), thresholds=np.linspace(0, 1, 11), **asked)


def private(least: int = 4) -> Play:
    """A session in which all prove that they have their rows."""
    caps = {data.name: data.rows for data in Play().sites}
    return Play(least=least, row_caps=caps, options={"epsilon": 1.0})


def known_noise(monkeypatch: pytest.MonkeyPatch, *noise: int) -> None:
    monkeypatch.setattr(Privacy, "noise", lambda self: np.array([noise], np.int64))


@pytest.mark.parametrize("unit", UNITS)
def test_a_session_releases_the_definition_plus_the_shares_of_all(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known_noise(monkeypatch, *((1000, 500, -7) if unit == "row" else (900, 100, 500)))
    pool = pool_of(300, 4, 1)
    grid = np.arange(101) / 100 - 0.005
    found = federated_auc(pool, protocol="verified", epsilon=1.0, epsilon_unit=unit, thresholds=grid)
    (d, t, p), privacy = definition(pool), budget((75,) * 4, unit)
    # Of labels alone the numbers are D ± weight·P.
    noise = (4000, -28) if unit == "row" else (2000, 1600 / privacy.channels[0].weight)
    noisy_d, noisy_p = d + noise[0] - 4 * (privacy.grain - 1) / 2, p + noise[1]
    assert found.auc == pytest.approx(0.5 + noisy_d / (2 * noisy_p * (300 - noisy_p)), abs=1e-12)
    assert found.settings["noisy_positives"] == round(noisy_p, 1)
    noisy_t = t + 2000 - 4 * (privacy.grain - 1) / 2
    assert found.settings["noisy_binning_error"] == pytest.approx(noisy_t / (2 * noisy_p * (300 - noisy_p)))
    rounded = federated_auc(pool, protocol="verified", epsilon=1.0, epsilon_unit=unit, round_scores=2)
    assert rounded.auc == pytest.approx(found.auc, abs=1e-12)
    assert "noisy_binning_error" not in rounded.settings  # ties of rounded scores are meant
    assert found.verified


def test_nothing_but_the_noisy_numbers_is_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools that differ in everything, with the same D', T' and P', give the same result but for times."""
    results = []
    for seed in (2, 3):
        pool = pool_of(60, 2, seed, rate=0.2 * seed)
        d, t, p = definition(pool)
        shares = iter([np.array([[2000 - d, 900 - t, 25 - p]]), np.zeros((1, 3), np.int64)])
        monkeypatch.setattr(Privacy, "noise", lambda self, shares=shares: next(shares))
        grid = np.arange(101) / 100 - 0.005
        found = federated_auc(pool, protocol="verified", epsilon=1.0, thresholds=grid)
        results.append({name: str(value) for name, value in found.as_dict().items() if name != "seconds"})
    assert results[0] == results[1]
    assert results[0]["positives"] == results[0]["fraction"] == "None"


def test_the_plan_releases_three_sums_and_says_what_of() -> None:
    plan: Any = load("verified").plan(request(row_caps={"a": 4, "b": 5, "c": 6}))
    assert [each.name for each in plan.release.sums] == ["D", "T", "P"]
    assert plan.max_rows == 15
    labels: Any = load("verified").plan(request(options={"epsilon": 1.0, "epsilon_unit": "label"}))
    assert [each.name for each in labels.release.sums] == ["D + 14 P", "D - 14 P", "T"]
    told = {row.name: row.value for row in plan.terms().rows}
    assert told.items() >= {"epsilon": "1 a row", "rows, in public": "15", "released": "D, T, P"}.items()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({"keys": "sealed"}, "epsilon holds .* take a helper"),
        *(({"row_caps": caps}, "a row cap of each site .* no proofs = false") for caps in (None, {"a": 5, "b": 5})),
        ({"options": {"epsilon_unit": "row"}}, "epsilon_unit goes with epsilon alone"),
        ({"options": {"epsilon": 1.0, "epsilon_unit": "party"}}, "must be row or label, got 'party'"),
        ({"options": {"epsilon": 0.0}}, "between 0.000001 and 32"),
        ({"options": {"epsilon": 1e-6}}, "too small: the AUC would be noise alone"),
        ({"options": {"epsilon": 1.0, "colluders": 2}}, "of 3 parties that must take part, 2 cannot collude"),
        ({"options": {"epsilon": 1.0, "colluders": -1}}, "a whole number from 0"),
        ({"analysis": Analysis(by=(Variable("sex", ("F", "M")),))}, "Leave --by"),
        ({"analysis": Analysis(heterogeneity=True)}, "Leave --by"),
        ({"analysis": Analysis(cluster="id")}, "and --cluster out"),
    ],
)
def test_what_does_not_go_with_a_budget_is_refused(others: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load("verified").plan(request(**others))


def test_thresholds_from_the_rows_and_protocols_whose_aggregator_could_take_the_noise_off_are_refused() -> None:
    with pytest.raises(InputError, match="thresholds must not come from the rows"):
        federated_auc(pool_of(60, 3, 5), thresholds="quantile:10", protocol="verified", epsilon=1.0)
    for protocol in ("exact", "semi-honest", "malicious"):
        with pytest.raises(InputError, match=f"'{protocol}' has no option 'epsilon': it adds no noise"):
            check_names(load(protocol).options, protocol, {"epsilon": 1.0})


def test_a_party_with_other_rows_than_the_manifest_says_is_refused_by_itself() -> None:
    play = private()
    with pytest.raises(InputError, match=r"has [0-9]+ rows, and the session says [0-9]+, in public") as caught:
        play.party(PartyData.from_arrays("site 3", [True], [0.5]))
    assert caught.value.party == "site 3"


def test_a_manifest_of_other_software_whose_parties_do_not_prove_the_rows_that_it_states_is_refused() -> None:
    """Noise is sized for these rows: one site that lies about its own would read bins exactly at any epsilon."""
    plugin: Any = load("verified")
    for changes in ({"caps": ()}, {"caps": (5, 5, 6)}, {"caps": (), "helpers": 0}):
        manifest = plugin.prepare(request()).manifest
        plan = msgspec.to_builtins(manifest.decoded_plan(ExactPlan)) | changes
        content = EncodedPlan("exact sums", encode(plan))
        keys = "helper" if plan["helpers"] else "sealed"
        context = manifest.context if plan["helpers"] else bytes(32)
        with pytest.raises(InputError, match="takes verified, and a helper, to whom all prove the rows"):
            plugin.plan_of(msgspec.structs.replace(manifest, plan=content, keys=keys, context=context))


@pytest.mark.parametrize(("unit", "most"), [("row", 47_452_861), ("label", 21_221_620)])
def test_as_many_rows_are_proved_as_one_prime_holds_and_beyond_that_the_number_is_named(unit: str, most: int) -> None:
    def plan(rows: int) -> Any:
        caps = {"a": rows - 4, "b": 2, "c": 2}
        return load("verified").plan(request(row_caps=caps, options={"epsilon": 1.0, "epsilon_unit": unit}))

    assert plan(most).max_rows == most
    for rows in (most + 1, 3 * 10**7 + most):
        with pytest.raises(CapacityError, match=rf"\({most:,} would do\): lower the row caps") as caught:
            plan(rows)
        assert "prove nothing" not in str(caught.value)
        assert ("--epsilon-unit row" in str(caught.value)) is (unit == "label")


# A result beyond what rows and noise can give.


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(("parties", "shares"), [(2, 1), (10, 9), (40, 20), (10, 1)])
@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_honest_noise_passes_what_is_possible_in_fewer_than_one_session_in_2_to_the_20(
    unit: str, parties: int, shares: int, epsilon: float
) -> None:
    """Computed from the law of the shares, and not wider than by half; and some that are drawn."""
    privacy, tail = budget((100,) * parties, unit, epsilon=epsilon, shares=shares, models=2), 0.0
    for channel in privacy.channels:
        law = stats.nbinom(parties / shares, -math.expm1(-1 / float(channel.scale)))
        tail += 2 * law.sf(privacy.reach(channel, parties) - 1)  # |Z| = |A - B| is at most the larger of both
        assert privacy.reach(channel, parties) <= 2 + 1.5 * law.isf(2.0**-20 / 2 / len(privacy.channels))
    assert 0 < tail < 2.0**-20
    for ends in zip(*(possible(each, 100 * parties) for each in privacy.channels), strict=True):
        for noise in privacy.noise(20 * parties).reshape(20, parties, -1).sum(axis=1):
            privacy.check_released((np.array(ends) + noise).tolist(), parties, privacy.total)


def test_the_possible_range_is_that_of_all_pools() -> None:
    for rows, weight in itertools.product((2, 5, 6), (0, 3, 5, 8, -5, -8)):
        found = {s * p * (rows - p) + weight * p for p in range(rows + 1) for s in (-1, 1)}
        assert possible(Channel(0, weight, 1, Fraction(1)), rows) == (min(found), max(found))
    assert possible(Channel(None, 1, 1, Fraction(1)), 6) == (0, 6)
    assert possible(Channel(0, 0, 1, Fraction(1), ties=True), 6) == (0, 9)


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_what_a_party_makes_up_unproved_ends_in_an_incident(channel: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of a party is its own affair: here it stands for 2^20 rows that it does not have."""
    play = private()
    lie, honest = 2**20 * np.eye(3, dtype=np.int64)[None, channel], Privacy.noise
    shares = iter([lie, *[None] * 3])
    monkeypatch.setattr(Privacy, "noise", lambda self: honest(self) if (own := next(shares)) is None else own)
    play.play()
    with pytest.raises(VerificationError, match="no number is given") as caught:
        play.parties[1].result()
    assert caught.value.check == "range"


def test_in_one_process_an_epsilon_alone_takes_a_helper_and_proofs() -> None:
    pool = pool_of(60, 3, 5)
    found = federated_auc(pool, protocol="verified", epsilon=8.0, thresholds="uniform:11")
    assert (found.keys, found.inputs_proved) == ("helper", "row caps, not the noise")
    with pytest.raises(InputError, match="take a helper"):
        federated_auc(pool, protocol="verified", epsilon=8.0, thresholds="uniform:11", keys="sealed")
    with pytest.raises(InputError, match="has 20 rows, and the session says 21, in public"):
        federated_auc(pool, protocol="verified", epsilon=8.0, thresholds="uniform:11", row_caps=21)


def with_a_liar(play: Play) -> str:
    """Let the last site count 2^20 positives more in a bin than it has rows; return its name."""

    def more(counts: Residues, view: View) -> Residues:
        found = counts.copy()
        found[0, 0, 1, 8] = add(found[0, 0, 1, 8:9], residues([2**20], view.prime), view.prime)[0]
        return found

    data = play.sites[-1]
    lie = Lie("count 2^20 positives more", more)
    play.parties[-1] = lying_party(play.manifest, play.material[data.name], data, lie, 1)
    return data.name


def test_a_site_that_makes_up_rows_to_read_bins_is_left_out_by_name_and_the_others_have_their_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """2^20 positives in a bin would show how many rows lie on either side of it, whatever the noise is."""
    play = private(3)
    known_noise(monkeypatch, 0, 0, 0)
    liar = with_a_liar(play)
    play.play()
    found = [party.result() for party in play.parties[:-1]]
    assert {each.unproved_parties for each in found} == {(liar,)}
    auc, *_ = pairs_of(play.counted(SITES - 1))
    noise = -3 * (play.plan.privacy.grain - 1) / 2
    pairs = math.prod(pairs_of(play.counted(SITES - 1))[2:])
    assert found[0].auc == pytest.approx(float(auc) + noise / (2 * pairs), abs=1e-9)


def test_a_helper_that_passes_a_site_s_false_proof_reads_with_it_what_epsilon_was_to_bound() -> None:
    """The helper decides which proofs hold. Others are shown nothing, as the number is beyond what is possible."""
    play, read = private(), []
    with_a_liar(play)
    play.helper._side._computation.proofs.held = lambda *_: np.ones(1, np.bool_)
    task = play.parties[-1]._side._task
    monitored = task.read_result
    task.read_result = lambda decrypted, *others: (read.append(decrypted), monitored(decrypted, *others))[1]
    play.play()
    (prime,) = play.plan.parameters.plain_moduli
    (difference, *_) = modular.centred([released(play.plan.release, each) for each in read[0]], [prime])
    negatives = sum(np.histogram(data.y_score[~data.y_true], [*GRID, np.inf])[0] for data in play.sites)
    assert round(difference / 2**20) == negatives[:8].sum() - negatives[9:].sum() != 0
    for party in play.parties:
        with pytest.raises(VerificationError):
            party.result()


def test_a_manifest_whose_options_state_another_budget_than_its_plan_is_refused() -> None:
    plugin: Any = load("verified")
    manifest = plugin.prepare(request()).manifest
    plugin.plan_of(manifest)
    for options in ({}, {**manifest.options, "epsilon": 0.5}, {**manifest.options, "colluders": 1}):
        with pytest.raises(InputError, match="other privacy budgets"):
            plugin.plan_of(msgspec.structs.replace(manifest, options=options))


def read(epsilon: float, ties: int, unit: str = "row", rows: int = 500, **others: Any) -> PrivateReading:
    """Of two sites with so many rows each, half of them positive, with an AUC of 0.9 and noise that is 0."""
    privacy = budget((rows, rows), unit, epsilon=epsilon)
    values = [
        [(8 * rows**2 // 10, ties)[each.ties], 0][each.model is None] + each.weight * rows for each in privacy.channels
    ]
    if unit == "row":
        values[-1] = rows
    released = [value + each.grain - 1 for value, each in zip(values, privacy.channels, strict=True)]
    return PrivateReading(privacy, ("model",), released, 2, 2 * rows, 0.95, **others)


def test_of_several_models_the_first_is_the_evaluations() -> None:
    privacy = budget((50, 50), models=2)
    released = [400 - 100 * at for at, _ in enumerate(privacy.channels)]
    said = PrivateReading(privacy, ("a", "b"), released, 2, 100, None).said()
    assert said.headline == said.estimates[0]
    assert [each.model for each in said.estimates] == ["a", "b"]


def test_the_interval_widens_by_the_noise_and_its_method_says_so() -> None:
    reading, exact = read(0.2, 0), read(32.0, 0)
    wide, narrow = (each.estimates()[0].interval for each in (reading, exact))
    assert wide.method == narrow.method == "Hanley and McNeil, with noise"
    assert wide.high - wide.low > 1.3 * (narrow.high - narrow.low)
    assert any("the noise alone makes a standard error" in each for each in reading.warnings())
    assert all(VERDICT in each.warnings() for each in (reading, exact))
    assert not any("the noise alone" in each for each in exact.warnings())


@pytest.mark.parametrize("unit", UNITS)
def test_the_interval_widens_by_what_bins_leave_open_and_the_first_warning_says_so(unit: str) -> None:
    fine, coarse = (read(32.0, ties, unit) for ties in (0, 50_000))
    plain, wide = (each.estimates()[0].interval for each in (fine, coarse))
    assert (wide.low, wide.high) == pytest.approx((plain.low - 0.1, min(plain.high + 0.1, 1)))
    assert coarse.warnings()[0].startswith(
        "many pairs of rows share a bin, in which scores are not ranked: about 0.1 of the"
    )
    assert not any("share a bin" in each for each in fine.warnings())
    assert coarse.settings()["noisy_binning_error"] == pytest.approx(0.1)
    meant = read(32.0, 50_000, unit, ties_meant=True)
    assert (meant.estimates()[0].interval, meant.warnings()) == (plain, fine.warnings())
    # The AUC cannot leave [0, 1]: whatever T' is, 0.1 is all that D leaves of it.
    assert read(32.0, 500_000, unit).settings()["noisy_binning_error"] == pytest.approx(0.1)
    assert read(32.0, -500_000, unit).settings()["noisy_binning_error"] == 0


def test_where_the_noise_hides_how_much_bins_leave_open_a_warning_says_up_to_what() -> None:
    assert "the noise hides how many: up to" in read(0.5, 0, "label", 200).warnings()[0]
    assert not any("share a bin" in each for each in read(8.0, 0, "label", 5000).warnings())
