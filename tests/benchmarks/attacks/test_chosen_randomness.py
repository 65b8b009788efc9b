"""Whoever chooses the joint randomness of its proofs proves what is false: so it has to follow from what is submitted.

In a small field, where such a party finds what it looks for. In a session's the search for one of the four proofs takes
2^42 submissions, and for all of them 2^168.
"""

from dataclasses import replace

import numpy as np
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.input_proofs.sessions import BLIND_BYTES, PART_BYTES, InputProof, InputProofs, PartyAtHelper, Submitted
from fhe_auc.input_proofs.statement import PROOFS, Shape, Statement
from fhe_auc.rlwe.modular import Residues, add
from fhe_auc.rlwe.packing import pack, unpack
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Making

CAP, SESSION, SEED = 40, bytes(32), b"s" * 32


def statement(prime: int, entries: int, points: int) -> Statement:
    """So many counts of two bits, which add up to the cap."""
    terms = np.arange(entries)
    shape = Shape(2 * entries, 2, points)
    return Statement(prime, entries, 2, shape, 1, terms, np.zeros(entries, np.int64), np.ones(entries, np.int64))


SMALL = statement(257, 31, 8)


def pad(of: Statement) -> Residues:
    return np.arange(of.digits, dtype=np.uint64) * np.uint64(7) % np.uint64(of.prime)


def proofs(of: Statement, cap: int = CAP) -> InputProofs:
    return InputProofs(
        of,
        SESSION,
        digits_in=lambda padded: unpack(padded, of.digits, of.prime),
        pad_of=lambda party, seed: pad(of),
        constants_of=lambda party: np.array([cap], np.uint64),
    )


def making(of: Statement, digits: Residues, blind: bytes = bytes(BLIND_BYTES)) -> Making:
    return Making(of, SESSION, 0, digits, pack(add(digits, pad(of), of.prime), of.prime), SEED, blind)


def holds(session: InputProofs, made: Making, proof: InputProof) -> list[bool]:
    """What the helper decides under 20 keys of the query, without the aggregator's check."""
    found = []
    for key in range(20):
        of_query = bytes([key]) * 32
        (answers,) = session.answers(of_query, [Submitted(0, made.padded, proof)])
        found += session.held(of_query, [PartyAtHelper(0, SEED, proof.parts, answers)])
    return found


def digits_for(weights: Residues) -> Residues:
    """Return digits, six of them no bits, that suit these weights and the cap: any liar's that knows the weights."""
    t = SMALL.prime
    generator = np.random.default_rng(1)
    digits = np.zeros(SMALL.digits, np.int64)
    digits[2 * generator.choice(SMALL.entries - 6, 8, replace=False) + 12] = 1
    of_six = weights[:, [0, 2, 4, 6, 8, 10]].astype(object)
    # Σ r·c = 0 for four proofs: c_1 … c_4 follow from c_5 and c_6.
    reduced = [[int(each) for each in row] for row in of_six]
    for column in range(PROOFS):
        pivot = next(row for row in range(column, PROOFS) if reduced[row][column])
        reduced[column], reduced[pivot] = reduced[pivot], reduced[column]
        inverse = pow(reduced[column][column], -1, t)
        reduced[column] = [each * inverse % t for each in reduced[column]]
        for row in range(PROOFS):
            if row != column:
                factor = reduced[row][column]
                reduced[row] = [(x - factor * y) % t for x, y in zip(reduced[row], reduced[column], strict=True)]
    roots = {x * (x - 1) % t: x for x in range(2, t)}
    left = (CAP - int(digits.sum())) % t
    for fifth in range(1, t):
        for sixth in range(1, t):
            products = [*(-(row[4] * fifth + row[5] * sixth) % t for row in reduced), fifth, sixth]
            if all(each in roots for each in products):
                for sides in np.ndindex((2,) * 6):
                    found = [
                        (1 - roots[each]) % t if side else roots[each]
                        for each, side in zip(products, sides, strict=True)
                    ]
                    if sum(found) % t == left:
                        digits[[0, 2, 4, 6, 8, 10]] = found
                        return digits.astype(np.uint64)
    raise AssertionError("there are no such digits")


def test_who_knows_the_weights_before_its_digits_would_pass_so_the_aggregator_works_them_out_again() -> None:
    session = proofs(SMALL)
    chosen = b"c" * PART_BYTES, None
    before = replace(making(SMALL, np.zeros(SMALL.digits, np.uint64)), chosen=chosen)
    lie = replace(making(SMALL, digits_for(before.weights)), chosen=chosen)
    assert int(lie.digits.max()) > 1
    proof = lie.proof()
    assert all(holds(session, lie, proof))
    with pytest.raises(DeserialisationError, match="not about the numbers that it has submitted"):
        session.check(0, lie.padded, proof)
    honest = making(SMALL, lie.digits).proof()  # with the part that follows from the digits nothing holds
    session.check(0, lie.padded, honest)
    assert not any(holds(session, lie, honest))
