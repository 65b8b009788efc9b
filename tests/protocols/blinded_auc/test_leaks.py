"""Three leaks that the circuit closes, each shown as an attack by a party that may decrypt the result.

Every attack succeeds when its counter-measure is switched off inside the test, and fails when it is on.
"""

import math
import secrets

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.ckks.flooding import flooding_layers
from fhe_auc.rows.counts import Counts
from fhe_auc_protocols.blinded_auc import blinding
from fhe_auc_protocols.blinded_auc import encrypted_trapezoid as circuit
from fhe_auc_protocols.blinded_auc.blinding import BlindingRandomness
from fhe_auc_protocols.blinded_auc.ckks_parameter_choice import plan
from fhe_auc_protocols.blinded_auc.packing import Packing
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.semi_honest import class_vectors
from fhe_auc_protocols.blinded_auc.workload import Workload
from tests.support.blinded_auc import counts_of, encrypted_result, submission
from tests.support.pinned_randomness import LARGEST_MULTIPLIER, SMALLEST_MULTIPLIER, Pinned

BINS = 100
BACKENDS = ckks.available_backends()


pytestmark = pytest.mark.backends("one")  # what leaks is in the algebra of both


@pytest.fixture(scope="module", params=BACKENDS)
def chosen(request) -> AucPlan:
    return plan(Workload(thresholds=BINS, parties=1, min_rows=200), request.param)  # the smaller ring with both


@pytest.fixture(scope="module")
def keys(chosen) -> ckks.KeyPair:
    return ckks.generate(chosen.parameters)


def random_counts(seed: int, positives: int, negatives: int) -> Counts:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(BINS))
    return counts_of(rng.multinomial(positives, shares[::-1]), rng.multinomial(negatives, shares))


def decrypted_result(
    keys: ckks.KeyPair, chosen: AucPlan, counts: Counts, randomness: BlindingRandomness = secrets
) -> ckks.Slots:
    """Run the circuit on one party's counts, as it stands in `encrypted_trapezoid`, and decrypt."""
    submissions = [submission(keys.secret, chosen, counts)]
    return keys.secret.decrypt(encrypted_result(keys.public, chosen, submissions, randomness=randomness))


def without_flooding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuit, "flood", lambda context, ciphertext, standard_deviation, unit: ciphertext)


def with_short_trace(monkeypatch: pytest.MonkeyPatch, bins: int) -> None:
    """Stop the rotations when `bins` neighbouring bins are summed up."""
    monkeypatch.setattr(
        Packing,
        "trace_steps",
        property(lambda packing: tuple(packing.classes << j for j in range(int(math.log2(bins))))),
    )


class TestPartialSums:
    """Rotations that stop early leave sums over windows of bins: unrolled from the empty bins, every product."""

    WINDOW = 16

    def attack(self, slots: ckks.Slots, packing: Packing) -> np.ndarray:
        """Return the share of every bin in num, as far as the slots show it."""
        window_sums = packing.by_class(slots)[0].real[: packing.bins]
        products = np.zeros(packing.bins + self.WINDOW)  # bins from m on are empty
        for k in range(BINS - 1, -1, -1):
            products[k] = products[k + self.WINDOW] + window_sums[k] - window_sums[k + 1]
        return products[:BINS] / max(abs(products[:BINS]).max(), 1e-300)

    @staticmethod
    def truth(counts: Counts) -> np.ndarray:
        products = counts.trapezoid_heights * counts.bin_negatives.astype(float)
        return products / products.max()

    def test_every_bins_product_is_read_off_where_the_trace_stops_early_alone(self, keys, chosen, monkeypatch):
        counts = random_counts(1, 4000, 6000)
        shares = self.attack(decrypted_result(keys, chosen, counts), chosen.packing)
        # What is left is noise, or nothing at all where double precision does not show the flooding: the correlation
        # of 100 independent values exceeds 0.6 with probability below 1e-10.
        assert np.ptp(shares) == 0 or abs(np.corrcoef(shares, self.truth(counts))[0, 1]) < 0.6
        counts = random_counts(1, 4000, 6000)
        with_short_trace(monkeypatch, self.WINDOW)
        shares = self.attack(decrypted_result(keys, chosen, counts), chosen.packing)
        np.testing.assert_allclose(shares, self.truth(counts), atol=1e-4)


