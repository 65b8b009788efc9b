"""What servers see has one distribution, whatever the digits are.

Each by itself sees shares, which are uniform. Both servers' answers together are functions of the digits and of the
proofs' seeds: at a field of 17 elements all seeds are tried.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, decide, prove
from fhe_auc.input_proofs.statement import LINEAR_CHECKS, PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
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
            vdaf.query(field, circuit, digits.tolist(), [0] * circuit.proof_size, root, WEIGHTS[0].tolist(), 2)


def test_answers_under_two_keys_would_tell_two_inputs_apart() -> None:
    """So a submission is answered once: a wire at two points has one seed, and the seed cancels."""
    queries = [Query(A_CALL, bytes([number]) * 32, DIGEST) for number in (1, 2)]
    seen = []
    for digits in (ONE, OTHER):
        first, second = (answers_for_all_seeds(query, digits)[:, 0, 1].tolist() for query in queries)
        seen.append(set(zip(first, second, strict=True)))
    assert len(seen[0]) == len(seen[1]) == SMALLEST
    assert not seen[0] & seen[1]


def _numbers(*parts: int) -> Residues:
    return uniform(KeyStream(bytes(parts).rjust(32, b"\1")), SMALLEST, 64)


ALIKE = [each for each in np.indices((2,) * 7).reshape(7, -1).T.astype(np.uint64) if each.sum() == 3]
PADDED, SHARE = _numbers(1)[:7], _numbers(2)[: A_CALL.shape.size]  # what the aggregator has of digits and of each proof
OTHER_WEIGHTS = add(WEIGHTS, _numbers(3)[:7], SMALLEST)
QUERY, OTHER_QUERY = (Query(A_CALL, bytes([number]) * 32, DIGEST) for number in (1, 2))


def _answers(
    query: Query, digits: Residues, proofs: Residues, weights: Residues = WEIGHTS, *, constants: bool = False
) -> Residues:
    """A server's about shares of shape (cases, 7) and (cases, proofs, size)."""
    of_all = np.repeat(weights[None], len(digits), axis=0)
    return query.answers(digits, proofs, of_all, np.full((len(digits), 1), 3, np.uint64) if constants else None)


def _shifted(where: int, of_digits: bool) -> Residues:
    digits, share = PADDED.copy(), SHARE.copy()
    shifted = digits if of_digits else share
    shifted[where] = (shifted[where] + np.uint64(1)) % np.uint64(SMALLEST)
    return _of_aggregator(QUERY, digits, share)


def _of_aggregator(
    query: Query, digits: Residues = PADDED, share: Residues = SHARE, weights: Residues = WEIGHTS
) -> Residues:
    return _answers(query, digits[None], np.stack([share] * PROOFS)[None], weights, constants=True)[0]


DEVIATIONS: dict[str, Residues] = {
    **{f"a digit shifted, {place}": _shifted(place, True) for place in range(7)},
    **{f"a proof shifted, {place}": _shifted(place, False) for place in range(A_CALL.shape.size)},
    "other weights": _of_aggregator(QUERY, weights=OTHER_WEIGHTS),
    "answers at another point": _of_aggregator(OTHER_QUERY),
    "zeros": np.zeros(A_CALL.verifier_size, np.uint64),
    **{f"any numbers, {number}": _numbers(4, number)[: A_CALL.verifier_size] for number in range(20)},
}
"""What an aggregator may answer in place of what it should: it knows its shares, the weights and the query."""


@cache
def _shares(counted: int) -> tuple[Residues, Residues]:
    """The helper's, of digits and of proofs with all seeds, for one of `ALIKE`."""
    seeds = np.indices((SMALLEST,) * 2).reshape(2, -1).T.astype(np.uint64)
    repeated = [np.repeat(own[None], len(seeds), axis=0) for own in WEIGHTS]
    proofs = np.stack([prove(A_CALL, ALIKE[counted], own, seeds) for own in repeated], axis=1)
    of_digits = np.repeat(subtract(ALIKE[counted], PADDED, SMALLEST)[None], len(seeds), axis=0)
    return of_digits, subtract(proofs, SHARE[None, None], SMALLEST)


@cache
def _helpers(counted: int) -> Residues:
    return _answers(QUERY, *_shares(counted))


def verdicts(counted: int, answers: Residues, helpers: Residues) -> list[int]:
    """How many of all 289 seeds let a proof hold, for each proof by itself; and the equations."""
    honest = add(_helpers(counted), _of_aggregator(QUERY), SMALLEST)
    assert decide(A_CALL, honest).all()
    both, found = add(helpers, answers, SMALLEST), []
    for part in (*np.split(np.arange(A_CALL.verifier_size - LINEAR_CHECKS), PROOFS), np.arange(-LINEAR_CHECKS, 0)):
        mixed = honest.copy()
        mixed[:, part] = both[:, part]
        found.append(int(decide(A_CALL, mixed).sum()))
    return found


@pytest.mark.parametrize("name", DEVIATIONS)
def test_the_verdict_is_as_likely_for_all_digits_whatever_the_aggregator_answers(name: str) -> None:
    """So it cannot make an honest proof fail for some digits and hold for others."""
    first, *others = (verdicts(each, DEVIATIONS[name], _helpers(each)) for each in range(len(ALIKE)))
    assert all(each == first for each in others)
    assert min(first) < 289


def test_what_a_helper_is_given_is_uniform_and_the_same_for_all_digits() -> None:
    """Less its own answers it is both servers' together: wires of every value, and what follows from them."""
    places = SMALLEST ** np.arange(A_CALL.shape.verifier_size, dtype=np.uint64)
    first, *others = (np.sort(answers_for_all_seeds(QUERY, digits) @ places, axis=0) for digits in ALIKE)
    assert all((each == first).all() for each in others)
    assert (np.sort(first % places[2], axis=0) == np.arange(289)[:, None]).all()


def test_a_helper_that_took_the_aggregators_word_for_the_weights_would_tell_digits_by_its_verdict() -> None:
    """So it works them out of what the party has signed. Else its share of digits would meet the liar's weights."""
    answers, cases = _of_aggregator(QUERY, weights=OTHER_WEIGHTS), range(len(ALIKE))
    asked = (_answers(QUERY, *_shares(each), OTHER_WEIGHTS) for each in cases)
    assert len({tuple(verdicts(*each)) for each in zip(cases, [answers] * len(ALIKE), asked, strict=True)}) > 1
