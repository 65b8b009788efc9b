"""Whatever bytes arrive, the process lives: they load, or are refused with `DeserialisationError`.

The attacker knows the format. Mutations are tried in a child process, because the failure looked for is a library that
takes the whole process down, as OpenFHE's own parser does.
"""

from typing import Any

import pytest

from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.ciphertexts import unwrap, wrap

# An object of the kind that the command line says, a way to load it, and mutations of four sorts.
_ALL = """
import hashlib, json, resource, sys, warnings
import msgspec
import numpy as np
from fhe_auc import ckks
from fhe_auc.base.errors import DeserialisationError
from tests.support.schemes import Ckks

warnings.simplefilter("ignore")
backend, kind, seed, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
generator, packed = np.random.default_rng(seed), msgspec.msgpack.encode
scheme = Ckks()
pair = ckks.generate(scheme.parameters(backend))
submission = pair.secret.encrypt(scheme.some(1))
objects = {
    "submission": (submission, pair.public.read_submission),
    "result": (scheme.computed(pair.public, pair.public.read_submission(submission)),
               lambda data: pair.secret.decrypt_sums(data, 1)),
    "public context": (pair.public.to_bytes(), ckks.load_public),
    "secret context": (pair.secret.to_bytes(), ckks.load_secret),
}
original, load = objects[kind]
others = [data for data, _ in objects.values()]
head, body = original[:8], original[8:]  # magic and version
reports = {sort: {"refused": 0, "loaded": 0, "surprises": []} for sort in ("damage", "forgery", "structure", "changed")}


def attempt(sort, data, what):
    print(what, file=sys.stderr, flush=True)  # the last line tells what killed the process
    try:
        load(data)
        reports[sort]["loaded"] += 1
    except DeserialisationError:
        reports[sort]["refused"] += 1
    except BaseException as error:
        reports[sort]["surprises"].append(f"{what}: {type(error).__name__}: {str(error)[-100:]}")


def mutate(data, header=160):
    def position():  # half of all hits go to the beginning, where structure is; a quarter to the end
        size, choice = len(changed), generator.random()
        part = min(size, header) if choice < 0.5 else min(size, 100) if choice < 0.75 else size
        place = int(generator.integers(max(part, 1)))
        return size - 1 - place if 0.5 <= choice < 0.75 else place

    changed, length = bytearray(data), int(generator.integers(1, 64))
    way, where = int(generator.integers(7)), position()
    source = others[int(generator.integers(len(others)))]
    start = int(generator.integers(len(source)))
    if way == 0:
        for _ in range(int(generator.integers(1, 4))):
            changed[position()] ^= 1 << int(generator.integers(8))
    elif way == 1:
        changed[where] = int(generator.choice([0, 1, 0x7F, 0x80, 0x90, 0xC0, 0xC6, 0xDD, 0xFF]))
    elif way < 6:  # cut off, cut out, put in, or overwritten by another object's
        end = {2: len(changed), 3: where + length, 4: where, 5: where + 64 * length}[way]
        changed[where:end] = {4: generator.bytes(length), 5: source[start : start + 64 * length]}.get(way, b"")
    else:
        changed += generator.bytes(length)
    return bytes(changed), f"{kind}: way {way} at {where} of {len(data)}"


def every_way_wrong(value):
    yield from (None, True, 0, -1, 2**63, 1.5, float("nan"), "", "x" * 70000, b"", [], {}, [[]], [0] * 100)
    if isinstance(value, bytes):
        yield from (value[:-1], value + b"\\0", value[: len(value) // 2], value * 2, bytes(len(value)),
                    b"\\xff" * len(value), generator.bytes(len(value)), value[::-1])


for _ in range(rounds):
    data, what = mutate(original)
    attempt("damage", data, what)
    data, what = mutate(body)
    attempt("forgery", head + data, "body, " + what)
# The attacker speaks the format: the container is well-formed, what is in it is not.
fields = msgspec.msgpack.decode(body)
name, fingerprint, payload = fields
for index, value in enumerate(fields):
    for wrong in every_way_wrong(value):
        attempt("structure", head + packed([*fields[:index], wrong, *fields[index + 1 :]]), f"{index}: {wrong!r:.30}")
for depth in (10, 1000, 100000):
    attempt("structure", head + bytes([0x91]) * depth, f"arrays nested {depth} deep")
    attempt("structure", head + packed([name, fingerprint, bytes([0x91]) * depth]), f"payload nested {depth} deep")
for size in (2**31 - 1, 2**32 - 1):
    for code in (0xC6, 0xDB, 0xDD, 0xDF):
        attempt("structure", head + bytes([code]) + size.to_bytes(4, "big"), f"claims {size} items")
for _ in range(0 if "context" in kind else rounds // 3):
    changed, what = mutate(payload, 64)
    attempt("structure", head + packed([name, fingerprint, changed]), "payload, " + what)

if "context" in kind:
    parts = msgspec.msgpack.decode(payload)

    def stored(parts):
        mark = fingerprint
        try:
            digest = hashlib.sha256(parts[1]).digest() if kind == "public context" else parts[1]
            mark = msgspec.convert(parts[0], ckks.CkksParameters).fingerprint(digest)
        except Exception:
            pass  # what is no parameters is refused for that
        return head + packed([name, mark, packed(parts, order="deterministic")])

    for index, part in enumerate(parts):
        for wrong in every_way_wrong(part):
            attempt("structure", stored([*parts[:index], wrong, *parts[index + 1 :]]), f"part {index}: {wrong!r:.30}")
    for wrong in (parts[::-1], [*parts[:-2], *parts[:-3:-1]], parts[:-1], [*parts, b""]):
        attempt("structure", stored(wrong), "parts in another order, or of another number")
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    small = {"ring_dimension": 4096, "log2_scale": 20.0}
    changes = [
        *({**small, "modulus_bits": [each] * 2, "special_bits": each} for each in (36, 25)),
        {"modulus_bits": [20] * 7, "log2_scale": 20.0}, {"modulus_bits": [60, 60, 60, 60], "special_bits": -40},
        {"modulus_bits": [51] * 4, "special_bits": 2}, {"rotations": [1]}, {"surplus": 1},
        *({"backend": each} for each in ("palisade", "", 5)),
        *({"ring_dimension": each} for each in (16384, 32768, 0, -8192)),
        *({"modulus_bits": each} for each in ([], [60], [60, 60], [56, 48, 56], [20, 60, 60], [60, 20, 20])),
        *({"modulus_bits": each} for each in ([30, 55, 51], [0, 80, 80], [-60, 60, 60, 60, 30])),
        *({"ring_dimension": 16384, "modulus_bits": each} for each in ([20] * 18, [56] * 4, [56, 55, 55, 55])),
        *({"special_bits": each} for each in (0, 1, 10, 30, -100, 61, 2**62)),
        *({"log2_scale": each} for each in (1.0, 0.0, -5.0, 78.0, 1e308, float("nan"), float("inf"), 40)),
    ]
    for change in changes:
        attempt("changed", stored([{**parts[0], **change}, *parts[1:]]), f"parameters with {change}")
print(json.dumps(reports))
"""

