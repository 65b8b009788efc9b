"""Proofs, answers and decisions are, number for number, those of the VDAF draft's construction, and honest ones hold.

The oracle (tests.support.vdaf) makes what the draft's own vectors say: vectors/vdaf.json names the draft's files, and
has digests of what they list: all of Prio3SumVec, with one proof and three, whose circuit is built like ours. What it
is told here is the circuit, the field, and where the query's randomness comes from.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.proofs import Query, coefficients_of, decide, prove, root_of_unity, values_at_roots
from fhe_auc.input_proofs.statement import FORGERY_BITS, LINEAR_CHECKS, MOST_BASE, PROOFS, Shape, Statement, best_shape
from fhe_auc.rlwe.modular import Residues, add, primes_below, subtract, uniform
from tests.support import vdaf
from tests.support.proved_counts import (
    LARGE,
    PRIMES,
    REAL,
    TOY,
    Proved,
    oracles_circuit,
    oracles_field,
    oracles_query,
    proved,
    statement_of,
    statements,
    statements_and_counts,
)

LARGEST = primes_below(56, 1, 2**14)[0]
KEY, DIGEST = bytes(range(32)), bytes(range(32, 64))
VECTORS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("vectors").joinpath("vdaf.json").read_text())[
    "vectors"
]
NONCE, CONTEXT = bytes(range(16)), b"some application"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["file"]))
def test_the_oracle_says_what_the_drafts_vectors_say(vector: dict[str, Any]) -> None:
    pytest.importorskip("Crypto.Hash.TurboSHAKE128")
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


def oracles_answers(
    statement: Statement, key: bytes, digits: list[int], proofs: Residues, weights: Residues, constants: list[int]
) -> list[int]:
    """The draft's verifiers, our order: wires, the polynomial at the point, the output; then the linear checks."""
    field, circuit, t = oracles_field(statement.prime), oracles_circuit(statement.shape), statement.prime
    points, rows = oracles_query(statement, key, DIGEST)
    found: list[int] = []
    for point, proof, own in zip(points, proofs.tolist(), weights.tolist(), strict=True):
        output, *others = vdaf.query(field, circuit, digits, proof, point, own, 2)
        found += [*others, output]
    places = range(statement.length)
    counts = [
        sum(digits[entry * statement.length + place] * statement.base**place for place in places)
        for entry in range(statement.entries)
    ]
    terms = list(zip(statement.terms.tolist(), statement.equations_of.tolist(), statement.signs.tolist(), strict=True))
    for row in rows:
        of_counts = sum(row[equation] * sign * counts[term] for term, equation, sign in terms)
        found.append((of_counts - sum(x * y for x, y in zip(row, constants, strict=True))) % t)
    return found


def answers_of(query: Query, party: Proved) -> tuple[Residues, Residues]:
    """The aggregator's and the helper's, of one party."""
    weights, constants = party.weights[None], party.constants[None]
    padded, opened = party.padded, party.opened
    return (
        query.answers(padded[0][None], padded[1][None], weights, constants),
        query.answers(opened[0][None], opened[1][None], weights),
    )


def held(query: Query, party: Proved) -> bool:
    return bool(decide(party.statement, add(*answers_of(query, party), party.statement.prime))[0])


@given(statements_and_counts(), st.integers(0, 2**32))
def test_proofs_and_both_servers_answers_are_the_drafts_number_for_number(
    case: tuple[Statement, NDArray[np.int64]], seed: int
) -> None:
    statement, counts = case
    party, query = proved(statement, counts, seed), Query(statement, KEY, DIGEST)
    field, circuit = oracles_field(statement.prime), oracles_circuit(statement.shape)
    assert circuit.proof_size == statement.shape.size
    for own, seeds, proof in zip(party.weights.tolist(), party.seeds.tolist(), party.proofs.tolist(), strict=True):
        assert proof == vdaf.prove(field, circuit, party.digits.tolist(), seeds, own)
    aggregators, helpers = answers_of(query, party)
    nothing = [0] * statement.equations
    for answers, shares, constants in (
        (aggregators, party.padded, party.constants.tolist()),
        (helpers, party.opened, nothing),
    ):
        expected = oracles_answers(statement, KEY, shares[0].tolist(), shares[1], party.weights, constants)
        assert answers.tolist() == [expected]
    together = add(aggregators, helpers, statement.prime)
    of_proofs = together[0, :-LINEAR_CHECKS].reshape(PROOFS, -1).tolist()
    assert all(vdaf.decide(field, circuit, [output, *others]) for *others, output in of_proofs)
    assert decide(statement, together).tolist() == [True]


