"""What servers see has one distribution, whatever the digits are.

Each by itself sees shares, which are uniform. Both servers' answers together are functions of the digits and of the
proofs' seeds: at a field of 17 elements all seeds are tried.
"""

from __future__ import annotations

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.prove import prove
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Statement
from fhe_auc.input_proofs.verify import Query, decide
from fhe_auc.rlwe.modular import Residues, uniform
from tests.support import vdaf
from tests.support.proved_counts import oracles_circuit, oracles_field, statement_of

SMALLEST, DIGEST = 17, bytes(32)
A_CALL = statement_of(SMALLEST, 7, 1, 2, 8)  # one digit to the base 2 a call; 8 of the 17 points are roots of unity
TWO_A_CALL = statement_of(SMALLEST, 6, 1, 2, 4)
ONE, OTHER = np.array([[1, 1, 0, 0, 0, 1, 0], [0, 0, 1, 1, 1, 0, 0]], np.uint64)  # six of them, for TWO_A_CALL
WEIGHTS = uniform(KeyStream(bytes(32)), SMALLEST, PROOFS, 7)


def answers_for_all_seeds(query: Query, digits: Residues, statement: Statement = A_CALL) -> Residues:
    """Both servers' together, by proof: shape (seeds, proofs, residues); and the proofs hold."""
    wires, weights_of = statement.shape.wires, WEIGHTS[:, : statement.digits]
    seeds = np.indices((SMALLEST,) * wires).reshape(wires, -1).T.astype(np.uint64)
    proofs = [prove(statement, digits, np.repeat(own[None], len(seeds), axis=0), seeds) for own in weights_of]
    answers = query.answers(
        np.repeat(digits[None], len(seeds), axis=0),
        np.stack(proofs, axis=1),
        np.repeat(weights_of[None], len(seeds), axis=0),
        np.full((len(seeds), 1), 3, np.uint64),
    )
    assert decide(statement, answers).all()
    assert not answers[:, -LINEAR_CHECKS:].any()
    return answers[:, :-LINEAR_CHECKS].reshape(len(seeds), PROOFS, -1)


@pytest.mark.parametrize(
    ("statement", "keys"),
    [pytest.param(A_CALL, 30, id="one a call"), pytest.param(TWO_A_CALL, 2, id="two", marks=pytest.mark.slow)],
)
def test_the_wires_that_servers_see_are_uniform_whatever_the_digits_are(statement: Statement, keys: int) -> None:
    """All values stand for one choice of seeds each, so that the answers of any two inputs have one distribution.

    All else follows from the wires. If points were not drawn again, one in two would be at a digit.
    """
    wires, size = statement.shape.wires, statement.shape.verifier_size
    places = SMALLEST ** np.arange(size, dtype=np.uint64)
    for number in range(keys):
        query = Query(statement, number.to_bytes(32, "big"), DIGEST)
        own = (answers_for_all_seeds(query, each[: statement.digits], statement) for each in (ONE, OTHER))
        of_one, of_other = (np.sort(each @ places, axis=0) for each in own)
        assert (of_one == of_other).all()
        assert (np.sort(of_one % places[wires], axis=0) == np.arange(SMALLEST**wires)[:, None]).all()


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
