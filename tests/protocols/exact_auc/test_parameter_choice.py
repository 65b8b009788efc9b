"""Parameters of exact sessions: the fewest primes that tell all sums apart; a plan that is weaker is refused."""

import dataclasses
import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc import federated_auc
from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.quantities import chance_text
from fhe_auc.question.analysis import PLAIN, Analysis, Variable
from fhe_auc.results import estimates, evaluation, heterogeneity, intervals
from fhe_auc.results.evaluation import Evaluation, QuantileThresholds
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import is_prime, primes_above, primes_below
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.exact_protocols import plan_exact
from fhe_auc_protocols.exact_auc.proved_counts import ProvedCounts
from fhe_auc_protocols.exact_auc.tie_sums import TieSums
from tests.support.exact_sessions import GRID, Play, rows
from tests.support.proved_counts import holds

SMALL: dict[str, Any] = {"thresholds": 1000, "parties": 20, "backend": "openfhe"}
FIRST, SECOND, THIRD = primes_above(2**41, 3, 8192)


def last_prime(bits: int) -> int:
    """The largest prime of so many bits that is 1 modulo twice the ring dimension."""
    return next(number for number in range(2**bits - 16383, 0, -16384) if is_prime(number))


LAST_SMALL, LAST_LARGE = last_prime(42), last_prime(50)


def next_prime(number: int) -> int:
    """The smallest such prime above a number."""
    return primes_above(number, 1, 8192)[0]