@settings(max_examples=30)
@given(statements_and_counts([REAL, LARGE]), st.integers(0, 2**32), st.data())
def test_one_residue_that_is_changed_anywhere_makes_a_proof_fail(
    case: tuple[Statement, NDArray[np.int64]], seed: int, data: st.DataObject
) -> None:
    """Of either server's digits or proofs, constants, or answers; by anything."""
    statement, counts = case
    t, party, query = statement.prime, proved(case[0], counts, seed), Query(case[0], KEY, DIGEST)
    by = data.draw(st.one_of(st.integers(1, t - 1), st.sampled_from([1, t - 1, t // 2])))
    for name in ("padded", "opened", "constants"):
        again = proved(statement, counts, seed)
        changed = getattr(again, name) if name == "constants" else data.draw(st.sampled_from(getattr(again, name)))
        flat = changed.reshape(-1)
        place = data.draw(st.integers(0, len(flat) - 1))
        flat[place] = (int(flat[place]) + by) % t
        assert not held(query, again)
    answers = add(*answers_of(query, party), t)
    place = data.draw(st.integers(0, answers.shape[1] - 1))
    answers[0, place] = (int(answers[0, place]) + by) % t
    assert not decide(statement, answers)[0]


@pytest.mark.parametrize(
    ("entries", "length", "base", "points"),
    [(1, 1, 2, 2), (1, 1, 8, 16), (15, 1, 2, 16), (3, 1, 8, 2), (2, 2, 3, 8)],
    ids=["one digit, one call", "fewer digits than calls", "a digit a call", "one call of all", "odd base"],
)
def test_an_odd_shape_is_proved_and_its_every_lie_found(entries: int, length: int, base: int, points: int) -> None:
    """Every digit, one after the other, is the base, or −1: the smallest lies, with equations that hold."""
    statement = statement_of(REAL, entries, length, base, points)
    counts = np.zeros(entries, np.int64)
    query = Query(statement, KEY, DIGEST)
    assert held(query, proved(statement, counts, 1))
    for place in range(statement.digits):
        for lie in (base, -1):
            digits = statement.digits_of(counts)
            digits[place] = lie % REAL
            constant = lie * base ** (place % length) % REAL
            assert not held(query, Proved(statement, digits, 2, [constant]))


def test_at_a_sessions_size_a_proof_holds_and_the_smallest_lie_is_found() -> None:
    """1,000 thresholds, two labels, and what is left of a cap of 4,500."""
    length, shape = best_shape(4500, 2001, REAL)
    statement = statement_of(REAL, 2001, length, shape.base, shape.points)
    query, counts = Query(statement, KEY, DIGEST), np.arange(2001) % 5
    assert held(query, proved(statement, counts, 1))
    digits = statement.digits_of(counts)
    digits[-1] = shape.base
    constant = int(counts[:-1].sum()) + int(digits[-length:] @ [shape.base**place for place in range(length)])
    assert not held(query, Proved(statement, digits, 2, [constant]))


def test_joint_randomness_lets_one_lie_of_t_pass_whatever_the_digits_are() -> None:
    """All weights of two wrong digits are tried, at the smallest field that has the roots of unity."""
    t = 17
    statement = statement_of(t, 3, 1, 2, 4)
    query = Query(statement, bytes(32), DIGEST)
    for first, second in ((2, 0), (16, 2), (5, 9)):
        digits = np.array([first, second, 1], np.uint64)
        weights = np.full((t * t, 3), 3, np.uint64)
        weights[:, :2] = np.indices((t, t)).reshape(2, -1).T
        proofs = prove(statement, digits, weights, uniform(KeyStream(bytes(32)), t, t * t, 2))
        answers = query.answers(
            np.repeat(digits[None], t * t, axis=0),
            np.repeat(proofs[:, None], PROOFS, axis=1),
            np.repeat(weights[:, None], PROOFS, axis=1),
            np.full((t * t, 1), int(digits.sum()) % t, np.uint64),
        )
        assert int(decide(statement, answers).sum()) == t


def test_a_query_shows_nothing_of_itself_and_takes_keys_of_32_bytes() -> None:
    statement = statement_of(TOY, 2, 2, 4, 4)
    assert repr(Query(statement, KEY, DIGEST)) == "Query(...)"
    with pytest.raises(InputError, match="32 bytes"):
        Query(statement, KEY[:16], DIGEST)


@given(st.data(), st.sampled_from([*PRIMES, LARGEST]), st.sampled_from([1, 2, 4, 32]))
def test_transforms_are_values_at_the_roots_and_undo_one_another(data: st.DataObject, prime: int, size: int) -> None:
    element = st.one_of(st.integers(0, prime - 1), st.sampled_from([0, prime - 1]))
    rows = data.draw(st.lists(st.lists(element, min_size=size, max_size=size), min_size=1, max_size=3))
    field, found = oracles_field(prime), values_at_roots(np.array(rows, np.uint64), prime)
    assert found.tolist() == [[field.value(row, root) for root in field.roots(size)] for row in rows]
    assert coefficients_of(found, prime).tolist() == rows
    assert coefficients_of(np.array(rows, np.uint64), prime).tolist() == [field.interpolated(row) for row in rows]


@pytest.mark.parametrize("prime", [*PRIMES, LARGEST])
def test_a_root_has_its_order_and_an_order_that_the_field_lacks_is_refused(prime: int) -> None:
    for order in (1, 2, 64):
        root = root_of_unity(order, prime)
        assert [exponent for exponent in range(1, order + 1) if pow(root, exponent, prime) == 1] == [order]
    for order in (0, 3, 2**40):
        with pytest.raises(ValueError, match="no element of order"):
            root_of_unity(order, prime)


# --- Statements -------------------------------------------------------------------------------------------------------


@given(statements_and_counts(), st.integers(0, 2**32))
def test_counts_come_back_from_digits_and_from_shares_of_them(
    case: tuple[Statement, NDArray[np.int64]], seed: int
) -> None:
    statement, counts = case
    digits, party = statement.digits_of(counts), proved(statement, counts, seed)
    assert digits.max() < statement.base
    assert statement.counts_of(digits).tolist() == counts.tolist()
    padded, opened = statement.counts_of(np.stack([party.padded[0], party.opened[0]]))
    assert add(padded, opened, statement.prime).tolist() == counts.tolist()


@pytest.mark.parametrize("counts", [[-1, 0], [16, 0], [0], [0, 0, 0], [2**62, 0]])
def test_what_is_no_count_of_so_many_digits_has_none(counts: list[int]) -> None:
    statement = statement_of(TOY, 2, 2, 4, 4)
    with pytest.raises(InputError, match=r"^a party's numbers are not 2 counts of 2 digits$"):
        statement.digits_of(np.array(counts, np.int64))


@given(statements(), st.data())
def test_equations_with_weights_add_up_as_integers_do(statement: Statement, data: st.DataObject) -> None:
    t, row = statement.prime, st.integers(0, statement.prime - 1)
    rows = data.draw(
        st.lists(st.lists(row, min_size=statement.equations, max_size=statement.equations), min_size=1, max_size=3)
    )
    expected = [[0] * statement.entries for _ in rows]
    for term, equation, sign in zip(statement.terms, statement.equations_of, statement.signs, strict=True):
        for found, weights in zip(expected, rows, strict=True):
            found[term] += int(sign) * weights[equation]
    assert statement.combined(np.array(rows, np.uint64)).tolist() == [[each % t for each in row] for row in expected]


def test_a_count_may_stand_in_very_many_equations() -> None:
    """Its weights add up before they are reduced: 2^14 of 50 bits fill 64."""
    many = 5_000
    statement = statement_of(LARGE, 2, 1, 2, 2, [{0: -1, 1: 1}] * many)
    weights = np.full((1, many), LARGE - 1, np.uint64)
    assert statement.combined(weights).tolist() == [[many % LARGE, -many % LARGE]]


def test_a_statement_whose_sums_could_wrap_around_or_that_does_not_fit_together_is_refused() -> None:
    largest = (REAL - 1) // 4**3 - 1
    assert statement_of(REAL, largest, 3, 4, 4, [{0: 1}]).entries == largest
    with pytest.raises(CapacityError, match="could wrap around"):
        statement_of(REAL, largest + 1, 3, 4, 4, [{0: 1}])
    whole = statement_of(TOY, 3, 2, 4, 4)
    for change in ({"length": 1}, {"signs": whole.signs[:2]}, {"equations": 0}, {"shape": Shape(5, 4, 4)}):
        with pytest.raises(InputError, match="do not fit together"):
            dataclasses.replace(whole, **change)
    for signs, terms in (([1, 1, 2], [0, 1, 2]), ([1, 1, 0], [0, 1, 2]), ([1, 1, -1], [0, 1, 1])):
        with pytest.raises(InputError, match="a count twice, or a multiple of one"):
            dataclasses.replace(whole, signs=np.array(signs), terms=np.array(terms))


@pytest.mark.parametrize(("most", "entries"), [(20, 201), (4500, 2001), (4500, 8001), (1, 1), (10**6, 21)])
def test_the_best_shape_is_the_shortest_that_is_safe(most: int, entries: int) -> None:
    """Every base and every number of points is tried, by the definitions."""
    length, shape = best_shape(most, entries, REAL)
    assert shape.base**length > most >= shape.base ** (length - 1) or (most, length) == (1, 1)
    sizes = []
    for base, points in product(range(2, MOST_BASE + 1), [2**power for power in range(1, 12)]):
        own = next(number for number in range(1, 64) if base**number > most)
        calls, digits = points - 1, own * entries
        error = base * calls / (REAL - points)
        safe = error ** (PROOFS - 1) <= 2.0**-FORGERY_BITS and (entries + 1) * base**own < REAL
        power_of_two = next(2**power for power in range(9) if 2**power >= base)
        if safe and (REAL - 1) % (points * power_of_two) == 0:
            sizes.append(digits + PROOFS * (2 * -(-digits // calls) + base * calls + 1))
    assert shape.digits + PROOFS * shape.size == min(sizes)
    assert shape.error(REAL) ** (PROOFS - 1) <= 2.0**-FORGERY_BITS
    statement = statement_of(REAL, entries, length, shape.base, shape.points)  # it has all roots of unity
    assert statement.proof_size == PROOFS * shape.size


@pytest.mark.parametrize("prime", PRIMES[:2])
def test_a_small_field_proves_nothing(prime: int) -> None:
    with pytest.raises(CapacityError, match="cannot be proved"):
        best_shape(20, 10, prime)


# --- What servers see -------------------------------------------------------------------------------------------------


SMALLEST, OF_SESSION = 17, bytes(32)
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
    [pytest.param(A_CALL, 10, id="one a call"), pytest.param(TWO_A_CALL, 2, id="two", marks=pytest.mark.slow)],
)
def test_the_wires_that_servers_see_are_uniform_whatever_the_digits_are(statement: Statement, keys: int) -> None:
    """All values stand for one choice of seeds each, so that the answers of any two inputs have one distribution.

    All else follows from the wires. If points were not drawn again, one in two would be at a digit.
    """
    wires, size = statement.shape.wires, statement.shape.verifier_size
    places = SMALLEST ** np.arange(size, dtype=np.uint64)
    for number in range(keys):
        query = Query(statement, number.to_bytes(32, "big"), OF_SESSION)
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
    queries = [Query(A_CALL, bytes([number]) * 32, OF_SESSION) for number in (1, 2)]
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
QUERY, OTHER_QUERY = (Query(A_CALL, bytes([number]) * 32, OF_SESSION) for number in (1, 2))


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
    **{f"any numbers, {number}": _numbers(4, number)[: A_CALL.verifier_size] for number in range(6)},
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


@cache
def _honest(counted: int) -> Residues:
    honest = add(_helpers(counted), _of_aggregator(QUERY), SMALLEST)
    assert decide(A_CALL, honest).all()
    return honest


def verdicts(counted: int, answers: Residues, helpers: Residues) -> list[int]:
    """How many of all 289 seeds let a proof hold, for each proof by itself; and the equations."""
    honest, both, found = _honest(counted), add(helpers, answers, SMALLEST), []
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
