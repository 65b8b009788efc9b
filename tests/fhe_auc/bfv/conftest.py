"""Keys that the tests of BFV contexts share."""

import pytest

from tests.support.bfv_contexts import PRIMES, Case


@pytest.fixture(scope="module", params=PRIMES)
def case(backend: str, request: pytest.FixtureRequest) -> Case:
    return Case.of(request.param, backend)
