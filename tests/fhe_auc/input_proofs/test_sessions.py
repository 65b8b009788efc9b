"""A session's proofs as its roles have them: what each lie is refused by, and vectors of it all.

vectors/input_proofs.json is for whoever writes such proofs anew: true ones and false ones, with what is wrong, and the
step that refuses it. `python -m tests.fhe_auc.input_proofs.test_sessions` makes it: nothing in it is random.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import prove
from fhe_auc.input_proofs.sessions import (
    InputProof,
    InputProofs,
    PartyAtHelper,
    Submissions,
    Submitted,
    aggregators_part,
    helpers_part,
    helpers_share,
    joint_seed,
    weights,
)
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, add, inverse, multiply, subtract, uniform
from fhe_auc.rlwe.packing import pack, unpack
from tests.support.proved_counts import REAL, statement_of

VECTORS = Path(__file__).with_name("vectors") / "input_proofs.json"
KEY, DIGEST = bytes(range(32)), bytes(range(32, 64))
# Counts 0 and 1 are those of a column's levels, 2 of all rows, and 3 is what is left of the cap.
STATEMENT = statement_of(REAL, 4, 2, 4, 4, [{0: 1, 1: 1, 3: 1}, {0: 1, 1: 1, 2: -1}])
CAP, COUNTS = 12, [2, 3, 5, 7]


def session_of(
    pads: Iterable[Residues] = (), statement: Statement = STATEMENT, constants: Sequence[int] = (CAP, 0)
) -> InputProofs:
    """That of a statement; the helper opens these pads, one after the other."""
    opened = iter(pads)
    return InputProofs(
        statement,
        DIGEST,
        digits_in=lambda padded: unpack(padded, statement.digits, statement.prime),
        pad_of=lambda party, seed: next(opened),
        constants_of=lambda party: np.array(constants, np.uint64),
    )


@dataclass(frozen=True)
class Sent:
    """What a party sends each server, and what the aggregator says of it if not the truth."""

    party: int
    padded: bytes
    proof: InputProof
    seed: bytes
    pad: Residues
    parts: tuple[bytes, bytes]  # as the helper has them
    answers: bytes | None = None

    def answered(self, statement: Statement = STATEMENT, constants: Sequence[int] = (CAP, 0)) -> bytes:
        submitted = Submitted(self.party, self.padded, self.proof)
        return self.answers or session_of((), statement, constants).answers(KEY, [submitted])[0]

    def held(self, statement: Statement = STATEMENT, constants: Sequence[int] = (CAP, 0)) -> bool:
        """Whether the helper accepts it, where the aggregator does not look at what it gets."""
        opened = PartyAtHelper(self.party, self.seed, self.parts, self.answered(statement, constants))
        (found,) = session_of([self.pad], statement).held(KEY, [opened])
        return found


def key_of(name: str) -> bytes:
    """Of a vector's randomness."""
    return hashlib.sha256(name.encode()).digest()


