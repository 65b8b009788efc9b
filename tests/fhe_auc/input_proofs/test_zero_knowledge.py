"""What a server sees has one distribution, whatever the digits are: of all seeds, and of many at a larger field.

Both servers' answers together are functions of the digits and of the proofs' seeds. At a field of 17 elements all seeds
can be tried.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.prove import prove
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Statement
from fhe_auc.input_proofs.verify import Query, decide
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from tests.support import vdaf
from tests.support.proved_counts import TOY, oracles_circuit, oracles_field, statement_of

SMALLEST, DIGEST = 17, bytes(32)
A_CALL = statement_of(SMALLEST, 7, 1, 2, 8)  # one digit to the base 2 a call; 8 of the 17 points are roots of unity
ONE, OTHER = np.array([[1, 1, 0, 0, 0, 1, 0], [0, 0, 1, 1, 1, 0, 0]], np.uint64)
WEIGHTS = uniform(KeyStream(bytes(32)), SMALLEST, PROOFS, 7)


def answers_for_all_seeds(query: Query, digits: Residues) -> Residues:
    """Both servers' together, by proof: shape (seeds, proofs, residues); and the proofs hold."""
    seeds = np.indices((SMALLEST, SMALLEST)).reshape(2, -1).T.astype(np.uint64)
    proofs = [prove(A_CALL, digits, np.repeat(own[None], len(seeds), axis=0), seeds) for own in WEIGHTS]
    answers = query.answers(
        np.repeat(digits[None], len(seeds), axis=0),
        np.stack(proofs, axis=1),
        np.repeat(WEIGHTS[None], len(seeds), axis=0),
        np.full((len(seeds), 1), 3, np.uint64),
    )
    assert decide(A_CALL, answers).all()
    assert not answers[:, -LINEAR_CHECKS:].any()
    return answers[:, :-LINEAR_CHECKS].reshape(len(seeds), PROOFS, -1)


def test_the_wires_that_servers_see_are_uniform_whatever_the_digits_are_under_every_key() -> None:
    """Each pair of values stands for one pair of seeds, so that the answers of any two inputs have one distribution.

    All else follows from the wires. If points were not drawn again, one in two would be at a digit.
    """
    for number in range(30):
        query = Query(A_CALL, number.to_bytes(32, "big"), DIGEST)
        of_one, of_other = (answers_for_all_seeds(query, digits) for digits in (ONE, OTHER))
        for proof in range(PROOFS):
            one, other = (sorted(map(tuple, each[:, proof].tolist())) for each in (of_one, of_other))
            assert one == other
            assert [each[:2] for each in one] == [(u, x) for u in range(SMALLEST) for x in range(SMALLEST)]


@pytest.mark.parametrize("digits", [ONE, OTHER])
def test_at_a_root_of_unity_a_wire_would_be_the_digit_itself(digits: Residues) -> None:
    field, circuit = oracles_field(SMALLEST), oracles_circuit(A_CALL.shape)
    roots = field.roots(8)
    for seed in range(SMALLEST):
        wire = field.interpolated([seed, *digits.tolist()])
        assert [field.value(wire, root) for root in roots[1:]] == digits.tolist()
        outside = {field.value(wire, point) for point in range(SMALLEST) if point not in roots}
        assert len(outside) > 2
    for root in roots:
        with pytest.raises(ValueError, match="root of unity"):
            vdaf.query(field, circuit, digits.tolist(), [0] * circuit.proof_size, [root], WEIGHTS[0].tolist(), 2)


def test_answers_under_two_keys_would_tell_two_inputs_apart() -> None:
    """So a submission is answered once: a wire at two points has one seed, and the seed cancels."""
    queries = [Query(A_CALL, bytes([number]) * 32, DIGEST) for number in (1, 2)]
    seen = []
    for digits in (ONE, OTHER):
        first, second = (answers_for_all_seeds(query, digits)[:, 0, 1].tolist() for query in queries)
        seen.append(set(zip(first, second, strict=True)))
    assert len(seen[0]) == len(seen[1]) == SMALLEST
    assert not seen[0] & seen[1]


