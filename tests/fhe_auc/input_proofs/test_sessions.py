"""A session's proofs as its roles have them: what each lie is refused by, and vectors of it all.

vectors/input_proofs.json is for whoever writes such proofs anew: true ones and false ones, with what is wrong, and the
step that refuses it. `python -m tests.fhe_auc.input_proofs.test_sessions` makes it: nothing in it is random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs import sessions
from fhe_auc.input_proofs.proofs import prove
from fhe_auc.input_proofs.sessions import (
    RANDOMNESS_BYTES,
    InputProofs,
    QueryKey,
    Received,
    Submissions,
    aggregators_part,
    helpers_part,
    joint_seed,
    weights,
)
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from fhe_auc.rlwe.packing import byte_rows, octet_rows, pack, packed_size, unpack
from tests.support.proved_counts import REAL, statement_of

VECTORS = Path(__file__).with_name("vectors") / "input_proofs.json"
KEY, DIGEST = QueryKey(bytes(range(32))), bytes(range(32, 64))
# Counts 0 and 1 are those of a column's levels, 2 of all rows, and 3 is what is left of the cap.
STATEMENT = statement_of(REAL, 4, 2, 4, 3, [{0: 1, 1: 1, 3: 1}, {0: 1, 1: 1, 2: -1}])
CAP, COUNTS = 12, [2, 3, 5, 7]
SESSION = InputProofs(STATEMENT, DIGEST, constants_of=lambda parties: np.array([[CAP, 0]] * len(parties), np.uint64))
HEAD = 96  # bytes of a proof before what is padded


@dataclass(frozen=True)
class Sent:
    """What a party sends each server, and what the aggregator says of it if not the truth."""

    party: int
    padded: bytes
    proof: bytes
    seed: bytes
    pad: Residues  # of digits, then of the proof
    randomness: bytes  # as the helper has it
    answers: bytes | None = None

    def whole(self) -> bool:
        return bool(received([self]).whole[0])

    def answered(self) -> bytes:
        return self.answers or answers_about([self])[0]

    def held(self) -> bool:
        """Whether the helper accepts it, where the aggregator does not look at what it gets."""
        return held_of([self])[0]


def received(sent: Sequence[Sent]) -> Received:
    padded = octet_rows([each.padded for each in sent], packed_size(STATEMENT.digits, REAL))
    proofs = octet_rows([each.proof for each in sent], SESSION.proof_bytes)
    return SESSION.received([each.party for each in sent], padded, proofs)


def answers_about(sent: Sequence[Sent]) -> list[bytes]:
    digits = np.stack([unpack(each.padded, STATEMENT.digits, REAL) for each in sent])
    return byte_rows(SESSION.answers(KEY, [each.party for each in sent], digits, received(sent)))


def held_of(sent: Sequence[Sent], key: bytes = KEY) -> list[bool]:
    randomness = octet_rows([each.randomness for each in sent], RANDOMNESS_BYTES)
    answers = octet_rows([each.answered() for each in sent], SESSION.answer_bytes)
    parties, seeds, pads = [each.party for each in sent], [each.seed for each in sent], [each.pad for each in sent]
    return SESSION.held(key, parties, seeds, np.stack(pads), randomness, answers).tolist()


def key_of(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def digits_of(counts: list[int]) -> list[int]:
    return [each // 4**place % 4 for each in counts for place in (0, 1)]


def sent(digits: list[int], party: int = 0, digest: bytes = DIGEST, parts: tuple[bytes, ...] = ()) -> Sent:
    """What the party's code would send of these digits, if it sent them; with these parts, if it had chosen them."""
    t, own = REAL, np.array([each % REAL for each in digits], np.uint64)
    seed, blind, shape = key_of("seed of the pad"), key_of("blind"), STATEMENT.shape
    pad = uniform(KeyStream(key_of("pad")), t, STATEMENT.digits + shape.size)
    padded = pack(add(own, pad[: len(own)], t), t)
    first, second = parts or (aggregators_part(blind, digest, party, padded), helpers_part(seed, digest, party))
    seeds = uniform(KeyStream(key_of("seeds of wires")), t, shape.chunk, shape.proofs)
    (of_digits,) = weights(STATEMENT, [joint_seed(digest, party, (first, second))])
    proof = add(prove(STATEMENT, own, of_digits, seeds), pad[len(own) :], t)
    return Sent(party, padded, first + second + blind + pack(proof, t), seed, pad, first + second)


