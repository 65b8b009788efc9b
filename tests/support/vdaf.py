"""Prio3 as the IETF's draft writes it down (draft-irtf-cfrg-vdaf-17), in Python's integers: slow, and short enough to
hold against the text.

`prove`, `query` and `decide` are the draft's FlpBBCGGI19, for any field and any circuit with one gadget. `Prio3` adds
shares and XOF. Whoever has another circuit, another field or other randomness hands these in: that is how the proofs of
`fhe_auc.input_proofs` are held against the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

Polynomial: TypeAlias = list[int]
"""Coefficients, the lowest first; a number is a polynomial with one."""

Call: TypeAlias = Callable[[list[int]], int]
"""What a circuit calls its gadget by: with its inputs, for its output."""


@dataclass(frozen=True)
class Field:
    """Integers modulo a prime; `generator` has the order `order`, a power of two."""

    prime: int
    generator: int
    order: int

    def roots(self, size: int) -> list[int]:
        root = pow(self.generator, self.order // size, self.prime)
        return [pow(root, exponent, self.prime) for exponent in range(size)]

    def sum(self, polynomials: Sequence[Polynomial]) -> Polynomial:
        return [sum(each) % self.prime for each in zip_longest(*polynomials, fillvalue=0)]

    def difference(self, left: Sequence[int], right: Sequence[int]) -> list[int]:
        return [(x - y) % self.prime for x, y in zip(left, right, strict=True)]

    def product(self, left: Polynomial, right: Polynomial) -> Polynomial:
        found = [0] * (len(left) + len(right) - 1)
        for place, factor in enumerate(left):
            for other, own in enumerate(right):
                found[place + other] += factor * own
        return [each % self.prime for each in found]

    def value(self, polynomial: Polynomial, point: int) -> int:
        found = 0
        for coefficient in reversed(polynomial):
            found = (found * point + coefficient) % self.prime
        return found

    def interpolated(self, values: Sequence[int]) -> Polynomial:
        """The polynomial with these values at the roots of unity, in order."""
        size = len(values)
        roots, scale = self.roots(size), pow(size, -1, self.prime)
        return [
            scale * sum(value * roots[-place * power % size] for place, value in enumerate(values)) % self.prime
            for power in range(size)
        ]

    @property
    def width(self) -> int:
        return -(-self.prime.bit_length() // 8)

    def encoded(self, values: Sequence[int]) -> bytes:
        return b"".join(each.to_bytes(self.width, "little") for each in values)

    def decoded(self, data: bytes) -> list[int]:
        return [int.from_bytes(data[at : at + self.width], "little") for at in range(0, len(data), self.width)]


FIELD64 = Field(2**32 * 4294967295 + 1, pow(7, 4294967295, 2**32 * 4294967295 + 1), 2**32)
_PRIME128 = 2**66 * 4611686018427387897 + 1
FIELD128 = Field(_PRIME128, pow(7, 4611686018427387897, _PRIME128), 2**66)


class Gadget(NamedTuple):
    """A polynomial of this degree in so many inputs; `of` takes polynomials for these, and so numbers."""

    inputs: int
    degree: int
    of: Callable[[Field, Sequence[Polynomial]], Polynomial]


MULTIPLICATION = Gadget(2, 2, lambda field, inputs: field.product(*inputs))


def parallel_sum(gadget: Gadget, count: int) -> Gadget:
    """The sum of so many gadgets; the inputs of each stand together."""

    def of(field: Field, inputs: Sequence[Polynomial]) -> Polynomial:
        width = gadget.inputs
        return field.sum([gadget.of(field, inputs[at : at + width]) for at in range(0, len(inputs), width)])

    return Gadget(count * gadget.inputs, gadget.degree, of)


class Circuit(NamedTuple):
    """What is proved: that the output is zero, which a circuit finds by calling one gadget, and linearly otherwise.

    `evaluate` takes the call, encoded measurement, joint randomness and number of shares.
    """

    gadget: Gadget
    calls: int
    inputs: int  # residues of an encoded measurement
    joint: int  # residues of joint randomness
    evaluate: Callable[[Field, Call, list[int], list[int], int], int]
    encode: Callable[[Any], list[int]]
    truncate: Callable[[Field, list[int]], list[int]]

    @property
    def points(self) -> int:
        return 1 << self.calls.bit_length()  # the least power of two above the number of calls

    @property
    def coefficients(self) -> int:
        return self.gadget.degree * (self.points - 1) + 1

    @property
    def proof_size(self) -> int:
        return self.gadget.inputs + self.coefficients

    @property
    def verifier_size(self) -> int:
        return 2 + self.gadget.inputs


def prove(field: Field, circuit: Circuit, encoded: list[int], seeds: list[int], joint: list[int]) -> list[int]:
    gadget, inputs_of = circuit.gadget, [seeds]

    def call(inputs: list[int]) -> int:
        inputs_of.append(inputs)
        return gadget.of(field, [[each] for each in inputs])[0]

    circuit.evaluate(field, call, encoded, joint, 1)
    found = gadget.of(field, _wires(field, circuit, inputs_of))
    return [*seeds, *found, *[0] * (circuit.coefficients - len(found))]


def query(
    field: Field, circuit: Circuit, encoded: list[int], proof: list[int], point: int, joint: list[int], shares: int
) -> list[int]:
    """Output, wires at the point, and the gadget's polynomial there: of a share, linear in it."""
    width = circuit.gadget.inputs
    inputs_of, polynomial, roots = [proof[:width]], proof[width:], field.roots(circuit.points)

    def call(inputs: list[int]) -> int:
        inputs_of.append(inputs)
        return field.value(polynomial, roots[len(inputs_of) - 1])

    output = circuit.evaluate(field, call, encoded, joint, shares)
    if pow(point, circuit.points, field.prime) == 1:
        raise ValueError("the point is a root of unity")
    at_point = [field.value(each, point) for each in _wires(field, circuit, inputs_of)]
    return [output % field.prime, *at_point, field.value(polynomial, point)]


