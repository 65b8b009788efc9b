"""Parameters of exact sessions: the fewest primes that tell all sums apart; a plan that is weaker is refused."""

import math
from typing import Any

import msgspec
import pytest

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.question.analysis import Analysis
from fhe_auc.rlwe.modular import is_prime, primes_above
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.exact_auc.plan import ExactPlan
from fhe_auc_protocols.exact_auc.protocol import plan_exact
from tests.support.exact_sessions import GRID, Play, rows

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
def test_primes_take_as_few_bits_as_the_rows_allow(
    backend: str, max_rows: int, moduli: tuple[int, ...], kept: int
) -> None:
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


@pytest.mark.parametrize("helpers", [2, -1])
def test_a_plan_has_one_helper_or_none(helpers: int) -> None:
    with pytest.raises(CapacityError, match=f"a session has one helper, or none; got {helpers}"):
        plan_exact(**SMALL, helpers=helpers)


@pytest.mark.parametrize("parties", [1, 2, 1000, 100_000])
def test_any_number_of_parties_has_the_same_plan(parties: int) -> None:
    """Their sketches are added up in the clear: there is no noise that could grow."""
    few, many = (plan_exact(**{**SMALL, "parties": number}) for number in (1, parties))
    assert msgspec.structs.replace(many, parties=1) == few
    assert many.flooding_margin == few.flooding_margin


@pytest.mark.parametrize("bins", [2, 100, 1000, 4000])
def test_uploads_are_residues_side_by_side(bins: int) -> None:
    """Positives and negatives of each bin; with authenticators their tags, and two blinders for each product."""
    for max_rows, bits in ((10**6, [42]), (10**7, [46]), (10**9, [42, 42])):
        for authenticated, entries in ((False, 2 * bins), (True, 4 * bins + 4)):
            plan = plan_exact(**{**SMALL, "thresholds": bins}, max_rows=max_rows, authenticated=authenticated)
            assert plan.computed.sketch.size == entries
            assert plan.submission_bytes == sum(math.ceil(entries * each / 8) for each in bits)


def test_sizes_are_those_that_were_promised() -> None:
    verified, exact = (plan_exact(**SMALL, authenticated=each) for each in (True, False))
    interval = plan_exact(**SMALL, interval=True)  # of up to 10^6 rows
    assert (interval.submission_bytes, interval.result_bytes) == (42_106, 229_376)
    assert verified.submission_bytes == 21_021
    assert exact.submission_bytes == 10_500
    assert verified.result_bytes == exact.result_bytes == 2 * 8192 * 7


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"parties": 0}, "parties must be at least 1"),
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
