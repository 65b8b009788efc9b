"""The statistical distance that Gaussian flooding leaves is that of two normal distributions, worked out alone."""

import math

import pytest
from scipy.stats import norm

from fhe_auc.rlwe.statistical_security import gaussian_distance


def test_flooding_leaves_the_distance_of_the_two_noises_farthest_apart_as_the_documents_have_it() -> None:
    for ring_dimension in [8192, 16384]:
        for bits in [4, 8, 12]:
            hidden, added = 3.0, 3.0 * 2**bits  # deviations of a complex slot
            length = math.sqrt(ring_dimension / 2) * hidden
            coordinate = added / math.sqrt(2)
            # Along the line between x and -x both distributions are normal, and across it the same.
            expected = norm.cdf(length / coordinate) - norm.cdf(-length / coordinate)
            assert gaussian_distance(ring_dimension, bits) == pytest.approx(expected, rel=1e-9)
    for ring_dimension, bits, log2 in [(8192, 40, -33.8), (8192, 34, -27.8), (16384, 40, -33.3)]:
        found = gaussian_distance(ring_dimension, bits)
        assert round(math.log2(found), 1) == log2
        assert found == pytest.approx(math.sqrt(2 * ring_dimension / math.pi) * 2.0**-bits)
