"""Three leaks that the circuit closes, each shown as an attack by a party that may decrypt the result.

Every attack succeeds when its counter-measure is left out inside the test, and fails when it is there. The attacker has
the ciphertext as it is before a modulus is dropped, and knows what each party sent.
"""

import math
import secrets
from collections.abc import Sequence

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.ckks import context
from fhe_auc.ckks.encoding import sum_positions
from fhe_auc.rlwe.ciphertexts import ternary
from fhe_auc.rlwe.polynomials import Words, coefficients_of, values_of
from fhe_auc.rows.counts import Counts
from fhe_auc.session.ckks_computation import running_sum
from fhe_auc_protocols.blinded_auc.blinding import BLINDING_BITS, FLOODED_BITS
from tests.support.blinded_auc import Algebra, counts_of, largest_multiplier, smallest_multiplier
from tests.support.polynomials import signed

BINS = 100
BACKENDS = ckks.available_backends()
EMPTY = counts_of(np.zeros(BINS), np.zeros(BINS))

pytestmark = pytest.mark.backends("one")  # what leaks is in the algebra of both


class Attacked(Algebra):
    """A session of one party, and what its aggregator sends before a modulus is dropped."""

    def __init__(self, backend: str) -> None:
        super().__init__(backend, thresholds=BINS, parties=1)
        self.half = self.keys.secret.mask_shape
        self.positions = sum_positions(self.half.ring_dimension, 4)
        self.multiplier = (1 << BLINDING_BITS - 1) + secrets.randbelow(1 << BLINDING_BITS - 1)

    def summed(self, counts: Counts) -> list[Words]:
        """What the aggregator has once the party has submitted."""
        total = running_sum(self.keys.public, 1)
        total.add(self.submission(counts))
        return total.totals

    def sent(self, total: Sequence[Words], *, flooding: int = FLOODED_BITS, every: bool = False) -> list[Words]:
        """c₀', at all coefficients or those that are sent, c₁' and c₂'."""
        product = np.split(self.keys.public.sum_of_squares(total), 3)
        positions = range(self.half.ring_dimension) if every else self.positions
        key = self.keys.public._public_key
        kept = len(self.half.moduli)
        return context.released(self.half, key, product, self.multiplier, flooding, positions=positions, kept=kept)

    def decrypted(self, parts: Sequence[Words]) -> list[int]:
        """The coefficients of c₀' + c₁'s + c₂'s², around zero: exact integers. What was not sent is taken for zero."""
        half, secret = self.half, self.keys.secret.secret_words
        phase = half.multiply(values_of(half, parts[2]), secret)
        half.add_in_place(phase, values_of(half, parts[1]))
        phase = coefficients_of(half, half.multiply(phase, secret))
        c0 = half.zeros()
        c0[:, self.positions if parts[0].shape[1] == len(self.positions) else slice(None)] = parts[0]
        half.add_in_place(phase, c0)
        return signed(half, phase)


@pytest.fixture(scope="module", params=BACKENDS)
def attacked(request: pytest.FixtureRequest) -> Attacked:
    return Attacked(request.param)


def random_counts(seed: int, positives: int, negatives: int) -> Counts:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(BINS))
    return counts_of(rng.multinomial(positives, shares[::-1]), rng.multinomial(negatives, shares))


class TestPartialSums:
    """Whole polynomials show the square slot by slot: every bin's product. Only four coefficients are sent."""

    def attack(self, coefficients: list[int], attacked: Attacked) -> np.ndarray:
        """Return the share of every bin in num: slots of component 1, from its coefficients."""
        of_component = np.array([float(each) for each in coefficients[1::4]])
        slots = attacked.plan.parameters.slots
        twisted = of_component * np.exp(0.5j * np.pi / slots * np.arange(2 * slots))
        products = np.fft.ifft(twisted[:slots] + twisted[slots:]).real[:BINS]
        return products / np.abs(products).max()

    def test_every_bins_product_is_read_off_whole_polynomials_and_not_off_what_is_sent(self, attacked):
        counts = random_counts(1, 4000, 6000)
        truth = counts.trapezoid_heights * counts.bin_negatives.astype(float)
        total = attacked.summed(counts)
        whole = attacked.decrypted(attacked.sent(total, every=True))
        np.testing.assert_allclose(self.attack(whole, attacked), truth / truth.max(), atol=1e-6)
        sent = attacked.decrypted(attacked.sent(total))
        assert sent[1] / whole[1] == pytest.approx(1, abs=1e-9)  # the sum of all is there
        # What is left is uniform: 100 independent values correlate above 0.6 with probability below 1e-10.
        assert abs(np.corrcoef(self.attack(sent, attacked), truth)[0, 1]) < 0.6