def sample(statement: Statement, digits: Residues, parties: int, seed: int) -> tuple[Residues, Residues]:
    """The aggregator's answers, and both servers' together, of parties that send the same; (parties, residues)."""
    t, shape, stream = statement.prime, statement.shape, KeyStream(seed.to_bytes(32, "big"))
    weights = uniform(KeyStream(bytes(32)), t, PROOFS, shape.digits)
    proofs = prove(
        statement,
        digits,
        np.tile(weights, (parties, 1)),
        uniform(stream, t, parties * PROOFS, shape.wires),
    ).reshape(parties, PROOFS, -1)
    pad, pad_of_proofs = uniform(stream, t, parties, shape.digits), uniform(stream, t, *proofs.shape)
    query = Query(statement, bytes(32), DIGEST)
    of_each = np.repeat(weights[None], parties, axis=0)
    constants = np.full((parties, 1), int(digits.sum()) % t, np.uint64)
    aggregators = query.answers(subtract(digits, pad, t), subtract(proofs, pad_of_proofs, t), of_each, constants)
    return aggregators, add(aggregators, query.answers(pad, pad_of_proofs, of_each), t)


CHUNKS = [
    (statement_of(TOY, 9, 1, 4, 4), [[3, 0, 1, 2, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 3, 3, 3]]),
    (statement_of(SMALLEST, 7, 1, 2, 4), [[1, 1, 1, 0, 0, 0, 0], [0, 1, 0, 1, 0, 1, 0]]),
]


@pytest.mark.parametrize(("statement", "inputs"), CHUNKS, ids=["257", "17"])
def test_two_inputs_are_not_told_apart_by_what_servers_see(statement: Statement, inputs: list[list[int]]) -> None:
    """Chi-squared, each answer alone and in pairs; the seeds are fixed. A false alarm had a chance of 1e-6 each."""
    from scipy import stats

    t, parties = statement.prime, 4000
    samples = [sample(statement, np.array(digits, np.uint64), parties, seed) for seed, digits in enumerate(inputs)]
    for seen in (0, 1):  # the aggregator's own answers; both servers' together
        one, other = (each[seen].astype(np.int64) for each in samples)
        wires = [
            number
            for number in range(one.shape[1] - LINEAR_CHECKS)
            if seen == 0 or number % statement.shape.verifier_size < statement.shape.wires
        ]
        for place in wires:
            for own in (one, other):
                assert stats.chisquare(np.bincount(own[:, place], minlength=t)).pvalue > 1e-6
        for first, second in combinations(range(one.shape[1]), 2):
            # Few cells, as a pair of residues has too many; what is constant has one.
            cells = [
                np.bincount((own[:, first] * 6 // t) * 6 + own[:, second] * 6 // t, minlength=36)
                for own in (one, other)
            ]
            table = np.array(cells)[:, np.sum(cells, axis=0) > 0]
            if table.shape[1] == 1:
                continue
            assert stats.chi2_contingency(table).pvalue > 1e-6


def test_the_test_tells_apart_what_can_be_told_apart() -> None:
    """Without seeds, the answers of two inputs differ: what is compared above is not insensitive."""
    statement, inputs = CHUNKS[0]
    query, weights = Query(statement, bytes(32), DIGEST), uniform(KeyStream(bytes(32)), TOY, PROOFS, 9)
    nothing = np.zeros((PROOFS, statement.shape.wires), np.uint64)
    answers = []
    for each in inputs:
        digits = np.array(each, np.uint64)
        proofs = prove(statement, digits, weights, nothing)
        answers.append(query.answers(digits[None], proofs[None], weights[None])[0].tolist())
    assert answers[0] != answers[1]
