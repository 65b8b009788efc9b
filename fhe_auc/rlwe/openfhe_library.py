"""OpenFHE, for every scheme of the library: its objects as packed coefficients and back, and its process-wide state.

No evaluation keys are made: OpenFHE keeps those in process-wide maps that only grow.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any

import numpy as np

# On small rings OpenMP's threads cost far more than they give (up to 300 times on two cores). libgomp reads the
# variable once, when it is loaded; where another library has loaded it before, the limit is set at run time. Whoever
# has set the variable is taken to know better.
_threads_chosen = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("OMP_NUM_THREADS", "1")
import openfhe as openfhe  # exported: nobody imports it before this module has set its threads
from threadpoolctl import threadpool_limits

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.rlwe.layout import CoefficientLayout, Run
from fhe_auc.rlwe.library import Library, LoadedKey, P
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import Seeded

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

_TESTED_WITH = "1.6.1"
_found = getattr(openfhe, "__version__", "of an old version")
if not _found.startswith(f"{_TESTED_WITH}."):
    # Its serialised keys and ciphertexts are read and written here, and their noise was measured: of this version.
    raise ImportError(
        f"OpenFHE {_found} is installed, and fhe-auc is tested with {_TESTED_WITH} alone: "
        f"pip install 'openfhe=={_TESTED_WITH}.*'"
    )

_first_used_in: int | None = None


def _refuse_forks() -> None:
    """Raise `EvaluationError` in a process that was forked from one that has used OpenFHE.

    OpenFHE seeds its random numbers once, so that parent and children would draw the same ones: the same keys, and
    encryptions with the same error under different `a`, whose difference tells the secret key.
    """
    global _first_used_in
    if _first_used_in is None:
        _first_used_in = os.getpid()
    if _first_used_in != os.getpid():
        raise EvaluationError(
            "this process was forked from one that has used OpenFHE, and would repeat its random numbers; "
            "start processes afresh (multiprocessing: 'spawn')"
        )


def _polynomials(raw: bytes, ring_dimension: int) -> tuple[list[Run], list[tuple[int, int]]]:
    """Find OpenFHE's coefficient vectors: a 64-bit count, the words, then the modulus that they all lie below."""
    mark = ring_dimension.to_bytes(8, "little")
    runs: list[Run] = []
    position = raw.find(mark)
    while position >= 0:
        start = position + 8
        end = start + 8 * ring_dimension
        modulus = int.from_bytes(raw[end : end + 8], "little")
        if modulus % (2 * ring_dimension) == 1 and int(np.frombuffer(raw[start:end], "<u8").max()) < modulus:
            runs.append(Run(start, ring_dimension, modulus))
            position = raw.find(mark, end)
        else:
            position = raw.find(mark, position + 1)
    return runs, []


def new_context(settings: Any) -> Any:
    """Return OpenFHE's context of a scheme's settings, with the secret keys and the security that we ask for."""
    settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    settings.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(settings)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE):
        context.Enable(feature)
    return context


class OpenFheLibrary(Library[P]):
    """OpenFHE for one scheme, which calls `learn_submissions` itself; `context` is from `new_context`."""

    def __init__(self, parameters: P, context: Any) -> None:
        self.parameters = parameters
        self._context = context
        self.secret_key = self.learn(context.KeyGen().secretKey)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    @cached_property
    def public_key(self) -> CoefficientLayout:
        """Layout of the library's public keys."""
        return self.learn(self.context.KeyGen().publicKey)

    def new_secret_key(self) -> bytes:
        # In a thread of its own, as OpenFHE seeds its random numbers once for each: a machine resumed twice from one
        # snapshot would make the same keys.
        with ThreadPoolExecutor(1) as thread:
            return self.secret_key.pack(save(thread.submit(self.context.KeyGen).result().secretKey))

    def load_public_key(self, fingerprint: bytes, public_key: bytes) -> OpenFheKey:
        raw = self.public_key.raw(Seeded(self.public_key.polynomials).expand(public_key), tag_of(fingerprint))
        return OpenFheKey(self, parsed(openfhe.DeserializePublicKeyString, raw))

    def load_secret_key(self, fingerprint: bytes, secret_key: bytes) -> OpenFheKey:
        raw = self.secret_key.unpack(secret_key, tag_of(fingerprint))
        return OpenFheKey(self, parsed(openfhe.DeserializePrivateKeyString, raw))

    def learn_submissions(self, zero: Any) -> None:
        """Learn the layout of ciphertexts, from encryptions of the plaintext zero; errors as `verify_reseeding`."""
        self.zero = zero
        secret = self.context.KeyGen().secretKey
        key = OpenFheKey(self, secret)
        self.submission = self.learn(key.encrypt(zero))
        self.verify_reseeding(key, self.secret_key.words(save(secret)))

    def learn(self, item: Any) -> CoefficientLayout:
        """Return the layout of objects like `item`, a key or a ciphertext."""
        find = partial(_polynomials, ring_dimension=self.parameters.ring_dimension)
        return CoefficientLayout(save(item), find, tag=item.GetKeyTag().encode())

    def words(self, ciphertext: Any) -> Words:
        return self.submission.words(save(ciphertext))


class OpenFheKey(LoadedKey):
    """A public or a secret key."""

    def __init__(self, library: OpenFheLibrary[Any], key: Any) -> None:
        self._library, self._key = library, key

    def encrypt(self, plaintext: Any) -> Any:
        return self._library.context.Encrypt(self._key, plaintext)


def parsed(parse: Any, raw: bytes) -> Any:
    """Return the library's object from what a `CoefficientLayout` made; `DeserialisationError` where it is refused."""
    try:
        return parse(raw, openfhe.BINARY)
    except RuntimeError as error:
        raise DeserialisationError(f"OpenFHE refused the object: {error}") from None


def save(item: Any) -> bytes:
    """Return OpenFHE's serialisation of `item`."""
    return bytes(openfhe.Serialize(item, openfhe.BINARY))


def tag_of(fingerprint: bytes) -> bytes:
    """Name the keys of a context inside OpenFHE."""
    return fingerprint.hex()[:32].encode()  # as long as its own names: 128 random bits in hexadecimal
