"""A maker of a device's records of its own, by docs/guide/record.md alone: plain integers, hashlib, hmac, cryptography.

Nothing of fhe-auc is imported. `Session` is what the announcement says.
"""

import hashlib
import hmac
import math
import secrets
import struct
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import add, mul

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PublicKey, Suite

Rows = Sequence[tuple[int, float]]  # labels and scores
PROOFS, DRAWS, BLOB = 4, 8, b"fhe-auc helper's blob 1\0"
HPKE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


@dataclass(frozen=True)
class Session:
    """What a record hangs on; `runs` are of wide bins and others by turns, `noise` is the device's, with epsilon."""

    session: bytes  # the manifest's id
    digest: bytes  # of the manifest
    thresholds: Sequence[float]
    runs: Sequence[int]
    row_cap: int
    prime: int
    base: int
    length: int
    calls: int
    chunk: int
    aggregator: bytes  # encryption keys
    helper: bytes
    noise: Sequence[int] = ()


def msgpack(*values: bytes | int) -> bytes:
    """A short array of short bytes, and of numbers below 2^32."""
    found = bytes([0x90 + len(values)])
    for value in values:
        if isinstance(value, bytes):
            found += b"\xc4" + bytes([len(value)]) + value
        else:
            size = sum(value >= least for least in (2**7, 2**8, 2**16))
            found += bytes([0xCB + size] if size else []) + value.to_bytes(2 ** max(size - 1, 0), "big")
    return found


def derived(secret: bytes, salt: bytes, about: bytes) -> bytes:
    """HKDF-SHA256, one block."""
    return hmac.digest(hmac.digest(salt, secret, "sha256"), about + b"\1", "sha256")


def uniform(key: bytes, prime: int, count: int) -> list[int]:
    """Residues from ChaCha20 under a key, nonce and counter zero."""
    width, found = prime.bit_length(), list[int]()
    assert prime > 0.99 * 2**width
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()
    while len(found) < count:
        word = int.from_bytes(stream.update(bytes(8)), "little") % 2**width
        found += [word] * (word < prime)
    return found


