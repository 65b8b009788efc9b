"""No plan has a modulus above the security table: all protocols, keys, and sizes that the planners take."""

import itertools
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

from fhe_auc.base.errors import CapacityError
from fhe_auc.bfv.parameters import CHAINS as BFV_CHAINS
from fhe_auc.ckks.parameters import CHAINS as CKKS_CHAINS
from fhe_auc.question.analysis import Analysis
from fhe_auc.rlwe.parameters import MAX_MODULUS_BITS
from fhe_auc.session import registry
from fhe_auc.session.protocol import Request

TABLE = {4096: 106, 8192: 214, 16384: 430, 32768: 868}
"""log2 q at most: ePrint 2024/463, table 5.2, ternary secrets, 128 bits against classical attacks."""

slow = partial(pytest.param, marks=pytest.mark.slow)
KEYS = ("sealed", "helper")
SIZES = list(itertools.product((2, 100, 1000, 4000, 8000), (10**3, 10**6, 10**8, 10**12), (3, 1000)))
ANALYSES = (Analysis(), Analysis(models=("a", "b")))


def planned(name: str, keys: str, backend: Any) -> list[Any]:
    """Every plan that a planner makes of these sizes."""
    plugin: Any = registry.load(name)
    if keys not in plugin.key_kinds():
        return []
    found = []
    for (thresholds, max_rows, parties), interval, analysis in itertools.product(SIZES, (None, 0.95), ANALYSES):
        if len(analysis.models) > 1 and not plugin.several:
            continue
        request = Request(
            parties=tuple(map(str, range(parties))),
            thresholds=np.linspace(0, 1, thresholds),
            max_rows=max_rows,
            keys=keys,
            interval=interval,
            analysis=analysis,
            backend=backend,
        )
        try:
            with mock.patch(f"{type(plugin).planned.__module__}.choose_backend", lambda name: name):
                found.append(plugin.planned(request))
        except CapacityError:  # it is too much for any plan
            continue
    assert found
    return found


def test_the_table_is_that_of_the_guidelines_of_2024() -> None:
    assert MAX_MODULUS_BITS == TABLE


def test_all_chains_are_within_the_table() -> None:
    chains = [chain for of in (BFV_CHAINS, CKKS_CHAINS) for each in of.values() for chain in each]
    for chain in chains:
        assert sum(chain.modulus_bits) + chain.special_bits <= TABLE[chain.ring_dimension], chain


@pytest.mark.parametrize("backend", [slow("openfhe"), "tenseal"])  # other chains, all of which are within the table
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("name", [slow("exact"), "malicious", "semi-honest", "verified"])
def test_no_plan_has_a_modulus_above_the_table(name: str, keys: str, backend: Any) -> None:
    for plan in planned(name, keys, backend):
        parameters = plan.parameters
        assert parameters.log2_modulus + parameters.special_bits <= TABLE[parameters.ring_dimension]
