"""The oracle is the draft: `tests.support.vdaf` makes what the draft's own test vectors say.

vectors/vdaf.json names the draft's files, and has digests of what they list: all of Prio3SumVec, with one proof and
three. Its circuit is built like ours.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import vdaf

pytest.importorskip("Crypto.Hash.TurboSHAKE128")

VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("vectors").joinpath("vdaf.json").read_text())[
    "vectors"
]
KEY, NONCE, CONTEXT = bytes(range(32)), bytes(range(16)), b"some application"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["file"]))
def test_the_oracle_says_what_the_drafts_vectors_say(vector: dict[str, Any]) -> None:
    circuit = vdaf.sum_vector(*(vector[name] for name in ("length", "bits", "chunk_length")))
    number, field, proofs = (2**32 - 1, vdaf.FIELD64, 3) if "Multiproof" in vector["file"] else (3, vdaf.FIELD128, 1)
    prio3 = vdaf.Prio3(number, field, circuit, vector["shares"], CONTEXT, proofs)
    listed: dict[str, list[bytes]] = {name: [] for name in vector["sha256"]}
    for measurement in vector["measurements"]:
        public, inputs = prio3.shard(measurement, NONCE, bytes(range(2 * vdaf.SEED_BYTES * prio3.shares)))
        found = [prio3.verify(KEY, index, NONCE, public, share) for index, share in enumerate(inputs)]
        message = prio3.message([each.verifier_share for each in found])
        assert all(each.joint_seed == message for each in found)
        listed["public_share"].append(public)
        listed["input_shares"] += inputs
        listed["verifier_shares"] += [each.verifier_share for each in found]
        listed["verifier_messages"].append(message)
        listed["out_shares"] += [prio3.field.encoded(each.output) for each in found]
    assert {name: hashlib.sha256(b"".join(own)).hexdigest() for name, own in listed.items()} == vector["sha256"]