def most_rows(modulus: int) -> int:
    """So many rows have no sum, ⌊n²/4⌋ at most in absolute value, beyond half of the modulus."""
    return max(n for n in range(math.isqrt(2 * modulus) - 4, math.isqrt(2 * modulus) + 4) if 2 * (n * n // 4) < modulus)


@pytest.mark.parametrize("backend", ["openfhe", "tenseal"])
@pytest.mark.parametrize(
    ("max_rows", "moduli", "kept"),
    [
        (2, (FIRST,), 1),
        (most_rows(FIRST), (FIRST,), 1),
        *((rows, (next_prime(rows**2 // 4 * 2),), 1) for rows in (most_rows(FIRST) + 1, most_rows(LAST_SMALL))),
        *((rows, (next_prime(rows**2 // 4 * 2),), 2) for rows in (most_rows(LAST_SMALL) + 1, most_rows(LAST_LARGE))),
        (most_rows(LAST_LARGE) + 1, (FIRST, SECOND), 1),
        (most_rows(FIRST * SECOND), (FIRST, SECOND), 1),
        (most_rows(FIRST * SECOND) + 1, (FIRST, SECOND, THIRD), 1),
    ],
)
def test_primes_take_as_few_bits_as_rows_allow(backend: str, max_rows: int, moduli: tuple[int, ...], kept: int) -> None:
    plan = plan_exact(**{**SMALL, "backend": backend}, max_rows=max_rows)
    assert plan.parameters.plain_moduli == moduli
    assert plan.kept == kept
    assert plan.flooding_margin >= plan.flooding_bits == 40
    assert plan.soundness == 2 / (moduli[0] - 1) < 2**-40


CUBIC, NEXT_CUBIC = primes_above(3 * 2**40, 2, 8192)


@pytest.mark.parametrize(
    ("models", "max_rows", "moduli"),
    [
        (1, 2, (CUBIC,)),
        (1, 28_132, (CUBIC,)),  # 4·28,132³/27 < CUBIC < 4·28,133³/27
        (1, 30_963, (next_prime(4 * 30_963**3 // 27),)),  # of 42 bits
        (1, 30_964, (next_prime(4 * 30_964**3 // 27),)),  # of 43
        (1, 196_607, (next_prime(4 * 196_607**3 // 27),)),  # of 50 bits
        (1, 196_608, (CUBIC, NEXT_CUBIC)),
        (1, 10**8, (CUBIC, NEXT_CUBIC)),
        # Their comparison has sums of either sign, times 16².
        (2, 6_143, (next_prime(2 * 16**2 * (4 * 6_143**3 // 27)),)),  # of 44 bits
        (2, 24_575, (next_prime(2 * 16**2 * (4 * 24_575**3 // 27)),)),  # of 50 bits
        (2, 24_576, (CUBIC, NEXT_CUBIC)),
    ],
)
def test_an_interval_takes_primes_for_the_cube_of_the_rows(models: int, max_rows: int, moduli: tuple[int, ...]) -> None:
    analysis = Analysis(models=("a", "b")[:models])
    plan = plan_exact(**SMALL, max_rows=max_rows, interval=True, analysis=analysis)
    assert plan.parameters.plain_moduli == moduli
    assert plan.soundness == 3 / (moduli[0] - 1) < 2**-40
    assert plan.flooding_margin >= 40
    assert math.prod(moduli) > (1, 2 * 16**2)[models - 1] * 4 * max_rows**3 / 27


def test_where_the_shortest_modulus_leaves_too_little_flooding_the_next_one_is_taken() -> None:
    short, long = (plan_exact(**SMALL, flooding_bits=bits) for bits in (40, 50))
    assert short.flooding_margin < 50 <= long.flooding_margin
    moduli = [plan.parameters.modulus_bits for plan in (short, long)]
    assert (moduli, short.kept, long.kept) == ([(53, 50, 50), (54, 54, 54)], 1, 1)
    assert short.parameters.plain_moduli == long.parameters.plain_moduli


@pytest.mark.parametrize("bins", [2, 100, 1000, 4000])
def test_uploads_are_residues_side_by_side(bins: int) -> None:
    """Positives and negatives of each bin; with authenticators their tags, and two blinders for each product."""
    for max_rows, bits in ((10**6, [42]), (10**7, [46]), (10**9, [42, 42])):
        for authenticated, entries in ((False, 2 * bins), (True, 4 * bins + 4)):
            plan = plan_exact(**{**SMALL, "thresholds": bins}, max_rows=max_rows, authenticated=authenticated)
            assert {own.sketch.size for own in plan.computed} == {entries}
            assert plan.submission_bytes == sum(math.ceil(entries * each / 8) for each in bits)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"parties": 0}, "parties must be at least 1"),
        *(({"helpers": many}, f"a session has one helper, or none; got {many}") for many in (2, -1)),
        ({"max_rows": 1}, "max_rows must be at least 2"),
        ({"max_rows": 10**60}, "more than 8 primes"),
        ({"flooding_bits": 39}, "flooding_bits must lie between 40 and 80"),
        ({"flooding_bits": 81}, "flooding_bits must lie between 40 and 80"),
        ({"flooding_bits": 70}, "flooding hides it by"),
    ],
)
def test_what_does_not_fit_is_refused_in_plain_words(changes: dict[str, Any], shown: str) -> None:
    with pytest.raises(CapacityError, match=shown):
        plan_exact(**{**SMALL, **changes})


@pytest.mark.parametrize(
    ("moduli", "shown"),
    [((65537,), "prime below 2"), (primes_above(2**40, 2, 8192), "prime below 2"), ((FIRST,), "too few")],
)
def test_a_plan_with_primes_that_are_too_small_or_too_few_is_refused(moduli: tuple[int, ...], shown: str) -> None:
    plan = plan_exact(**SMALL, max_rows=most_rows(FIRST) + 1)
    with pytest.raises(CapacityError, match=shown):
        msgspec.structs.replace(plan, parameters=msgspec.structs.replace(plan.parameters, plain_moduli=moduli))


def test_a_result_keeps_primes_that_there_are() -> None:
    for kept in (-1, 0, 4):
        with pytest.raises(CapacityError, match=f"a result cannot keep {kept}"):
            msgspec.structs.replace(plan_exact(**SMALL), kept=kept)


def test_the_manifest_carries_an_exact_plan_and_refuses_a_spoilt_one() -> None:
    play = Play("verified", rows(2, 1))
    plan, manifest, data = play.plan, play.manifest, play.manifest.to_bytes()
    assert Manifest.from_bytes(data).decoded_plan(ExactPlan) == plan
    spoilt = data.replace(b"flooding_bits\x28", b"flooding_bits\x01")
    assert spoilt != data
    with pytest.raises(InputError, match="flooding_bits must lie between"):
        Manifest.from_bytes(spoilt).decoded_plan(ExactPlan)
    with pytest.raises(InputError, match="another number of thresholds"):
        msgspec.structs.replace(manifest, grid=GRID[1:].tobytes()).decoded_plan(ExactPlan)


(PRIME,) = primes_below(42, 1, 8192)
SEX, AGE, WARD = Variable("sex", ("F", "M")), Variable("age", ("0-39", "40-64", "65+")), Variable("ward", ("1", "2"))
ANALYSES = {
    "one model": PLAIN,
    "groups": Analysis(by=(SEX, AGE, WARD)),
    "models and groups": Analysis(models=("old", "new"), by=(AGE, SEX)),
    "classes": Analysis(models=("a", "b", "c"), classes=("a", "b", "c"), by=(SEX,)),
}
BINS, REST = 4, 7
analyses = pytest.mark.parametrize("analysis", ANALYSES.values(), ids=ANALYSES)


def counts_of_rows(analysis: Analysis, rows: int, seed: int) -> np.ndarray[Any, Any]:
    """Counts of rows at random, (models, groups, classes, bins), row by row."""
    random = np.random.default_rng(seed)
    found = np.zeros((len(analysis.models), len(analysis.groups), analysis.classes_of_rows, BINS), np.int64)
    for _ in range(rows):
        of_class = random.integers(analysis.classes_of_rows)
        levels = [(index, int(random.integers(len(each.levels)))) for index, each in enumerate(analysis.by)]
        groups = [at for at, each in enumerate(analysis.groups) if at == 0 or (each.variable, each.level) in levels]
        for model in range(len(analysis.models)):
            found[model, groups, of_class, random.integers(BINS)] += 1
    return found


def proved(analysis: Analysis, counts: np.ndarray[Any, Any], cap: int) -> ProvedCounts:
    ties = TieSums(analysis, (1, 1, 2), BINS, counts.size + 2, proved=True)
    signs = sum(length for _, length in ties.vectors)
    return ProvedCounts(analysis, BINS, cap, PRIME, counts.size + signs + REST, ties)


def sketch_of(counts: np.ndarray[Any, Any]) -> modular.Residues:
    """Two entries and others lie around rows by sign: for each model and draw, minus as many rows as go into half.

    All but the second of four bins are open, and so few that each has a bucket.
    """
    negative, positive = counts[:, 0, 0], counts[:, 0, 1]
    if counts.shape[0] == counts.shape[2] == 3:  # a model for each class
        positive = np.stack([counts[model, 0, model] for model in range(3)])
        negative = counts[:, 0].sum(axis=1) - positive
    labels = np.stack([negative, positive], axis=1)[..., [0, 2, 3]]
    signs = np.stack([[labels - labels // (2 + draw), labels // (2 + draw)] for draw in range(16)])
    entries = np.arange(REST), signs.transpose(2, 0, 1, 3, 4)
    return np.concatenate([counts.ravel(), entries[0][:2], entries[1].ravel(), entries[0][2:]]).astype(np.uint64)


@analyses
@pytest.mark.parametrize("rows", [0, 1, 30])
def test_the_sketch_comes_back_from_what_is_submitted_and_the_statement_holds(analysis: Analysis, rows: int) -> None:
    counts = counts_of_rows(analysis, rows, seed=rows)
    sketch = sketch_of(counts)
    for cap in (max(rows, 1), 10 * rows + 3):
        wanted = proved(analysis, counts, cap)
        submitted = wanted.submitted(sketch, cap)
        assert submitted.shape == (wanted.size,)
        assert wanted.sketch_of(submitted).tolist() == sketch.tolist()
        assert holds(wanted, submitted, cap)


@analyses
def test_counts_of_no_rows_do_not_hold_whichever_count_is_changed(analysis: Analysis) -> None:
    """A count that is moved, doubled or made up breaks an equation, unless it is another row's of the same party."""
    counts = counts_of_rows(analysis, 12, seed=3)
    wanted = proved(analysis, counts, 40)
    submitted = wanted.submitted(sketch_of(counts), 40)
    length = int(wanted.statement.lengths[0])
    for entry in range(wanted.statement.entries):
        changed = submitted.copy()
        changed[entry * length] = (changed[entry * length] + np.uint64(1)) % np.uint64(PRIME)
        assert not holds(wanted, changed, 40)


def test_a_group_against_another_and_a_model_with_other_rows_do_not_hold() -> None:
    analysis = ANALYSES["models and groups"]
    counts = counts_of_rows(analysis, 30, seed=4)
    wanted = proved(analysis, counts, 30)
    assert holds(wanted, wanted.submitted(sketch_of(counts), 30), 30)
    ages, sexes = slice(1, 4), slice(4, 6)
    for model, groups in itertools.product((0, 1), (ages, sexes)):
        (group, of_class, at), *_ = np.argwhere(counts[model, groups])
        moved = counts.copy()
        moved[model, groups][group, of_class, at] -= 1
        moved[model, groups][group, of_class, (at + 1) % BINS] += 1  # as many rows of this group and class
        assert not holds(wanted, wanted.submitted(sketch_of(moved), 30), 30)
    relabelled = counts.copy()  # the second model's rows have other labels than the first one's, in all groups alike
    relabelled[1] = relabelled[1][:, ::-1]
    assert not holds(wanted, wanted.submitted(sketch_of(relabelled), 30), 30)


def test_more_rows_than_the_cap_are_refused_before_anything_is_made_of_them() -> None:
    counts = counts_of_rows(PLAIN, 9, seed=5)
    with pytest.raises(InputError, match="1 rows more than the row cap, 8"):
        proved(PLAIN, counts, 8).submitted(sketch_of(counts), 8)


@given(most=st.integers(1, 10**6), bins=st.integers(2, 300))
def test_caps_of_any_size_are_proved_modulo_one_prime_and_forging_is_as_hard_as_said(most: int, bins: int) -> None:
    plan = plan_exact(thresholds=bins, parties=3, backend="tenseal", max_rows=3 * most, helpers=1, caps=(most, 1, most))
    (prime,) = plan.parameters.plain_moduli
    assert plan.proved is not None
    shape = plan.proved.statement.shape
    assert shape.base ** int(plan.proved.statement.lengths[0]) > most
    assert shape.error(prime) ** 3 <= 2.0**-100
    assert prime % 2**14 == 1


def test_no_plan_has_caps_that_cannot_be_proved_or_whose_rows_wrap_around() -> None:
    """A plan comes from whoever convenes, and is refused before anybody agrees to it."""
    plan = plan_exact(thresholds=8, parties=40, backend="tenseal", max_rows=4000, helpers=1, caps=(100,) * 40)
    assert plan.modulus > sum(plan.caps)
    assert {row.name: row.value for row in plan.terms().rows}["row caps"] == "proved, 100 at most"
    for cap, most, why in ((2**38, 2**38, "17 counts cannot be proved"), (101, 100, "a row cap, 101, is above")):
        with pytest.raises(CapacityError, match=why):
            msgspec.structs.replace(plan, caps=(1,) * 39 + (cap,), max_rows=most)


PROOFS = Path(__file__).parents[3] / "proofs"
KINDS = (
    *(Evaluation, QuantileThresholds, estimates.GroupEstimate, estimates.Comparison),
    *(heterogeneity.SiteSummary, intervals.Interval),
)


def test_the_proofs_page_says_of_every_field_of_a_result_which_theorem_covers_it_or_that_none_does() -> None:
    table = re.findall(r"^\| `(\w+)`: ([^|]+) \| ([^|]+) \|$", (PROOFS / "README.md").read_text("utf-8"), re.MULTILINE)
    told = [(kind, name, text) for kind, fields, text in table for name in re.findall(r"`(\w+)`", fields)]
    theorems = set(re.findall(r"^Print Assumptions (\w+)\.", (PROOFS / "Check.v").read_text("utf-8"), re.MULTILINE))
    for kind, name, text in told:
        proved = re.match("(from )?`", text) and theorems & set(re.findall(r"`(\w+)`", text))
        assert proved or text.startswith("not covered: "), (
            f"proofs/README.md, last table: `{name}` of `{kind}` has a theorem of Check.v, or why none covers it"
        )
    fields = {
        kind: [each.name for each in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
        for kind in KINDS
    }
    known = sorted((kind.__name__, name) for kind, names in fields.items() for name in names)
    assert sorted((kind, name) for kind, name, _ in told) == known, "proofs/README.md, last table: each field, once"
    renamed = {"n", "events", "minus", "variable", "confidence"}  # in tables and JSON: rows, the first model, a level …
    shown = {*evaluation._OF_AUCS, *evaluation._OF_DIFFERENCES}
    found = federated_auc(rows(5, 11), thresholds=GRID, max_rows=2000).as_dict()
    shown |= {*found, *(name for each in found["estimates"] for name in each)}
    assert shown - renamed <= {name for names in fields.values() for name in names}


SESSIONS = [(3, {}, 1), (3, {"keys": "helper"}, 3), (20, {"keys": "helper"}, 20), (20, {}, 1)]
"""Parties, the rest of the request, and how many of them, or groups, may be given results of their own."""


@pytest.mark.parametrize(("parties", "request_of", "tries"), SESSIONS)
def test_a_session_states_the_proved_chance_of_a_lie(parties: int, request_of: dict[str, Any], tries: int) -> None:
    sites = rows(parties, 5)
    play = Play("verified", sites, GRID, max_rows=10_000, backend="tenseal", **{"interval": 0.95, **request_of})
    degree = 3 if play.plan.interval else 2
    exact = Fraction(tries * degree, min(play.plan.parameters.plain_moduli) - 1)
    stated = play.plugin.soundness(play.manifest)
    assert stated == pytest.approx(float(exact), rel=1e-12)
    assert math.log2(exact) <= float(chance_text(stated).removeprefix("2^")) <= math.log2(exact) + 0.1
    assert play.plan.as_dict()["soundness"] == play.plan.soundness
    ((_, shown, _),) = (row for row in play.plan.describe() if row.name == "a lie passes")
    assert shown == f"< {chance_text(play.plan.soundness)}"
    if parties == 3 and play.helper is None:
        assert {found.soundness for found in play.read()} == {stated}


def test_not_every_session_is_below_2_to_the_minus_40_and_one_that_proves_nothing_states_no_chance() -> None:
    helped = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, keys="helper", backend="tenseal")
    sealed = Play("verified", rows(100, 5), GRID, max_rows=10_000, interval=0.95, backend="tenseal")
    assert [chance_text(each.plugin.soundness(each.manifest)) for each in (helped, sealed)] == ["2^-33.3", "2^-40"]
    play = Play("exact", rows(3, 5), GRID, backend="tenseal")
    assert "a lie passes" not in {row.name for row in play.plan.describe()}
    assert (play.plugin.soundness(play.manifest), play.read()[0].soundness) == (None, None)