class TestMultiplierAsCommonDivisor:
    """Without flooding all that is decrypted is r times integers, and a little: a common divisor, nearly, tells r.

    Shown on empty counts, where the integers are small. All are even, products of different coefficients.
    """

    def attack(self, coefficients: Sequence[int]) -> float:
        """Return the largest number that divides all of them but for 2^19 (`fhe_auc.ckks.context`)."""
        largest, *others = sorted((abs(float(each)) for each in coefficients), reverse=True)
        candidates = largest / np.arange(1, 2**15)
        fits = [np.abs(each - np.rint(each / candidates) * candidates) < 2.0**20 for each in others]
        return float(max(candidates[np.logical_and.reduce(fits)], default=0.0))

    def test_the_multiplier_is_the_common_divisor_without_flooding_and_not_with_it(self, attacked):
        total = attacked.summed(EMPTY)
        for flooding, seen in ((0, True), (FLOODED_BITS, False)):
            coefficients = attacked.decrypted(attacked.sent(total, flooding=flooding))
            divisor = self.attack([coefficients[position] for position in attacked.positions])
            times = divisor / (2 * attacked.multiplier)  # by chance four integers have another divisor in common
            assert (1 <= round(times) <= 1000 and abs(times - round(times)) < 1e-3) is seen

    def test_flooding_has_the_size_that_the_plan_states_whatever_the_multiplier(self, attacked):
        """Noise that scales with r tells r. Uniform on [-2^b, 2^b), far above what dropping a modulus adds."""
        parameters = attacked.plan.parameters
        flood = 2.0**FLOODED_BITS * parameters.slots / parameters.scale**2
        submission = attacked.submission(EMPTY)
        for extreme in (smallest_multiplier, largest_multiplier):
            results = [attacked.result([submission], extreme) for _ in range(24)]
            seen = np.array([attacked.keys.secret.decrypt_sums(result, 1).view(float) for result in results])
            assert np.abs(seen).max() <= 1.02 * flood  # dropping a modulus adds a little
            assert np.sqrt(np.mean(seen**2)) == pytest.approx(flood / math.sqrt(3), rel=0.3)  # 96 values: 4.6 % a sigma


class TestMultiplierInWholePolynomials:
    """Whoever knows all submissions knows c₁ and c₂, a² with a sum of expanded seeds: r·c₂ and a small error tell r."""

    def attack(self, parts: Sequence[Words], total: Sequence[Words], attacked: Attacked) -> list[list[int]]:
        """Return which multipliers leave little of c₁', and of c₂', of the true one and its neighbours."""
        half = attacked.half
        b, a = np.split(total[0], 2)
        both = half.multiply(a, b)
        half.add_in_place(both, both.copy())
        found: list[list[int]] = []
        for sent, known in zip(parts[1:], (both, half.multiply(a, a)), strict=True):
            found.append([])
            for multiplier in range(attacked.multiplier - 1, attacked.multiplier + 2):
                left = sent.copy()
                times = np.full(half.shape, multiplier, np.uint64)
                half.subtract_in_place(left, half.multiply(coefficients_of(half, known), times))
                if max(map(abs, signed(half, left))) < 2**10:  # of some 166 bits that it could have
                    found[-1].append(multiplier)
        return found

    def test_it_shows_without_fresh_ternary_polynomials_and_not_with_them(self, attacked, monkeypatch):
        """Without v alone it shows in c₂, which is the prototypes' leak."""
        total, zero = attacked.summed(random_counts(2, 500, 700)), attacked.half.zeros()
        assert self.attack(attacked.sent(total), total, attacked) == [[], []]
        u = ternary(attacked.half, secrets.token_bytes(32))
        for drawn, seen in (((zero, zero), (1, 1)), ((u, zero), (0, 1))):
            values = iter(drawn)
            with monkeypatch.context() as patched:
                patched.setattr(context.ciphertexts, "ternary", lambda half, seed, values=values: next(values))
                found = self.attack(attacked.sent(total), total, attacked)
            assert found == [[attacked.multiplier] * times for times in seen]

    def test_results_of_the_same_submissions_have_nothing_in_common(self, attacked):
        """Neither whole polynomials nor the multiplier are drawn from anything that is there twice."""
        submission = attacked.submission(random_counts(3, 500, 700))
        one, other = (attacked.result([submission], largest_multiplier) for _ in range(2))
        sums, others = (np.frombuffer(each[-attacked.plan.download_bytes :], np.uint8) for each in (one, other))
        assert np.mean(sums != others) > 0.99  # of random bytes one in 256 is the same
