"""Keys, a submission and a result of each version of both libraries, kept in tests/fhe_auc/rlwe/versions.json.

    python -m tests.support.library_versions

adds those of the libraries of its interpreter. Made with what constraints.txt has: on Python 3.10.13 TenSEAL 0.3.16 and
OpenFHE 1.6.1.0.22.4, on 3.12.1 with Debian 13's glibc TenSEAL 0.3.18 and OpenFHE 1.6.1.0.24.4.

They are 6 MB that nothing compresses, and most of them is not the library's: it draws a ternary key and, for CKKS,
chooses primes; all else is made of these and of drawn bytes. So the keys are kept, 2 kB each. From a key and draws that
repeat a test makes the rest again: that it is what the version wrote, to the byte, its SHA-256 says.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import platform
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc import ckks
from fhe_auc.rlwe.context import PublicKeys, SecretKey, library_for, new_public_key, shapes_of
from fhe_auc.rlwe.modular import Signed
from fhe_auc.rlwe.polynomials import values_of
from tests.support.schemes import SCHEMES

FILE = Path(__file__).parents[1] / "fhe_auc" / "rlwe" / "versions.json"
LOG2_SCALE = 42.0


def parameters_of(scheme: Any, backend: str) -> Any:
    return scheme.parameters(backend, LOG2_SCALE) if scheme.name == "ckks" else scheme.parameters(backend)


def values_for(scheme: Any) -> Any:
    """What is encrypted: polynomials of integers for CKKS, which every version of numpy rounds to the same."""
    if scheme.name == "bfv":
        return np.arange(8192, dtype=np.uint64) ** 3 % scheme.primes[scheme.prime]
    roots = np.exp(1j * np.pi * (4 * np.arange(1024) + 1) / 2048)
    return np.array([part + 1 + (2 + part * 1j) * roots - (part + 3 - 1j) / roots for part in range(4)])


def agree(scheme: Any, found: Any) -> bool:
    """Whether this is what `values_for` give: exactly for BFV, and up to 0.06 for CKKS, of sums up to 317,000.

    Most of CKKS's error is c2's rounding times s², as a prime of 56 bits is dropped: √(8/9·N·N/12), of units of 1024
    slots·2^56/scale², is a deviation of 0.0085.
    """
    expected = scheme.expected(values_for(scheme))
    return bool((np.abs(found - expected) < 0.06).all()) if scheme.name == "ckks" else scheme.agree(found, expected)


def pair_of(scheme: Any, parameters: Any, ternary: Signed) -> tuple[Any, Any]:
    """Both contexts of a secret key with these coefficients."""
    shape, _ = shapes_of(parameters)
    key = shape.pack(values_of(shape, ternary))
    public = PublicKeys(parameters, new_public_key(parameters, key))
    secret = SecretKey(parameters, public.public_keys_digest, key, hashlib.sha256(key).digest())
    return scheme.library.context.PublicContext(public), scheme.library.context.SecretContext(secret)


def objects_of(scheme: Any, parameters: Any, ternary: Signed) -> dict[str, bytes]:
    """What is written under that key, by draws that are the same each time."""
    draws = iter(range(1000))

    def drawn(size: int) -> bytes:
        return hashlib.shake_256(bytes([next(draws)])).digest(size)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("secrets.token_bytes", drawn)
        patched.setattr("secrets.randbits", lambda bits: int.from_bytes(drawn(-(-bits // 8)), "little") % 2**bits)
        public, secret = pair_of(scheme, parameters, ternary)
        submission = scheme.encrypt(secret, values_for(scheme))
        result = scheme.computed(public, scheme.read(public, submission))
    return {"public": public.to_bytes(), "secret": secret.to_bytes(), "submission": submission, "result": result}


def digests(objects: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in objects.items()}


def ternary_of(stored: str) -> Signed:
    return np.frombuffer(zlib.decompress(base64.b85decode(stored)), np.int8).astype(np.int64)


def main() -> None:
    found = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for backend in ckks.available_backends():
        of_backend = found.setdefault(f"{backend} {importlib.metadata.version(backend)}", {})
        of_backend["python"] = platform.python_version()
        for name, scheme in SCHEMES.items():
            parameters = parameters_of(scheme, backend)
            _, ternary = library_for(parameters).drawn()
            key = base64.b85encode(zlib.compress(ternary.astype(np.int8).tobytes(), 9)).decode("ascii")
            of_backend[name] = {"key": key, "sha256": digests(objects_of(scheme, parameters, ternary))}
    FILE.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