def packed(numbers: Iterable[int], prime: int) -> bytes:
    """Residues in so many bits each, the lowest first."""
    residues, width = [each % prime for each in numbers], (prime - 1).bit_length()
    whole = sum(each << width * at for at, each in enumerate(residues))
    return whole.to_bytes(-(-len(residues) * width // 8), "little")


def number(score: float) -> float:
    """A score with 24 significant bits; -0.0 is 0.0."""
    (word,) = struct.unpack("<q", struct.pack("<d", score + 0.0))
    return float(*struct.unpack("<d", struct.pack("<q", word + 2**28 - 1 + (word >> 29 & 1) >> 29 << 29)))


def starts(thresholds: Sequence[float]) -> list[float]:
    """The least score of each bin, of thresholds from 0 on."""
    numbers, found = list(map(number, thresholds)), list[float]()
    for at, each in enumerate(numbers):
        (word,) = struct.unpack("<q", struct.pack("<d", each))
        least = struct.pack("<q", max(word - 2**28 + (word >> 29 & 1), 0))  # halves are rounded to even
        alone = each not in numbers[max(at - 1, 0) : at] + numbers[at + 1 : at + 2]
        found.append(*struct.unpack("<d", least) if alone else [thresholds[at]])
    return found


def signs(digest: bytes, score: float) -> list[int]:
    """For each draw 1 where the score's sign is minus."""
    key = struct.unpack("<4Q", hashlib.blake2b(digest, digest_size=32, person=b"ties").digest())
    word = int.from_bytes(struct.pack("<d", number(score)), "little") ^ key[0]
    for each in key[1:]:
        word = (word ^ word >> 32) * (each | 1) % 2**64
    return [word >> 63 - draw & 1 for draw in range(DRAWS)]


def entries(session: Session, rows: Rows) -> list[int]:
    """The counts that are proved."""
    begins = starts(session.thresholds)
    wide = [at % 2 == 0 for at, run in enumerate(session.runs) for _ in range(run)]
    counts, before, every = [0] * (2 * len(begins)), list(accumulate(wide, initial=0)), sum(wide)
    buckets = every if every <= 16 else min(max(1, min(len(counts) // 320, 128)), every)
    wide, buckets = ([False] * len(begins), 0) if session.noise else (wide, buckets)  # nothing is counted by signs
    by_sign = [0] * (DRAWS * 8 * buckets)  # draws; bins, rows; plus, minus; labels; buckets
    for label, score in rows:
        at = max(bisect(begins, score) - 1, 0)
        counts[label * len(begins) + at] += 1
        for_bin = (math.ceil(session.thresholds[at] * 10.0**p - 1e-4) / 10.0**p for p in range(10))
        shortest = next((each for each in for_bin if bisect(begins, each) == at + 1), session.thresholds[at])
        for kind, value in enumerate((shortest, score) if wide[at] else ()):
            for draw, sign in enumerate(signs(session.digest, value)):
                place = label * buckets + before[at] * buckets // every
                by_sign[((draw * 2 + kind) * 2 + sign) * 2 * buckets + place] += 1
    return [*counts, *by_sign, session.row_cap - len(rows)]


def lagrange(y: int, nodes: int, prime: int) -> list[int]:
    """The values at y of the polynomials that are 1 at one of 1 ... nodes and 0 at the others."""
    others = [[each for each in range(1, nodes + 1) if each != own] for own in range(1, nodes + 1)]
    scales = [pow(math.prod(own - each for each in rest), -1, prime) for own, rest in enumerate(others, 1)]
    return [math.prod(y - each for each in rest) * scale % prime for rest, scale in zip(others, scales, strict=True)]


def proof(session: Session, digits: Sequence[int], weights: Sequence[int], seeds: Sequence[int]) -> list[int]:
    """Seeds, then the values of the quotients."""
    t, base, calls = session.prime, session.base, session.calls
    filled, places = [*digits, *[0] * (calls * session.chunk - len(digits))], range(session.chunk)
    wires = [(*filled[j * calls : (j + 1) * calls], *seeds[j * PROOFS : (j + 1) * PROOFS]) for j in places]
    found: list[list[int]] = [[] for _ in range(PROOFS)]
    for y in range(calls + 1, base * (calls + PROOFS - 1) + 2):
        basis, scale = lagrange(y, calls + PROOFS, t), pow(math.prod(range(y - calls, y)), -1, t)
        values = [sum(map(mul, basis, wire)) % t for wire in wires]
        gadgets = [math.prod(value - digit for digit in range(base)) for value in values]
        for own, quotients in enumerate(found):
            quotients.append(sum(map(mul, weights[own::PROOFS], gadgets)) * scale % t)
    return [*seeds, *chain(*found)]


def sketch(session: Session, member: int, rows: Rows, seed: bytes, blind: bytes, key: bytes) -> tuple[bytes, bytes]:
    """What is sealed to the aggregator, and what of it is signed; `key` is that of the proof's own randomness."""
    t, counts, about = session.prime, entries(session, rows), (session.digest, member)
    digits = [each // session.base**place % session.base for each in counts for place in range(session.length)]
    seeds, submitted = uniform(key, t, PROOFS * session.chunk), [*digits, *session.noise]
    size = len(submitted) + len(seeds) + PROOFS * (session.base * (session.calls + PROOFS - 1) - session.calls + 1)
    pad = uniform(derived(seed, session.session, b"fhe-auc pad 1\0" + msgpack(member, 0)), t, size)
    padded, label = packed(map(add, submitted, pad), t), b"fhe-auc input proofs: "
    part = msgpack(label + b"aggregator's part 1\0", *about, hashlib.sha256(padded).digest())
    other = msgpack(label + b"helper's part 1\0", *about)
    parts = hmac.digest(blind, part, "sha256"), hmac.digest(seed, other, "sha256")
    joint = hashlib.sha256(msgpack(label + b"weights 2\0", *about, *parts)).digest()
    made = packed(map(add, proof(session, digits, uniform(joint, t, len(seeds)), seeds), pad[len(submitted) :]), t)
    return b"".join((padded, *parts, blind, made)), b"".join(parts)


def sealed(key: bytes, text: bytes, info: bytes) -> bytes:
    ml_kem, x25519 = MLKEM768PublicKey.from_public_bytes(key[:1184]), X25519PublicKey.from_public_bytes(key[1184:])
    return HPKE.encrypt(text, MLKEM768X25519PublicKey(ml_kem, x25519), info=info)


def record(session: Session, member: int, signing: Ed25519PrivateKey, rows: Rows) -> tuple[bytes, bytes, bytes, bytes]:
    """Sketch, blob and signature; and the response key."""
    seed, response_key, blind, key = (secrets.token_bytes(32) for _ in range(4))
    text, randomness = sketch(session, member, rows, seed, blind, key)
    own = sealed(session.aggregator, text, msgpack(b"fleet's sketch 1", session.digest, member))
    about = msgpack(session.digest, member, hashlib.sha256(own).digest())
    blob = sealed(session.helper, seed + response_key, BLOB + about)
    return own, blob, signing.sign(BLOB + about + hashlib.sha256(blob).digest() + randomness), response_key
