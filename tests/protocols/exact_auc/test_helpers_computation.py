"""What several helpers compute: the sums of the sketches, with no more noise than the plan says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fhe_auc.bfv.ciphertext_noise import integers
from fhe_auc.errors import DeserialisationError
from fhe_auc.protocol import Request
from fhe_auc.rlwe.transform import coefficients_of
from fhe_auc.submissions import RunningSum
from fhe_auc.sums.residues import pack
from fhe_auc_protocols.exact_auc.helpers_computation import ExactHelpersComputation
from tests.support.exact_sessions import GRID, PLUGINS

PARTIES = ("north", "south", "west")
SEEDS = [{party: bytes([helper, number]) * 16 for number, party in enumerate(PARTIES)} for helper in range(3)]
BLINDS = [bytes([100 + helper]) * 32 for helper in range(3)]


def made(helpers: int, protocol: str = "exact") -> Any:
    """The computation, each helper's share and what it has revealed, and the padded sketches of random ones."""
    plugin = PLUGINS[protocol]
    request = Request(parties=PARTIES, thresholds=GRID, max_rows=2000, keys="helper", helpers=helpers)
    manifest = plugin.prepare(request).manifest
    together = ExactHelpersComputation(manifest, bytes(32))
    plan, padded = plugin.plan_of(manifest), together._padded
    (prime,) = plan.parameters.plain_moduli
    sketch = np.random.default_rng(1).integers(0, prime, plan.computed.sketch.size, dtype=np.uint64)
    total = together.packed(summed(padded, sketch, prime, helpers).totals)
    shares = [together.share_type(together.setup) for _ in range(helpers)]
    parts = [
        (*together.parts(share, blind, first=not number), *together.remainder(seeds, blind))
        for number, (share, seeds, blind) in enumerate(zip(shares, SEEDS, BLINDS, strict=False))
    ]
    return together, plan, prime, sketch, total, shares, parts


def summed(padded: Any, sketch: Any, prime: int, helpers: int) -> RunningSum:
    """The sum of the padded sketches: a sketch, and what all helpers' seeds give."""
    total: RunningSum = padded.running_sum(None)
    total.add((pack(sketch, prime),))
    for seeds in SEEDS[:helpers]:
        total.add((pack(padded.pads_of(seeds)[0], prime),))
    return total


@pytest.mark.parametrize("helpers", [2, 3])
@pytest.mark.parametrize("protocol", PLUGINS)
def test_helpers_decrypt_the_sums_of_the_sketches(protocol: str, helpers: int) -> None:
    together, plan, prime, sketch, total, shares, parts = made(helpers, protocol)
    result, keys = together.result(total, parts)
    assert together.result(total, parts)[0] == result
    partials = [together.partial_shape.unpack(together.partial(share, result, keys)) for share in shares]
    assert np.array_equal(together.combine(result, partials)[0], plan.computed.totals(sketch, prime))


@pytest.mark.parametrize("helpers", [2, 3])
def test_the_noise_that_smudging_hides_is_within_the_plan_s_bound(helpers: int) -> None:
    together, plan, prime, _, total, shares, parts = made(helpers)
    result, keys = together.result(total, parts)
    setup = together.setup
    half, modulus = setup.result_part, math.prod(setup.result_part.moduli)
    (part,) = plan.result_parts(result)
    none = np.zeros(plan.parameters.slots, np.uint64)
    partials = [half.unpack(share.partial_decryption(part, 0, 0, none)) for share in shares]
    partials += [half.unpack(share.relinearisation_part(keys)) for share in shares]
    phase = coefficients_of(half, setup.fused(setup.result_kind(0), part, partials))
    scaled = [prime * each % modulus for each in integers(half, phase)]
    noise = max(min(each, modulus - each) for each in scaled) / prime
    assert plan.noise_bound / 100 < noise < plan.noise_bound


def test_parts_that_are_none_are_refused() -> None:
    together, _, _, _, total, _, parts = made(2)
    first, second = parts
    for lie in ((), second[:-1], (*second, b""), (second[0][:-1], *second[1:]), (*second[:-1], second[-1][:-1])):
        for refuse in (lambda lie=lie: together.check(lie), lambda lie=lie: together.result(total, [first, lie])):
            with pytest.raises(DeserialisationError):
                refuse()
    with pytest.raises(DeserialisationError):
        together.result((total[0][:-1],), parts)
