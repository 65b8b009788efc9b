"""OpenFHE, for every scheme of the library: its objects as packed coefficients and back, and its process-wide state.

OpenFHE keeps evaluation keys in process-wide maps that only grow and are cleared for everybody at once. Here they are
taken out of the maps as soon as they exist and handed to each operation, so that a session's keys go with its context.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
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
from fhe_auc.rlwe.library import Decryptor, Evaluator, Library, LoadedKeys, P
from fhe_auc.rlwe.polynomials import Polynomials, Words

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

_key_maps = threading.Lock()
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


@contextmanager
def private_key_maps(context: Any) -> Iterator[None]:
    """Leave OpenFHE's process-wide maps of evaluation keys as they were, whatever is put into them meanwhile."""
    with _key_maps:
        multiplication, rotation = context.GetAllEvalMultKeys(), context.GetAllEvalAutomorphismKeys()
        try:
            yield
        finally:
            openfhe.ClearEvalMultKeys()
            context.ClearEvalAutomorphismKeys()
            for tag, key in multiplication.items():
                context.InsertEvalMultKey(key, tag)
            for tag, key in rotation.items():
                context.InsertEvalAutomorphismKey(key, tag)


class Halves:
    """How switching keys split in two, (b, a); a comes first in the library's format.

    There are `keys` in one object. `half` is the shape of either half.
    """

    def __init__(self, layout: CoefficientLayout, *, keys: int = 1) -> None:
        moduli = layout.polynomials.moduli
        self._whole = layout.polynomials
        self._shape = (keys, 2, len(moduli) // (2 * keys), layout.polynomials.ring_dimension)
        self.half = Polynomials(layout.polynomials.ring_dimension, moduli[: self._shape[2]] * keys)

    def split(self, whole: Words) -> tuple[Words, Words]:
        """Return (b, a) of a whole object's polynomials."""
        whole = whole.reshape(self._shape)
        flat = len(self.half.moduli), self._shape[-1]
        return whole[:, 1].reshape(flat), whole[:, 0].reshape(flat)

    def pack(self, b: Words, a: Words) -> bytes:
        """Return a packed object."""
        whole = np.empty(self._shape, np.uint64)
        whole[:, 0], whole[:, 1] = (each.reshape(whole[:, 0].shape) for each in (a, b))
        return self._whole.pack(whole.reshape(-1, self._shape[-1]))


class OpenFheKeys:
    """Freshly generated OpenFHE keys, as the library's objects, and the `tag` that they are called."""

    def __init__(self, context: Any) -> None:
        pair = context.KeyGen()
        self.public, self.secret = pair.publicKey, pair.secretKey
        self.tag: str = self.secret.GetKeyTag()
        self._context = context

    @cached_property
    def relinearisation(self) -> Any:
        """The relinearisation key, made when it is asked for."""
        with private_key_maps(self._context):
            self._context.EvalMultKeyGen(self.secret)
            (key,) = self._context.GetEvalMultKeyVector(self.tag)
            return key


def new_context(settings: Any) -> Any:
    """Return OpenFHE's context of a scheme's settings, with the secret keys and the security that we ask for."""
    settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    settings.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(settings)
    # MULTIPARTY: `add_errors` calls MultiMultEvalKey.
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.MULTIPARTY):
        context.Enable(feature)
    return context