class TestWindowDependentNoise:
    """Sums over the bins alone: every copy shows the same totals under other noise, whose spread tells N, then r, P."""

    def attack(self, slots: ckks.Slots, chosen: AucPlan) -> float:
        """Return what is proportional to N, with a public factor.

        In class 1 noise is multiplied by X = 2P in every bin: its spread over the copies, relative to the mean r·2PN,
        goes like 1/N.
        """
        windows = chosen.packing.by_class(slots)[1].reshape(chosen.packing.copies, chosen.packing.bins)[:, 0]
        spread = np.sqrt(np.mean(np.abs(windows - windows.mean()) ** 2)) / abs(windows.mean())
        return float(1 / max(spread, 1e-300))

    @staticmethod
    def pools() -> list[Counts]:
        """Pools of equal P·N, so that the totals tell them apart in nothing but the numerator."""
        return [random_counts(seed, 10**6 // negatives, negatives) for seed, negatives in enumerate((10, 200, 4000))]

    def errors(self, keys: ckks.KeyPair, chosen: AucPlan) -> list[float]:
        """Return by which factor each pool's estimate of N is off.

        The public factor comes from a pool of the attacker's own, with N = 1000. Even the help of an unchanging
        multiplier is given. The pools have the same totals: an attack that sees nothing but totals gives the same
        estimate for all, which is then off by a factor of at least √(4000/10) = 20 for one of them.
        """

        def seen(counts: Counts) -> float:
            results = [decrypted_result(keys, chosen, counts, LARGEST_MULTIPLIER) for _ in range(8)]
            return float(np.median([self.attack(slots, chosen) for slots in results]))

        own = seen(random_counts(9, 1000, 1000))
        estimates = [1000 / own * seen(counts) for counts in self.pools()]
        return [
            max(estimate / counts.negatives, counts.negatives / estimate)
            for estimate, counts in zip(estimates, self.pools(), strict=True)
        ]

    @pytest.mark.slow
    def test_the_full_trace_alone_already_stops_it(self, monkeypatch, keys, chosen):
        without_flooding(monkeypatch)
        assert max(self.errors(keys, chosen)) > 10

    def test_the_negatives_are_counted_without_trace_and_flooding_alone(self, keys, chosen, monkeypatch):
        assert max(self.errors(keys, chosen)) > 10
        with_short_trace(monkeypatch, chosen.packing.bins)
        without_flooding(monkeypatch)
        # Each result has 16 copies, so that it tells the spread to about 13 %; the median of 8 results is closer.
        # Beside the noise that X multiplies there is some that it does not: the estimates are off by up to about 2.
        assert max(self.errors(keys, chosen)) < 5


class TestMultiplierAsCommonDivisor:
    """Without flooding every noise coefficient of the decrypted polynomial is a multiple of r: their gcd is r.

    Shown on empty counts, so that double-precision slots give the coefficients exactly; a party that decrypts with
    exact integers can do the same whatever the counts are.
    """

    EMPTY = counts_of(np.zeros(BINS), np.zeros(BINS))

    @staticmethod
    def small_multiplier(chosen: AucPlan) -> tuple[Pinned, int]:
        """Return one below twice the least: double precision shows noise coefficients exactly then.

        No power of two, which may divide what double precision leaves of any coefficients.
        """
        for place in range(1000):
            pinned = Pinned(bits=place / 1000)
            multiplier = blinding.multiplier(chosen.blinding_bits, pinned)
            if multiplier < 2 * chosen.least_multiplier and multiplier & (multiplier - 1):
                return pinned, multiplier
        raise AssertionError("no small multiplier")

    def attack(self, slots: ckks.Slots, chosen: AucPlan) -> int:
        coefficients = np.rint(polynomial(slots * chosen.parameters.scale**2, chosen.parameters)).astype(object)
        return math.gcd(*(int(value) for value in coefficients))

    def test_the_multiplier_is_the_gcd_without_flooding_and_not_with_it(self, keys, chosen, monkeypatch):
        pinned, multiplier = self.small_multiplier(chosen)
        assert self.attack(decrypted_result(keys, chosen, self.EMPTY, pinned), chosen) % multiplier != 0
        without_flooding(monkeypatch)
        assert self.attack(decrypted_result(keys, chosen, self.EMPTY, pinned), chosen) == multiplier

    def test_flooding_has_the_size_that_the_plan_states_down_to_the_low_bits(self, keys, chosen):
        """Its size must follow the largest multiplier: noise that scales with r tells r."""
        for extreme in (SMALLEST_MULTIPLIER, LARGEST_MULTIPLIER):
            slots = decrypted_result(keys, chosen, self.EMPTY, extreme)
            deviation = np.sqrt(np.mean(np.abs(slots) ** 2))
            assert deviation == pytest.approx(chosen.flooding_deviation, rel=0.1)  # 4,096 slots: 1.1 % each sigma
        # Double precision leaves 2^-53 of the large layer empty: without the second layer, low bits would be bare.
        large, small = flooding_layers(chosen.packing.slots, chosen.flooding_deviation, unit=chosen.unit)
        absolute = chosen.parameters.scale**2
        granularity = np.spacing(np.abs(polynomial(large * absolute, chosen.parameters))).max()
        layer = np.std(polynomial(small * absolute, chosen.parameters))
        assert layer > 100 * granularity


def polynomial(slots: ckks.Slots, parameters: ckks.CkksParameters) -> np.ndarray:
    """Return the real polynomial whose values at the primitive 2N-th roots of unity are `slots` (inverse embedding)."""
    n = parameters.ring_dimension
    generator = {"openfhe": 5, "tenseal": 3}[parameters.backend]
    values = np.empty(n, complex)
    exponent = 1
    for value in slots:
        values[(exponent - 1) // 2] = value
        values[(2 * n - exponent - 1) // 2] = np.conj(value)
        exponent = exponent * generator % (2 * n)
    return (np.exp(-1j * np.pi * np.arange(n) / n) * np.fft.fft(values) / n).real


def test_every_slot_holds_its_class_total_and_nothing_else(keys, chosen):
    counts = random_counts(3, 500, 700)
    slots = decrypted_result(keys, chosen, counts, LARGEST_MULTIPLIER)
    slots = slots / (2**chosen.blinding_bits * chosen.packing.gain)
    x, y = class_vectors(counts)
    totals = chosen.packing.by_class(slots)
    noise = 6 * chosen.flooding_deviation / (2**chosen.blinding_bits * chosen.packing.gain)
    for total, exact in zip(totals, (x * y).sum(axis=1), strict=True):
        np.testing.assert_allclose(total, np.full(total.shape, exact), rtol=1e-8, atol=noise)
