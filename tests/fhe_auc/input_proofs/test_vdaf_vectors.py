"""The oracle is the draft: `tests.support.vdaf` makes and refuses what the draft's own test vectors say.

vectors/vdaf.json names the draft's files, and has digests of what they list. All of Prio3Count, Sum, SumVec (one proof
and three) and Histogram are here but one: a message of zeros.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support import vdaf

pytest.importorskip("Crypto.Hash.TurboSHAKE128")

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("vectors").joinpath("vdaf.json").read_text())[
    "vectors"
]
KEY, NONCE, CONTEXT = bytes(range(32)), bytes(range(16)), b"some application"


def variant(vector: dict[str, Any]) -> vdaf.Prio3:
    shares, many = vector["shares"], [vector.get(name, 0) for name in ("length", "bits", "chunk_length")]
    match vector["file"].split("_")[0]:
        case "Prio3Count":
            return vdaf.Prio3(1, vdaf.FIELD64, vdaf.COUNT, shares, CONTEXT)
        case "Prio3Sum":
            return vdaf.Prio3(2, vdaf.FIELD64, vdaf.sum_up_to(vector["max_measurement"]), shares, CONTEXT)
        case "Prio3SumVec":
            return vdaf.Prio3(3, vdaf.FIELD128, vdaf.sum_vector(*many), shares, CONTEXT)
        case "Prio3SumVecWithMultiproof":
            return vdaf.Prio3(2**32 - 1, vdaf.FIELD64, vdaf.sum_vector(*many), shares, CONTEXT, proofs=3)
    return vdaf.Prio3(4, vdaf.FIELD128, vdaf.histogram(many[0], many[2]), shares, CONTEXT)


def changed(data: bytes, unit: str, at: int, field: vdaf.Field) -> bytes:
    """One residue is one more, or one bit of a byte is the other one."""
    if unit == "byte":
        found = bytearray(data)
        found[at] ^= 1
        return bytes(found)
    residues = field.decoded(data)
    residues[at] = (residues[at] + 1) % field.prime
    return field.encoded(residues)


def digest(items: Iterable[bytes]) -> str:
    return hashlib.sha256(b"".join(items)).hexdigest()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["file"]))
def test_the_oracle_says_what_the_drafts_vectors_say(vector: dict[str, Any]) -> None:
    prio3, change = variant(vector), vector.get("changed")
    seeds = prio3.shares * (2 if prio3.circuit.joint else 1)
    listed: dict[str, list[bytes]] = {name: [] for name in vector["sha256"]}
    for measurement in vector["measurements"]:
        public, inputs = prio3.shard(measurement, NONCE, bytes(range(vdaf.SEED_BYTES * seeds)))
        if change and change["what"] == "public_share":
            public = changed(public, change["unit"], change["at"], prio3.field)
        elif change:
            which = change["which"]
            inputs[which] = changed(inputs[which], change["unit"], change["at"], prio3.field)
        found = [prio3.verify(KEY, index, NONCE, public, share) for index, share in enumerate(inputs)]
        listed["public_share"].append(public)
        listed["input_shares"] += inputs
        listed["verifier_shares"] += [each.verifier_share for each in found]
        if change:
            with pytest.raises(ValueError, match="a proof does not hold"):
                prio3.message([each.verifier_share for each in found])
        else:
            message = prio3.message([each.verifier_share for each in found])
            assert all(each.joint_seed == message for each in found)
            listed["verifier_messages"].append(message)
            listed["out_shares"] += [prio3.field.encoded(each.output) for each in found]
    assert {name: digest(items) for name, items in listed.items()} == vector["sha256"]