class OpenFheLibrary(Library[P]):
    """OpenFHE for one scheme, which calls `learn_submissions` itself; `context` is from `new_context`."""

    def __init__(self, parameters: P, context: Any) -> None:
        self.parameters = parameters
        self._context = context
        keys = self.new_keys()
        self.secret_key = self.learn(keys.secret, keys.tag)
        self.public_key = self.learn(keys.public, keys.tag)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    @cached_property
    def relinearisation_key(self) -> CoefficientLayout:
        """Layout of relinearisation keys, and of any one key that switches; parties never need it."""
        keys = self.new_keys()
        return self.learn(keys.relinearisation, keys.tag)

    def new_keys(self) -> OpenFheKeys:
        """Return fresh keys."""
        return OpenFheKeys(self.context)

    def fresh_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        # In a thread of its own, as OpenFHE seeds its random numbers once for each: a machine resumed twice from one
        # snapshot would make the same keys.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._fresh_keys).result()

    def _fresh_keys(self) -> tuple[tuple[bytes, ...], bytes]:
        keys = self.new_keys()
        relinearisation_key = b""
        if self.parameters.multiplies:
            if "relinearisation_key" not in vars(self):  # making others to learn from takes as long
                self.relinearisation_key = self.learn(keys.relinearisation, keys.tag)
            relinearisation_key = self.packed_switching_keys(
                self.relinearisation_key, self.switching_halves, keys.relinearisation, keys
            )
        secret_key = self.secret_key.pack(save(keys.secret))
        public = self.new_public_key(secret_key), relinearisation_key, *self._further_keys(keys)
        return public, secret_key

    def evaluator(self, fingerprint: bytes, public_key: bytes, relinearisation_key: bytes) -> OpenFheEvaluator:
        tag = tag_of(fingerprint)
        relinearisation = self.load_switching_key(relinearisation_key, tag) if relinearisation_key else None
        raw = self.public_key.raw(self.expanded_public_key(public_key), tag.encode())
        return OpenFheEvaluator(self, parsed(openfhe.DeserializePublicKeyString, raw), relinearisation, tag)

    def decryptor(self, fingerprint: bytes, secret_key: bytes) -> OpenFheDecryptor:
        tag = tag_of(fingerprint)
        raw = self.secret_key.unpack(secret_key, tag.encode())
        return OpenFheDecryptor(self, parsed(openfhe.DeserializePrivateKeyString, raw), tag)

    def learn_submissions(self, plaintext: Any) -> None:
        """Learn the layout of ciphertexts, from encryptions of `plaintext`; errors as `verify_reseeding`."""
        keys = self.new_keys()
        decryptor = OpenFheDecryptor(self, keys.secret, keys.tag)
        self.submission = self.learn(decryptor.encrypt(plaintext), keys.tag)
        self.verify_reseeding(decryptor, self.secret_key.words(save(keys.secret)), plaintext)

    @cached_property
    def switching_halves(self) -> Halves:
        """Halves of a relinearisation key, or of any one key that switches."""
        return Halves(self.relinearisation_key)

    def add_errors(self, b: Words, secret: Any, tag: str) -> None:
        """Add fresh errors to the half `b` of switching keys.

        OpenFHE makes these keys with errors of standard deviation 1.0 (measured); the tables that say which modulus is
        secure suppose 3.19, as a product with the secret key has it: here of zeros, which makes two errors at once.
        """
        halves = self.switching_halves
        zeros = halves.half.zeros()
        nothing = self.load_switching_key(halves.pack(zeros, zeros), tag)
        keys = b.reshape(-1, *zeros.shape)
        for pair in (keys[start : start + 2] for start in range(0, len(keys), 2)):
            made = self.context.MultiMultEvalKey(secret, nothing, tag)
            for key, error in zip(pair, halves.split(self.relinearisation_key.words(save(made))), strict=False):
                halves.half.add_in_place(key, error)

    def packed_switching_keys(self, layout: CoefficientLayout, halves: Halves, item: Any, keys: OpenFheKeys) -> bytes:
        """Return fresh switching keys for `keys`, packed, with errors as large as they should be."""
        b, a = halves.split(layout.words(save(item)))
        self.add_errors(b, keys.secret, keys.tag)
        return halves.pack(b, a)

    def learn(self, item: Any, tag: str) -> CoefficientLayout:
        """Return the layout of objects like `item`, which is called `tag`."""
        find = partial(_polynomials, ring_dimension=self.parameters.ring_dimension)
        return CoefficientLayout(save(item), find, tag=tag.encode())

    def load_switching_key(self, packed: bytes, tag: str) -> Any:
        """Return the library's object, called `tag`, from a packed relinearisation key, or any one that switches.

        Raises `DeserialisationError` where it is none.
        """
        return parsed(openfhe.DeserializeEvalKeyString, self.relinearisation_key.unpack(packed, tag.encode()))

    def ciphertext(self, words: Words, tag: str) -> Any:
        """Return the ciphertext with these coefficients."""
        return parsed(openfhe.DeserializeCiphertextString, self.submission.raw(words, tag.encode()))

    def words(self, ciphertext: Any) -> Words:
        return self.submission.words(save(ciphertext))


class _OpenFheKeys(LoadedKeys):
    """A public or a secret key that is called `tag`."""

    def __init__(self, library: OpenFheLibrary[Any], key: Any, tag: str) -> None:
        self._library, self._key, self._tag = library, key, tag

    def encrypt(self, plaintext: Any) -> Any:
        return self._library.context.Encrypt(self._key, plaintext)

    def ciphertext(self, words: Words) -> Any:
        return self._library.ciphertext(words, self._tag)


class OpenFheEvaluator(_OpenFheKeys, Evaluator):
    """What OpenFHE computes with public keys; without a relinearisation key it does not multiply."""

    def __init__(self, library: OpenFheLibrary[Any], public_key: Any, relinearisation_key: Any, tag: str) -> None:
        super().__init__(library, public_key, tag)
        self._relinearisation_key = relinearisation_key

    def add_in_place(self, total: Any, ciphertext: Any) -> None:
        self._library.context.EvalAddInPlace(total, ciphertext)

    def multiply(self, left: Any, right: Any) -> Any:
        context = self._library.context
        # For a ciphertext of three polynomials OpenFHE's KeySwitch is relinearisation, with a key of our choice.
        return context.KeySwitch(context.EvalMultNoRelin(left, right), self._relinearisation_key)

    def multiply_plain(self, ciphertext: Any, plaintext: Any) -> Any:
        return self._library.context.EvalMult(ciphertext, plaintext)


class OpenFheDecryptor(_OpenFheKeys, Decryptor):
    """What OpenFHE does with a secret key."""

    def decrypt(self, ciphertext: Any) -> Any:
        return self._library.context.Decrypt(self._key, ciphertext)


def parsed(parse: Any, raw: bytes) -> Any:
    """Return the library's object from what a `CoefficientLayout` made; `DeserialisationError` where it is refused."""
    try:
        return parse(raw, openfhe.BINARY)
    except RuntimeError as error:
        raise DeserialisationError(f"OpenFHE refused the object: {error}") from None


def save(item: Any) -> bytes:
    """Return OpenFHE's serialisation of `item`."""
    return bytes(openfhe.Serialize(item, openfhe.BINARY))


def tag_of(fingerprint: bytes) -> str:
    """Name the keys of a context inside OpenFHE."""
    return fingerprint.hex()[:32]  # as long as its own names: 128 random bits in hexadecimal
