"""Results that hide nothing, which a stranger makes who knows the announcement alone: every party refuses them."""

from typing import Any

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import encode
from fhe_auc.bfv.joint_keys import JointShare
from fhe_auc.rlwe import wire_format
from fhe_auc.rlwe.modulus_switching import kept_shape
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of, values_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.blinded_auc.plan import AucPlan

GRID = np.linspace(0, 1, 16)


def seconds(half: Polynomials) -> list[Words]:
    """Second polynomials that hide nothing: zero, one, two, and one that is as large as noise."""
    noise = np.random.default_rng(1).integers(-(2**40), 2**40, half.ring_dimension)
    as_large = values_of(half, np.mod(noise, np.array(half.moduli)[:, None]).astype(np.uint64))
    return [*(np.full(half.shape, value, np.uint64) for value in range(3)), as_large]


def message(half: Polynomials) -> bytes:
    """A result's first polynomial; which one does not matter here."""
    return half.pack(half.uniform(bytes(32)))


@pytest.mark.backends("one")  # the shape of a ciphertext is ours
@pytest.mark.parametrize("protocol", [pytest.param("semi-honest", marks=pytest.mark.slow), "malicious"])
def test_a_party_with_sealed_keys_refuses_a_result_made_from_public_information(
    site_rows: list[PartyData], backend: str, protocol: str
) -> None:
    parties = tuple(data.name for data in site_rows)
    found = registry.load(protocol)
    session = found.prepare(Request(parties=parties, thresholds=GRID, backend=backend))
    for data in site_rows:
        party: Any = found.party(session.manifest, session.party_material, data)
        keys = ckks.load_secret(session.common.context)
        half, plan = kept_shape(keys.mask_shape, keys.parameters.kept), session.manifest.decoded_plan(AucPlan)
        few, uniform = message(Polynomials(4 * plan.runs_together, half.moduli)), message(half)
        for second in seconds(half):
            small = half.pack(coefficients_of(half, second))
            square = few + (small + uniform if data is site_rows[0] else uniform + small)
            forged = wire_format.seal("result", session.manifest.context, square * plan.squares)
            with pytest.raises(DeserialisationError, match="not a ciphertext: "):
                party._computation.outcome(party._keys, party._task, Result(parties, forged), bytes(32))


def test_a_party_with_joint_keys_neither_decrypts_nor_reads_it(site_rows: list[PartyData]) -> None:
    parties = tuple(data.name for data in site_rows)
    found: Any = registry.load("exact")
    manifest = found.prepare(Request(parties=parties, thresholds=GRID, keys="joint")).manifest
    computation = found.modes["joint"].computation(manifest, bytes(32))
    setup = computation.setup
    share = JointShare(setup)
    half = setup.result_part
    for second in seconds(half):
        packed = message(half) + half.pack(second)
        kinds = (f"joint result modulo {prime}" for prime in computation.plan.parameters.plain_moduli)
        forged = encode(tuple(wire_format.seal(kind, bytes(32), packed) for kind in kinds))
        with pytest.raises(DeserialisationError, match="not a ciphertext: "):
            computation.partial_decryption(share, forged)
        with pytest.raises(DeserialisationError, match="not a ciphertext: "):
            computation.combine(forged, [])
