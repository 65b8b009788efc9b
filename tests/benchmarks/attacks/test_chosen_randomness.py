"""Whoever chooses the joint randomness of its proofs proves what is false: so it has to follow from what is submitted.

In a small field, where such a party finds what it looks for. In a session's the search for one of the four proofs takes
2^42 submissions, and for all of them 2^168.
"""

from dataclasses import replace

import numpy as np

from fhe_auc.input_proofs.sessions import BLIND_BYTES, PART_BYTES, RANDOMNESS_BYTES, InputProofs, QueryKey, Received
from fhe_auc.input_proofs.statement import PROOFS, Equations, Shape, Statement
from fhe_auc.rlwe.modular import Residues, add
from fhe_auc.rlwe.packing import octet_rows, pack, unpack
from fhe_auc_benchmarks.attacks.exact_auc.lying_parties import Making

CAP, SESSION, SEED = 40, bytes(32), b"s" * 32


def statement(prime: int, entries: int, calls: int) -> Statement:
    """So many counts of two bits, which add up to the cap."""
    terms = np.arange(entries)
    shape = Shape(2 * entries, 2, calls)
    equation = Equations(1, terms, np.zeros(entries, np.int64), np.ones(entries, np.int64))
    return Statement(prime, np.full(entries, 2), shape, equation)


SMALL = statement(257, 31, 4)


PAD = np.arange(SMALL.digits + SMALL.shape.size, dtype=np.uint64) * np.uint64(7) % np.uint64(SMALL.prime)


def making(digits: Residues) -> Making:
    padded = pack(add(digits, PAD[: SMALL.digits], SMALL.prime), SMALL.prime)
    return Making(SMALL, SESSION, 0, digits, padded, SEED, PAD[SMALL.digits :], bytes(BLIND_BYTES))


def received(proofs: InputProofs, made: Making, proof: bytes) -> Received:
    return proofs.received([0], octet_rows([made.padded], len(made.padded)), octet_rows([proof], len(proof)))


def holds(proofs: InputProofs, made: Making, proof: bytes) -> list[bool]:
    """What the helper decides under 20 keys of the query, without the aggregator's check."""
    found, digits = list[bool](), unpack(made.padded, SMALL.digits, SMALL.prime)[None]
    randomness = octet_rows([proof[:RANDOMNESS_BYTES]], RANDOMNESS_BYTES)
    for key in (QueryKey(bytes([number]) * 32) for number in range(20)):
        answers = proofs.answers(key, [0], digits, received(proofs, made, proof))
        found += proofs.held(key, [0], [SEED], PAD[None], randomness, answers).tolist()
    return found


def digits_for(weights: Residues) -> Residues:
    """Return digits, six of them no bits, that suit these weights and the cap: any liar's that knows the weights.

    The six are of the first call: the first one of each of so many polynomials.
    """
    t = SMALL.prime
    generator = np.random.default_rng(1)
    digits = np.zeros(SMALL.digits, np.int64)
    six = SMALL.shape.calls * np.arange(6)
    digits[2 * generator.choice(np.arange(six[-1] // 2 + 1, SMALL.entries), 8, replace=False)] = 1
    # Σ r·c = 0 for four proofs: c_1 … c_4 follow from c_5 and c_6.
    four, fifths, sixths = weights[:PROOFS].T.astype(float), *weights[PROOFS:6].astype(int)
    determinant = round(np.linalg.det(four))
    inverse = np.rint(determinant * np.linalg.inv(four)).astype(int) * pow(determinant, -1, t) % t
    roots = {x * (x - 1) % t: x for x in range(2, t)}
    left = (CAP - int(digits.sum())) % t
    for fifth in range(1, t):
        for sixth in range(1, t):
            products = [*(-inverse @ (fifth * fifths + sixth * sixths) % t).tolist(), fifth, sixth]
            if all(each in roots for each in products):
                for sides in np.ndindex((2,) * 6):
                    found = [
                        (1 - roots[each]) % t if side else roots[each]
                        for each, side in zip(products, sides, strict=True)
                    ]
                    if sum(found) % t == left:
                        digits[six] = found
                        return digits.astype(np.uint64)
    raise AssertionError("there are no such digits")


def test_who_knows_the_weights_before_its_digits_would_pass_so_the_aggregator_works_them_out_again() -> None:
    session = InputProofs(SMALL, SESSION, constants_of=lambda parties: np.array([[CAP]], np.uint64))
    chosen = b"c" * PART_BYTES, None
    before = replace(making(np.zeros(SMALL.digits, np.uint64)), chosen=chosen)
    lie = replace(making(digits_for(before.weights)), chosen=chosen)
    assert int(lie.digits.max()) > 1
    proof = lie.proof()
    assert all(holds(session, lie, proof))
    assert not received(session, lie, proof).whole[0]
    honest = making(lie.digits).proof()  # with the part that follows from the digits nothing holds
    assert received(session, lie, honest).whole[0]
    assert not any(holds(session, lie, honest))