def digits_of(counts: list[int]) -> list[int]:
    return [each // 4**place % 4 for each in counts for place in (0, 1)]


def sent(digits: list[int], party: int = 0, digest: bytes = DIGEST) -> Sent:
    """What the party's code would send of these digits, if it sent them."""
    t, own = REAL, np.array([each % REAL for each in digits], np.uint64)
    seed, blind = key_of("seed of the pad"), key_of("blind")
    pad = uniform(KeyStream(key_of("pad")), t, STATEMENT.digits)
    padded = pack(add(own, pad, t), t)
    parts = aggregators_part(blind, digest, party, padded), helpers_part(seed, digest, party)
    seeds = uniform(KeyStream(key_of("seeds of wires")), t, PROOFS, STATEMENT.shape.wires)
    proofs = prove(STATEMENT, own, weights(STATEMENT, joint_seed(digest, party, parts)), seeds)
    share = subtract(proofs, helpers_share(STATEMENT, seed, digest, party), t)
    return Sent(party, padded, InputProof(parts, blind, pack(share.reshape(-1), t)), seed, pad, parts)


def with_proof(party: Sent, **change: Any) -> Sent:
    """Another proof at the aggregator; the helper has the parts that are in it."""
    proof = InputProof(**{name: change.get(name, getattr(party.proof, name)) for name in ("parts", "blind", "share")})
    return dataclasses.replace(party, proof=proof, parts=proof.parts)


def one_more(data: bytes, place: int, count: int) -> bytes:
    residues = unpack(data, count, REAL).copy()
    residues[place] = (int(residues[place]) + 1) % REAL
    return pack(residues, REAL)


def true_ones() -> dict[str, Sent]:
    return {
        "what an honest party sends": sent(digits_of(COUNTS)),
        "a device of a fleet that sends no rows": sent(digits_of([0, 0, 0, 12]), party=99_999),
    }


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
    """What `check` refuses: the proof is none, or about something else."""
    honest, other = sent(digits_of(COUNTS)), sent(digits_of([3, 2, 5, 7]))
    share, parts = honest.proof.share, honest.proof.parts
    return {
        "another party's proof": dataclasses.replace(honest, party=1),
        "a proof of another session": sent(digits_of(COUNTS), digest=bytes(32)),
        "a proof of other counts": with_proof(honest, parts=other.parts, share=other.proof.share),
        "padded digits that were changed": dataclasses.replace(honest, padded=one_more(honest.padded, 0, 8)),
        "another blind": with_proof(honest, blind=key_of("another blind")),
        "an aggregator's part that was chosen": with_proof(honest, parts=(key_of("chosen"), parts[1])),
        "both parts in each other's place": with_proof(honest, parts=parts[::-1]),
        "a share that is too short": with_proof(honest, share=share[:-1]),
        "a share with a number that is not below the prime": with_proof(honest, share=b"\xff" * 6 + share[6:]),
        "a part of another length": with_proof(honest, parts=(parts[0], parts[1][:16])),
        "no blind": with_proof(honest, blind=b""),
    }


def refused_by_the_helper() -> dict[str, Sent]:
    """What is no lie about digits, and `held` refuses."""
    honest, size = sent(digits_of(COUNTS)), STATEMENT.proof_size
    share, parts, t = honest.proof.share, honest.proof.parts, REAL
    by_proof = unpack(share, size, t).reshape(PROOFS, -1)
    # An old proof for new digits, the aggregator's part made for these.
    other = sent(digits_of([3, 2, 5, 7]))
    old = with_proof(other, share=share)
    answers = honest.answered()
    own_count = STATEMENT.verifier_size
    helpers = helpers_share(STATEMENT, honest.seed, DIGEST, 0)
    chosen, pad = (parts[0], key_of("chosen")), add(honest.pad, np.eye(8, dtype=np.uint64)[0], t)
    with_chosen = prove(
        STATEMENT,
        np.array(digits_of(COUNTS), np.uint64),
        weights(STATEMENT, joint_seed(DIGEST, 0, chosen)),
        uniform(KeyStream(key_of("seeds of wires")), t, PROOFS, STATEMENT.shape.wires),
    )
    return {
        "a proof of other counts, bound to these": old,
        "a seed of a wire that was changed": with_proof(honest, share=one_more(share, 0, size)),
        "a coefficient that was changed": with_proof(honest, share=one_more(share, size - 1, size)),
        "two proofs in each other's place": with_proof(honest, share=pack(by_proof[[1, 0, 2, 3]].reshape(-1), t)),
        "the helper's part was chosen, and the proof made for it": with_proof(
            honest, parts=chosen, share=pack(subtract(with_chosen, helpers, t).reshape(-1), t)
        ),
        "the helper has another aggregator's part than the aggregator": dataclasses.replace(
            honest, parts=(key_of("another"), parts[1])
        ),
        "the helper has another seed": dataclasses.replace(honest, seed=key_of("another seed")),
        "the helper has another pad": dataclasses.replace(honest, pad=pad),
        "the aggregator's answer was changed": dataclasses.replace(
            honest, answers=answers[:32] + one_more(answers[32:], 3, own_count)
        ),
        "the aggregator's answer says other joint randomness": dataclasses.replace(
            honest, answers=bytes(32) + answers[32:]
        ),
    }


CASES = {
    **{name: (party, None) for name, party in true_ones().items()},
    **{name: (party, "check") for name, party in refused_by_the_aggregator().items()},
    **{name: (party, "held") for name, party in (lies() | refused_by_the_helper()).items()},
}
NO_COUNTS = {"a count is negative": [-1, 6, 5, 7], "a count has too many digits": [16, 0, 16, 0]}


@pytest.mark.parametrize("name", CASES)
def test_what_is_sent_is_refused_by_the_step_that_has_to(name: str) -> None:
    party, refused_by = CASES[name]
    if refused_by == "check":
        with pytest.raises(DeserialisationError):
            session_of().check(party.party, party.padded, party.proof)
        return
    session_of().check(party.party, party.padded, party.proof)
    assert party.held() == (refused_by is None)


def document() -> dict[str, Any]:
    shape = STATEMENT.shape
    first: dict[str, Any] = {}
    vectors: list[dict[str, Any]] = []
    for name, (party, refused_by) in CASES.items():
        found: dict[str, Any] = {"party": party.party, "padded": party.padded.hex(), "seed": party.seed.hex()}
        found |= {"parts": [each.hex() for each in party.proof.parts], "blind": party.proof.blind.hex()}
        found |= {"share": party.proof.share.hex(), "pad": pack(party.pad, REAL).hex()}
        if party.parts != party.proof.parts:
            found["helpers_parts"] = [each.hex() for each in party.parts]
        if refused_by != "check":
            found["answers"] = party.answered().hex()
        new = {key: each for key, each in found.items() if each != first.get(key)}
        vectors.append({"what": name, "refused_by": refused_by, **new})
        first = first or found
    vectors += [{"what": name, "refused_by": "digits_of", "counts": counts} for name, counts in NO_COUNTS.items()]
    return {
        "how": "Bytes are hex. What a vector does not say is as in the first; helpers_parts are parts otherwise. "
        "Digits have the lowest place first, terms are [count, equation, sign].",
        "statement": {
            "prime": REAL,
            "entries": STATEMENT.entries,
            "length": STATEMENT.length,
            "base": shape.base,
            "points": shape.points,
            "terms": np.stack([STATEMENT.terms, STATEMENT.equations_of, STATEMENT.signs], axis=1).tolist(),
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
    session, digits = session_of(), np.array(digits_of(COUNTS), np.uint64)
    honest = sent(digits_of(COUNTS))
    made = [session.made(0, digits, honest.padded, honest.seed) for _ in range(2)]
    assert made[0].blind != made[1].blind
    # A proof begins with the seeds of its wires: none is used twice, not by another proof either.
    helpers, wires = helpers_share(STATEMENT, honest.seed, DIGEST, 0), STATEMENT.shape.wires
    shares = [unpack(proof.share, STATEMENT.proof_size, REAL).reshape(PROOFS, -1) for proof in made]
    assert len(np.unique([add(share, helpers, REAL)[:, :wires] for share in shares])) == 2 * PROOFS * wires
    for proof in made:
        session.check(0, honest.padded, proof)
        assert with_proof(honest, parts=proof.parts, blind=proof.blind, share=proof.share).held()


def test_each_party_of_many_is_judged_by_itself_and_under_the_key_that_was_used() -> None:
    parties = [party for party, refused_by in CASES.values() if refused_by != "check" and party.answers is None]
    answers = session_of().answers(KEY, [Submitted(each.party, each.padded, each.proof) for each in parties])
    assert answers == [each.answered() for each in parties]
    assert {len(each) for each in answers} == {session_of().answer_bytes}
    opened = [PartyAtHelper(each.party, each.seed, each.parts, own) for each, own in zip(parties, answers, strict=True)]
    pads = [each.pad for each in parties]
    assert session_of(pads).held(KEY, opened) == [each.held() for each in parties]
    assert not any(session_of(pads).held(bytes(32), opened))
    assert (session_of().answers(KEY, []), session_of().held(KEY, [])) == ([], [])
    for change in (b"", answers[0][:-1], answers[0][:-1] + b"\xff"):
        with pytest.raises(DeserialisationError):
            session_of(pads).held(KEY, [opened[0]._replace(answers=change)])


def test_neither_servers_secrets_are_printed() -> None:
    party = sent(digits_of(COUNTS))
    opened = PartyAtHelper(party.party, party.seed, party.parts, party.answered())
    for text in (repr(opened), repr(party.proof), repr(Submitted(0, party.padded, party.proof))):
        assert "secret" in text
        assert not any(repr(each)[2:-1] in text for each in (party.seed, party.proof.blind, party.proof.share))


def test_a_party_that_tells_each_server_another_part_finds_a_lie_that_would_pass() -> None:
    """A collision: 600 weights at the aggregator and 600 at the helper, for 17^4 sums that four proofs could have.

    The aggregator does not know the helper's part, nor the helper the aggregator's. With digits other than zero, each
    server's products with its own weights are those with weights that depend on the shares.
    """
    t = 17
    statement = statement_of(t, 7, 1, 2, 8)
    digits = np.array([2, 1, 1, 1, 1, 1, 1], np.uint64)  # one is no digit to the base 2
    seed, blind = key_of("seed"), key_of("blind")
    pad = uniform(KeyStream(key_of("pad")), t, 7)
    share = add(digits, pad, t)
    padded, of_helper = pack(share, t), subtract(np.zeros_like(pad), pad, t)
    true_parts = aggregators_part(blind, DIGEST, 0, padded), helpers_part(seed, DIGEST, 0)

    def tried(parts: tuple[bytes, bytes], own: Residues) -> tuple[tuple[int, ...], Residues, tuple[bytes, bytes]]:
        """What this server's part of the first call's value is in each proof, but for a factor; its products."""
        products = multiply(weights(statement, joint_seed(DIGEST, 0, parts)), own, t)
        return tuple(products[:, 0].tolist()), products, parts

    at_aggregator = {}
    for number in range(600):
        first, products, parts = tried((true_parts[0], key_of(f"helper's {number}")), share)
        at_aggregator[first] = products, parts
    for number in range(600):
        first, of_helpers, helpers_parts = tried((key_of(f"aggregator's {number}"), true_parts[1]), of_helper)
        opposite = tuple(-each % t for each in first)
        if opposite in at_aggregator:
            break
    products, parts = at_aggregator[opposite]
    effective = multiply(add(products, of_helpers, t), inverse(digits, t), t)
    proofs = prove(statement, digits, effective, uniform(KeyStream(key_of("wires")), t, PROOFS, statement.shape.wires))
    of_proofs = subtract(proofs, helpers_share(statement, seed, DIGEST, 0), t)
    lie = Sent(0, padded, InputProof(parts, blind, pack(of_proofs.reshape(-1), t)), seed, pad, helpers_parts)
    session_of((), statement).check(0, padded, lie.proof)
    assert not lie.held(statement, [8])
    # All but the comparison of both servers' joint randomness says that it holds.
    own = joint_seed(DIGEST, 0, helpers_parts)
    assert dataclasses.replace(lie, answers=own + lie.answered(statement, [8])[32:]).held(statement)


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
    text = json.dumps(document(), indent=1)
    VECTORS.write_text(text + "\n", encoding="utf-8")