def decide(field: Field, circuit: Circuit, verifier: list[int]) -> bool:
    output, *wires, at_point = verifier
    return output == 0 and circuit.gadget.of(field, [[each] for each in wires]) == [at_point]


def _wires(field: Field, circuit: Circuit, inputs_of: list[list[int]]) -> list[Polynomial]:
    """Each input's polynomial: its seed at 1, what it is in the calls at the next roots, zero at the others."""
    rows = inputs_of + [[0] * circuit.gadget.inputs] * (circuit.points - len(inputs_of))
    return [field.interpolated(column) for column in zip(*rows, strict=True)]


def _bits(number: int, count: int) -> list[int]:
    return [number >> place & 1 for place in range(count)]


def _number(bits: Sequence[int]) -> int:
    return sum(bit << place for place, bit in enumerate(bits))


def sum_vector(length: int, bits: int, chunk: int) -> Circuit:
    """The draft's SumVec."""
    calls = -(-length * bits // chunk)
    return Circuit(
        parallel_sum(MULTIPLICATION, chunk),
        calls,
        length * bits,
        calls,
        lambda *given: _bits_are_bits(chunk, *given),
        encode=lambda numbers: [bit for number in numbers for bit in _bits(number, bits)],
        truncate=lambda field, encoded: [
            _number(encoded[at : at + bits]) % field.prime for at in range(0, length * bits, bits)
        ],
    )


def _bits_are_bits(chunk: int, field: Field, call: Call, encoded: list[int], joint: list[int], shares: int) -> int:
    """Sum of r^{j + 1}·x·(x − 1) over the bits x of each call, r its joint randomness."""
    one = pow(shares, -1, field.prime)
    found = 0
    for number, weight in enumerate(joint):
        bits = (encoded[number * chunk : (number + 1) * chunk] + [0] * chunk)[:chunk]
        pairs = [(pow(weight, place + 1, field.prime) * bit, bit - one) for place, bit in enumerate(bits)]
        found += call([each % field.prime for pair in pairs for each in pair])
    return found


SEED_BYTES = 32
_VERSION = 12  # of the draft's domain separation, not of the draft
_MEASUREMENT, _PROOF, _JOINT, _PROVE, _QUERY, _JOINT_SEED, _JOINT_PART = range(1, 8)

Xof: TypeAlias = Callable[[bytes, bytes, bytes], Callable[[int], bytes]]
"""From seed, domain and binder to what reads so many bytes more."""


def turbo_shake_128(seed: bytes, domain: bytes, binder: bytes) -> Callable[[int], bytes]:
    from Crypto.Hash import TurboSHAKE128

    message = len(domain).to_bytes(2, "little") + domain + bytes([len(seed)]) + seed + binder
    return TurboSHAKE128.new(data=message, domain=1).read


def expanded(field: Field, read: Callable[[int], bytes], count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        drawn = int.from_bytes(read(field.width), "little") & (1 << field.prime.bit_length()) - 1
        found += [drawn] if drawn < field.prime else []
    return found


class Verified(NamedTuple):
    output: list[int]
    joint_seed: bytes
    verifier_share: bytes


@dataclass(frozen=True)
class Prio3:
    """Shares, proofs and answers as bytes; of the aggregators, number 0 is the draft's leader."""

    number: int  # of the variant
    field: Field
    circuit: Circuit
    shares: int
    context: bytes
    proofs: int = 1
    xof: Xof = turbo_shake_128

    def shard(self, measurement: Any, nonce: bytes, randomness: bytes) -> tuple[bytes, list[bytes]]:
        """Public share and input shares."""
        circuit, field = self.circuit, self.field
        seeds = [randomness[at : at + SEED_BYTES] for at in range(0, len(randomness), SEED_BYTES)]
        *seeds, prove_seed = seeds
        own_blind = seeds.pop()
        helpers = [b"".join(seeds[at : at + 2]) for at in range(0, len(seeds), 2)]
        encoded = circuit.encode(measurement)
        own, parts = encoded, []
        for index, share in enumerate(helpers, 1):
            theirs, _, blind = self._opened(index, share)
            own = field.difference(own, theirs)
            parts.append(self._part(index, blind, theirs, nonce))
        parts = [self._part(0, own_blind, own, nonce), *parts]
        joint = self._joint(self._joint_seed(parts))
        seeds_of = self._drawn(prove_seed, _PROVE, b"", circuit.gadget.inputs)
        proofs: list[int] = []
        for number in range(self.proofs):
            proofs += prove(field, circuit, encoded, seeds_of[number], joint[number])
        for index, share in enumerate(helpers, 1):
            proofs = field.difference(proofs, self._opened(index, share)[1])
        return b"".join(parts), [field.encoded(own) + field.encoded(proofs) + own_blind, *helpers]

    def verify(self, key: bytes, index: int, nonce: bytes, public: bytes, share: bytes) -> Verified:
        circuit, field = self.circuit, self.field
        encoded, proofs, blind = self._opened(index, share)
        own = self._part(index, blind, encoded, nonce)
        parts = [public[at : at + SEED_BYTES] for at in range(0, len(public), SEED_BYTES)]
        parts[index : index + 1] = [own]
        seed = self._joint_seed(parts)
        joint, points = self._joint(seed), self._drawn(key, _QUERY, nonce, 1)
        verifier: list[int] = []
        for number in range(self.proofs):
            proof = proofs[number * circuit.proof_size : (number + 1) * circuit.proof_size]
            verifier += query(field, circuit, encoded, proof, points[number][0], joint[number], self.shares)
        return Verified(circuit.truncate(field, encoded), seed, field.encoded(verifier) + own)

    def message(self, verifier_shares: Sequence[bytes]) -> bytes:
        """What each aggregator compares with its `joint_seed`; ValueError where a proof does not hold."""
        size = self.circuit.verifier_size
        total = self.field.sum([self.field.decoded(each[: self._answers]) for each in verifier_shares])
        for at in range(0, len(total), size):
            if not decide(self.field, self.circuit, total[at : at + size]):
                raise ValueError("a proof does not hold")
        return self._joint_seed([each[self._answers :] for each in verifier_shares])

    @property
    def _answers(self) -> int:
        return self.proofs * self.circuit.verifier_size * self.field.width

    def _opened(self, index: int, share: bytes) -> tuple[list[int], list[int], bytes]:
        """An input share's measurement, proofs and blind."""
        proofs = self.proofs * self.circuit.proof_size
        if index == 0:
            size = self.field.width * (self.circuit.inputs + proofs)
            residues = self.field.decoded(share[:size])
            return residues[: self.circuit.inputs], residues[self.circuit.inputs :], share[size:]
        seed, blind = share[:SEED_BYTES], share[SEED_BYTES:]
        of_measurement = self._read(seed, _MEASUREMENT, bytes([index]))
        of_proofs = self._read(seed, _PROOF, bytes([self.proofs, index]))
        return (
            expanded(self.field, of_measurement, self.circuit.inputs),
            expanded(self.field, of_proofs, proofs),
            blind,
        )

    def _part(self, index: int, blind: bytes, encoded: list[int], nonce: bytes) -> bytes:
        return self._read(blind, _JOINT_PART, bytes([index]) + nonce + self.field.encoded(encoded))(SEED_BYTES)

    def _joint_seed(self, parts: list[bytes]) -> bytes:
        return self._read(bytes(SEED_BYTES), _JOINT_SEED, b"".join(parts))(SEED_BYTES)

    def _joint(self, seed: bytes) -> list[list[int]]:
        return self._drawn(seed, _JOINT, b"", self.circuit.joint)

    def _drawn(self, seed: bytes, usage: int, binder: bytes, count: int) -> list[list[int]]:
        """So many residues for each proof."""
        drawn = expanded(self.field, self._read(seed, usage, bytes([self.proofs]) + binder), self.proofs * count)
        return [drawn[at * count : (at + 1) * count] for at in range(self.proofs)]

    def _read(self, seed: bytes, usage: int, binder: bytes) -> Callable[[int], bytes]:
        domain = bytes([_VERSION, 0]) + self.number.to_bytes(4, "big") + usage.to_bytes(2, "big") + self.context
        return self.xof(seed, domain, binder)
