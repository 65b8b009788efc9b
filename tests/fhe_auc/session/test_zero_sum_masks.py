"""Masks vanish in the sum over all parties, exactly, and in nothing less than it."""

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc import ckks
from fhe_auc.base.serialise import decode
from fhe_auc.question import thresholds
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.ckks_computation import zero_sum_masks
from fhe_auc.session.manifest import Manifest
from tests.support.exact_sessions import Play, both_backends
from tests.support.malicious_sessions import sites
from tests.support.wire import payload_of

FALSE_ALARM = 1e-9
"""Probability with which a statistical test here would fail on other, equally good numbers."""

BLOCKS = 2
SHAPE = Polynomials(256, (1_000_003, 2**40 + 15, 2**55 - 55, 2**62 + 1))
"""Moduli just above and just below powers of two, where drawing without rejection would show."""


def total(masks: Sequence[Words], signs: Sequence[int] | None = None) -> list[list[int]]:
    """The sum in Python's integers, polynomial by polynomial."""
    weights = [1] * len(masks) if signs is None else signs
    return [
        [
            sum(weight * int(value) for weight, value in zip(weights, column, strict=True)) % modulus
            for column in zip(*(mask[row] for mask in masks), strict=True)
        ]
        for row, modulus in enumerate(SHAPE.moduli)
    ]


def looks_uniform(rows: Any) -> bool:
    """Kolmogorov-Smirnov modulo each prime, and of all modulo 251 once reduced; wrong with 2·FALSE_ALARM a row."""
    from scipy.stats import kstest, uniform

    fractions = [
        (np.array([int(value) for value in row], object) / modulus).astype(float)
        for row, modulus in zip(rows, SHAPE.moduli, strict=True)
    ]
    return all(kstest(row, uniform.cdf).pvalue > FALSE_ALARM for row in fractions)


@lru_cache(maxsize=64)
def masks_of(parties: int, *, session: bytes = bytes(16), secret: bytes = bytes(32)) -> list[list[Words]]:
    """All masks of a session, by party and block."""
    names = tuple(f"site {number}" for number in range(parties))
    grid = thresholds.uniform(100).tobytes()
    manifest = Manifest(protocol="malicious", session=session, parties=names, grid=grid, min_parties=parties)
    return [zero_sum_masks(SHAPE, manifest, name, secret, blocks=BLOCKS) for name in names]


@pytest.mark.parametrize("parties", [1, 2, 3, 7])
def test_over_all_parties_they_add_up_to_zero_exactly(parties):
    for block in zip(*masks_of(parties), strict=True):
        assert not any(map(any, total(block)))


@pytest.mark.parametrize("parties", [2, 3, 7])
def test_each_is_uniform_modulo_each_prime_and_below_it(parties):
    for mask in itertools.chain(*masks_of(parties)):
        assert all(int(row.max()) < modulus for row, modulus in zip(mask, SHAPE.moduli, strict=True))
        assert looks_uniform(mask)


@given(st.integers(2, 6).flatmap(lambda n: st.lists(st.integers(-2, 2), min_size=n, max_size=n)))
def test_they_vanish_only_when_all_are_counted_equally_often(times):
    """Counted twice, left out, or subtracted: any other combination is uniform."""
    found = masks_of(len(times))
    for block in zip(*found, strict=True):
        summed = total(block, times)
        # Twice a uniform number is uniform too: all moduli here are odd.
        assert looks_uniform(summed) if len(set(times)) > 1 else not any(map(any, summed))


def test_blocks_have_masks_of_their_own():
    for party in masks_of(3):
        for one, other in itertools.combinations(party, 2):
            assert looks_uniform(total([one, other], [1, -1]))
    found = masks_of(3)  # nor does one of one party in the place of another's vanish
    assert looks_uniform(total([found[0][0], found[0][0], found[2][0]]))
    assert looks_uniform(total([found[0][1], found[1][0], found[2][0]]))


@pytest.mark.parametrize("changes", [{"session": b"\1" * 16}, {"secret": b"\1" * 32}], ids=["session", "secret"])
def test_masks_of_another_session_do_not_vanish_with_ours(changes):
    ours, theirs = masks_of(3), masks_of(3, **changes)
    assert looks_uniform(total([ours[0][0], ours[1][0], theirs[2][0]]))
    assert looks_uniform(total([ours[0][0], theirs[0][0]], [1, -1]))


@both_backends
def test_without_one_submission_nothing_can_be_decrypted(backend):
    """Real ciphertexts: one party's alone, or all but one, decrypt to noise as large as the modulus."""
    play = Play("malicious", sites(3), backend=backend)
    answers = play.answers(play.aggregator.start()).values()
    payloads = [decode(payload_of(each), tuple[bytes, ...], "") for each in answers]
    public, secret = ckks.load_public(play.session.aggregator_material), ckks.load_secret(play.session.common.context)

    def sums(counted: Sequence[tuple[bytes, ...]]) -> Any:
        """What a result of these submissions decrypts to."""
        shape = public.ciphertext_shape
        totals = [shape.zeros() for _ in range(play.plan.blocks)]
        for submission in counted:
            for total, block in zip(totals, submission, strict=True):
                shape.add_in_place(total, public.read_submission(block))
        result = public.dump_sums([public.sum_of_squares([total]) for total in totals], 1, 60)
        return np.abs(secret.decrypt_sums(result, play.plan.squares))

    whole = sums(payloads).max()
    assert whole < 1000 * 400**2  # den, times twice what masks amplify it by
    for counted in (payloads[:1], payloads[:2], payloads[1:], [*payloads, payloads[0]]):
        assert sums(counted).min() > 1e6 * whole