ROUNDS = {"submission": 150, "result": 50, "public context": 20, "secret context": 150}


@pytest.mark.parametrize(
    "seed", ["1", *(pytest.param(str(seed), marks=pytest.mark.slow, id=f"{seed}, more") for seed in (10, 11, 12))]
)
@pytest.mark.parametrize("kind", ROUNDS)
def test_damaged_forged_or_wrong_content_or_parameters_load_or_are_refused(
    backend: str, kind: str, seed: str, run_child: Any
) -> None:
    rounds = ROUNDS[kind] * (1 if seed == "1" else 50)
    reports = run_child(_ALL, backend, kind, seed, str(rounds), timeout=280)  # a report says: the process lived
    assert [report["surprises"] for report in reports.values()] == [[]] * 4
    least = {"damage": rounds // 4, "forgery": rounds // 4, "structure": 41, "changed": 21 if "context" in kind else 0}
    assert all(reports[sort]["refused"] >= count for sort, count in least.items())  # the mutations hit something


def test_fingerprints_of_other_lengths_are_refused(pair: ckks.KeyPair) -> None:
    for context, load in ((pair.public, ckks.load_public), (pair.secret, ckks.load_secret)):
        _, payload = unwrap(context.kind, context.to_bytes())
        for length in (*range(32), 33, 64, 1000):
            with pytest.raises(DeserialisationError, match="fingerprint of another length"):
                load(wrap(context.kind, bytes(length), payload))
