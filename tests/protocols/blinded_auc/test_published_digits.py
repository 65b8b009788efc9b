"""`semi-honest` tells few digits: an aggregator that deviates puts little of one site's counts into them."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhe_auc.base.serialise import decode, encode
from fhe_auc.ckks import encoding
from fhe_auc.ckks.context import _result_shapes, released
from fhe_auc.question import thresholds
from fhe_auc.rlwe.ciphertexts import wrap
from fhe_auc.rlwe.polynomials import values_of
from fhe_auc.rows.counts import count
from fhe_auc.session import registry
from fhe_auc.session.computation import Result
from fhe_auc.session.protocol import Request
from fhe_auc_protocols.blinded_auc.blinded_plan import CHECK_WEIGHT, WEIGHT, AucPlan
from fhe_auc_protocols.blinded_auc.result_check import Recovered
from fhe_auc_protocols.blinded_auc.semi_honest import PUBLISHED, PUBLISHED_BITS, published
from tests.support.blinded_auc import session_sums
from tests.support.exact_sessions import Play
from tests.support.malicious_sessions import sites
from tests.support.wire import changed, payload_of

BINS, BITS = range(2, 9), 7
GRID = thresholds.resolve("uniform:16")


def counts_of_one_site(victim: str) -> Any:
    """A result with the site's negatives of seven bins in the AUC: weights times its ciphertext, and a den of its own.

    In component 0 they are multiplied with Y alone; component 1 of the product is where num is read.
    """

    def tamper(aggregator: Any, sent: dict[str, bytes]) -> bytes:
        context, plan = aggregator._side.aggregate.args[0], aggregator.manifest.decoded_plan(AucPlan)
        half, parameters, den = context._seeded.half, plan.parameters, 2**140
        (block,) = decode(sent[victim], tuple[bytes, ...], "submission")
        own = np.split(context.read_submission(block), 2)
        slots = np.zeros((parameters.components, parameters.slots), complex)
        slots[1, BINS] = 2.0 ** (BITS * np.arange(len(BINS)))
        slots *= den / 2**51 / (parameters.scale * WEIGHT / parameters.slots)
        weights = values_of(half, encoding.message(half, encoding.coefficients(slots)))
        parts = [*(half.multiply(each, weights) for each in own), half.zeros()]
        positions = encoding.sum_positions(half.ring_dimension, parameters.components)
        plain = [0] * half.ring_dimension
        plain[positions[0]], plain[positions[2]], plain[positions[3]] = den // 4, den, int(den * CHECK_WEIGHT)
        added = np.array([[value % q for value in plain] for q in half.moduli], np.uint64)
        half.add_in_place(parts[0], values_of(half, added))
        few, whole = _result_shapes(half, context.parameters)
        kept = context.parameters.kept
        out = released(half, context._public_key, parts, 1, 8, positions=list(positions), kept=kept)
        packed = b"".join(shape.pack(part) for shape, part in zip((few, whole, whole), out, strict=True))
        return wrap("result", context.fingerprint, packed)

    return tamper


def negatives_in(auc: float) -> list[int]:
    return [(round((auc - 0.25) * 2**51) >> (BITS * place)) % 2**BITS for place, _ in enumerate(BINS)]


@pytest.mark.backends("one")
def test_what_is_published_no_longer_carries_the_seven_counts_that_the_parties_have_read() -> None:
    parties = sites(5, rows=600, seed=3)
    own = count(parties[2], GRID).bin_negatives[list(BINS)].tolist()
    tamper = counts_of_one_site(parties[2].name)
    told, read = session_sums(parties, tamper=tamper, thresholds=GRID, backend="tenseal", max_rows=100_000)
    assert negatives_in(read.auc) == own  # the attack works: all have accepted it
    assert len({(each.auc, each.binning_error) for each in told}) == 1
    assert not any(map(int.__eq__, negatives_in(told[0].auc)[:5], own))  # 14 bits are left: those of the last two
    assert (told[0].auc, told[0].binning_error, told[0].decimals) == (0.2619, 0.00015, 4)
    plain = json.loads(json.dumps(told[0].as_dict()))
    assert plain["estimates"][0]["auc"] == plain["auc"] == 0.2619
    assert str(told[0]).startswith("AUC 0.2619 (no interval")


@pytest.mark.backends("one")
def test_an_aggregator_that_gives_each_party_another_result_has_so_many_bits_of_each_that_tells_its_own() -> None:
    """Parties of `semi-honest` do not compare what they were given: each accepts counts of another site as the AUC."""
    parties = sites(3, rows=600, seed=3)
    play = Play("semi-honest", parties, GRID, backend="tenseal", max_rows=100_000)
    sent = play.answers(play.aggregator.start())
    payloads = {name: payload_of(each) for name, each in sent.items()}
    lies = [counts_of_one_site(data.name)(play.aggregator, payloads) for data in parties]
    honest, counted, roles = play.deliver(sent), play.aggregator.counted, play.parties
    assert honest is not None
    for role, data, lie in zip(roles, parties, lies, strict=True):
        role.respond(changed(honest, payload=encode(Result(counted, lie))))
        own = count(data, GRID).bin_negatives[list(BINS)]
        assert role.result().auc == round(0.25 + own @ 2.0 ** (BITS * np.arange(len(BINS))) / 2**51, 4)
    assert len({role.result().auc for role in roles}) > 1


def test_fewer_than_14_bits_are_published_and_all_that_is_published_follows_from_them() -> None:
    """Every outcome is tried: AUCs as fine as the finest published, and binning errors of every size."""
    errors = 0.0, 1e-4, 1.01e-4, 1e-3, 1.01e-3, 0.01, 0.0101, 0.1, 0.101, 0.5
    every = {published(Recovered(k / 20_000, error)) for k in range(20_001) for error in errors}
    assert len(every) == PUBLISHED == 11_125
    assert math.log2(PUBLISHED + 3) == PUBLISHED_BITS < 14
    plugin: Any = registry.load("semi-honest")
    assert "14 bits of one party's counts" in plugin.trust
    parties = sites(3)
    names = tuple(data.name for data in parties)
    session = plugin.prepare(Request(parties=names, thresholds=GRID, backend="tenseal"))
    task = plugin.task(session.manifest, parties[0])

    def said(auc: float, error: float) -> dict[str, Any]:
        den = 2.0**60
        return task.read_result(
            np.array([[den * complex(auc, error), den * complex(1, CHECK_WEIGHT)]]), names, b""
        ).as_dict()

    assert said(0.76880, 0.0008) == said(0.7691234567, 0.00099) != said(0.768, 0.0008)
    assert (said(0.7688, 0.0008)["auc"], said(0.7688, 0.0008)["binning_error"]) == (0.769, 0.0015)
    # All floats that are told, and all text, are in the dictionary; the rest is public before the session.
    assert "rounded" in " ".join(said(0.7688, 0.0008)["warnings"])


@given(auc=st.floats(0, 1), error=st.floats(0, 0.5), off=st.floats(-1, 1))
def test_the_unbinned_auc_is_within_the_bound_that_is_published(auc: float, error: float, off: float) -> None:
    told, decimals = published(Recovered(auc, error))
    assert abs(auc + off * error - told.auc) <= told.binning_error + 1e-12
    assert 1 <= decimals <= 4
    assert told.auc == float(f"{told.auc:.{decimals}f}")
    assert math.copysign(1, told.auc) == 1