def with_proof(party: Sent, proof: bytes) -> Sent:
    """Another proof at the aggregator; the helper has the parts that are in it."""
    return replace(party, proof=proof, randomness=proof[:RANDOMNESS_BYTES])


def one_more(data: bytes, place: int, count: int) -> bytes:
    residues = unpack(data, count, REAL).copy()
    residues[place] = (int(residues[place]) + 1) % REAL
    return pack(residues, REAL)


def lies() -> dict[str, Sent]:
    """Digits that are none, or equations that do not hold, with proofs as an honest party makes them."""
    half = pow(2, -1, REAL)
    return {
        "a digit is the base": sent([4, 0, *digits_of([1, 5, 7])]),
        "a count is negative": sent([-1, 0, *digits_of([6, 5, 7])]),
        "a count is a fraction": sent([half, 0, half, 0, *digits_of([1, 11])]),
        "counts wrap around the prime": sent([REAL // 2, 0, (REAL + 5 - REAL // 2) % REAL, 0, *digits_of([5, 7])]),
        "a count cancels a negative one in each place": sent([5, -1, *digits_of([4, 5, 7])]),
        "counts are more than the cap": sent(digits_of([6, 7, 13, 0])),
        "counts are more than the cap, and what is left of it negative": sent([*digits_of([6, 7, 13]), -1, 0]),
        "a group's counts do not add up to those of all rows": sent(digits_of([2, 3, 6, 7])),
    }


def refused_by_the_aggregator() -> dict[str, Sent]:
    """What is not whole: the proof is none, or about something else."""
    honest, other = sent(digits_of(COUNTS)), sent(digits_of([3, 2, 5, 7]))
    proof, first, second = honest.proof, honest.proof[:32], honest.proof[32:64]
    return {
        "another party's proof": replace(honest, party=1),
        "a proof of another session": sent(digits_of(COUNTS), digest=bytes(32)),
        "a proof of other counts": with_proof(honest, other.proof),
        "padded digits that were changed": replace(honest, padded=one_more(honest.padded, 0, 8)),
        "another blind": with_proof(honest, proof[:64] + key_of("another blind") + proof[HEAD:]),
        "an aggregator's part that was chosen": sent(digits_of(COUNTS), parts=(key_of("chosen"), second)),
        "both parts in each other's place": with_proof(honest, second + first + proof[64:]),
        "a number that is not below the prime": with_proof(honest, proof[:HEAD] + b"\xff" * 6 + proof[HEAD + 6 :]),
    }


def refused_by_the_helper() -> dict[str, Sent]:
    """What is no lie about digits, and is not `held`."""
    honest, shape = sent(digits_of(COUNTS)), STATEMENT.shape
    head, share, first = honest.proof[:HEAD], honest.proof[HEAD:], honest.proof[:32]
    residues = unpack(share, shape.size, REAL)
    exchanged = np.concatenate([residues[: shape.seeds], np.roll(residues[shape.seeds :], shape.quotient)])
    other, answers, swapped = sent(digits_of([3, 2, 5, 7])), honest.answered(), honest.pad.copy()
    swapped[:2], count = swapped[1::-1], shape.verifier_size
    return {
        "a proof of other counts, bound to these": with_proof(other, other.proof[:HEAD] + share),
        "a seed that was changed": with_proof(honest, head + one_more(share, 0, shape.size)),
        "a quotient that was changed": with_proof(honest, head + one_more(share, shape.size - 1, shape.size)),
        "quotients in each other's place": with_proof(honest, head + pack(exchanged, REAL)),
        "a helper's part that was chosen": sent(digits_of(COUNTS), parts=(first, key_of("chosen"))),
        "the helper has another aggregator's part": replace(honest, randomness=key_of("another") + head[32:64]),
        "the helper has another seed": replace(honest, seed=key_of("another seed")),
        "the helper has another pad": replace(honest, pad=swapped),
        "an answer that was changed": replace(honest, answers=answers[:32] + one_more(answers[32:], 3, count)),
        "an answer that is not below the prime": replace(honest, answers=answers[:32] + b"\xff" * 6 + answers[38:]),
        "an answer for other joint randomness": replace(honest, answers=bytes(32) + answers[32:]),
    }


CASES = {
    "what an honest party sends": (sent(digits_of(COUNTS)), None),
    "a device of a fleet that sends no rows": (sent(digits_of([0, 0, 0, 12]), party=99_999), None),
    **{name: (party, "received") for name, party in refused_by_the_aggregator().items()},
    **{name: (party, "held") for name, party in (lies() | refused_by_the_helper()).items()},
}
NO_COUNTS = {"a count is negative": [-1, 6, 5, 7], "a count has too many digits": [16, 0, 16, 0]}


@pytest.mark.parametrize("name", CASES)
def test_what_is_sent_is_refused_by_the_step_that_has_to(name: str) -> None:
    party, refused_by = CASES[name]
    assert party.whole() == (refused_by != "received")
    if refused_by != "received":
        assert party.held() == (refused_by is None)


def document() -> dict[str, Any]:
    shape = STATEMENT.shape
    first, vectors = dict[str, Any](), list[dict[str, Any]]()
    for name, (party, refused_by) in CASES.items():
        found: dict[str, Any] = {"party": party.party, "padded": party.padded.hex(), "seed": party.seed.hex()}
        found |= {"proof": party.proof.hex(), "pad": pack(party.pad, REAL).hex()}
        if party.randomness != party.proof[:RANDOMNESS_BYTES]:
            found["randomness"] = party.randomness.hex()
        if refused_by != "received":
            found["answers"] = party.answered().hex()
        new = {key: each for key, each in found.items() if each != first.get(key)}
        vectors.append({"what": name, "refused_by": refused_by, **new})
        first = first or found
    vectors += [{"what": name, "refused_by": "digits_of", "counts": counts} for name, counts in NO_COUNTS.items()]
    return {
        "how": "Bytes are hex. What a vector does not say is as in the first; the helper's randomness is the proof's "
        "otherwise. Digits have the lowest place first, terms are [count, equation, sign].",
        "statement": {
            "prime": REAL,
            "entries": STATEMENT.entries,
            "length": int(STATEMENT.lengths[0]),
            "base": shape.base,
            "calls": shape.calls,
            "terms": np.stack([*astuple(STATEMENT.equations)[1:]], axis=1).tolist(),
            "constants": [CAP, 0],
        },
        "digest": DIGEST.hex(),
        "key": KEY.hex(),
        "vectors": vectors,
    }


def test_the_vectors_are_pinned() -> None:
    """Whoever changes what is sent breaks what is written elsewhere by them: a new label, a new format version."""
    assert document() == json.loads(VECTORS.read_text(encoding="utf-8"))


def test_what_a_party_makes_holds_and_is_never_the_same_twice() -> None:
    digits, honest = np.array(digits_of(COUNTS), np.uint64), sent(digits_of(COUNTS))
    pad = honest.pad[-SESSION.size :]
    made = [SESSION.made(0, digits, honest.padded, honest.seed, pad) for _ in range(2)]
    assert made[0][64:HEAD] != made[1][64:HEAD]  # blinds
    shares = [subtract(unpack(each[HEAD:], SESSION.size, REAL), pad, REAL) for each in made]
    assert len(np.unique([each[: STATEMENT.shape.seeds] for each in shares])) == 2 * STATEMENT.shape.seeds
    for proof in made:
        assert with_proof(honest, proof).whole()
        assert with_proof(honest, proof).held()


def test_each_proof_and_each_party_has_weights_of_its_own() -> None:
    drawn = weights(STATEMENT, [key_of("one"), key_of("another")])
    assert drawn.shape == (2, STATEMENT.shape.chunk, STATEMENT.shape.proofs)
    assert len(np.unique(drawn)) == drawn.size


def test_each_party_of_many_is_judged_by_itself_and_under_the_key_that_was_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "_BLOCK", 3 * (SESSION.digits + SESSION.size))  # three at a time
    parties = [party for party, refused_by in CASES.values() if refused_by != "received" and party.answers is None]
    assert answers_about(parties) == [each.answered() for each in parties]
    parties_of_all, steps = zip(*CASES.values(), strict=True)
    assert received(parties_of_all).whole.tolist() == [refused_by != "received" for refused_by in steps]
    assert held_of(parties) == [each.held() for each in parties]
    assert not any(held_of(parties, bytes(32)))
    assert not received([]).whole.size
    for key in (b"", KEY[1:]):
        with pytest.raises(DeserialisationError, match="key of the query"):
            held_of(parties, key)


def test_a_party_that_tells_each_server_other_parts_is_found_though_its_proof_fits_the_helpers() -> None:
    """Otherwise it could choose its weights by what it tells the helper."""
    honest = sent(digits_of(COUNTS))
    lie = sent(digits_of(COUNTS), parts=(key_of("another"), honest.randomness[32:]))
    apart = replace(lie, proof=honest.proof[:HEAD] + lie.proof[HEAD:])
    assert apart.whole()
    assert not apart.held()
    # All but the comparison of both servers' joint randomness says that it holds.
    own = joint_seed(DIGEST, 0, (lie.randomness[:32], lie.randomness[32:]))
    assert replace(apart, answers=own + apart.answered()[32:]).held()


SECRET, MANIFEST = bytes(32), bytes(range(32))
DIGESTS = [bytes([number]) * 32 for number in range(3)]


def fixed(*digests: bytes) -> Submissions:
    found = Submissions(len(digests))
    for each in digests:
        found.add(each)
    return found


def test_a_query_cannot_exist_before_the_last_submission_nor_a_submission_after_it() -> None:
    found = Submissions(3)
    for missing, digest in zip((3, 2, 1), DIGESTS, strict=True):
        with pytest.raises(EvaluationError, match=f"{missing} submissions are not fixed"):
            found.query_key(SECRET, MANIFEST)
        found.add(digest)
    with pytest.raises(EvaluationError, match="no further one"):
        found.add(DIGESTS[0])
    assert found.query_key(SECRET, MANIFEST) == fixed(*DIGESTS).query_key(SECRET, MANIFEST)


def test_the_key_hangs_on_every_submission_their_order_the_secret_and_the_manifest() -> None:
    right, other = fixed(*DIGESTS), bytes(31) + b"1"
    keys = {
        right.query_key(SECRET, MANIFEST),
        right.query_key(other, MANIFEST),
        right.query_key(SECRET, other),
        fixed(*DIGESTS[::-1]).query_key(SECRET, MANIFEST),
        fixed(*DIGESTS[:2], b"").query_key(SECRET, MANIFEST),
        fixed(*DIGESTS[:2]).query_key(SECRET, MANIFEST),
        fixed(DIGESTS[0] + DIGESTS[1], DIGESTS[2]).query_key(SECRET, MANIFEST),
    }
    assert {len(key) for key in keys} == {32}
    assert len(keys) == 7


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(document(), indent=1) + "\n", encoding="utf-8")
