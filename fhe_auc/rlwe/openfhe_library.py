"""OpenFHE, for every scheme of the library: its objects as packed coefficients and back, and its process-wide state.

OpenFHE keeps evaluation keys in process-wide maps that only grow and are cleared for everybody at once. Here they are
taken out of the maps as soon as they exist and handed to each operation, so that a session's keys go with its context.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

# On small rings OpenMP's threads cost far more than they give (up to 300 times on two cores). libgomp reads the
# variable once, when it is loaded; where another library has loaded it before, the limit is set at run time. Whoever
# has set the variable is taken to know better.
_threads_chosen = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("OMP_NUM_THREADS", "1")
import openfhe as openfhe  # exported: nobody imports it before this module has set its threads
from threadpoolctl import threadpool_limits

from fhe_auc.errors import DeserialisationError, EvaluationError
from fhe_auc.rlwe.context import P
from fhe_auc.rlwe.layout import Layout, Run
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.seeded import Seeded

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

TAG_LENGTH = 32
"""Of a key's name in OpenFHE: 128 random bits in hexadecimal."""

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
    """How the objects of one kind split in two: (b, a), of which with a common `a` only b has to be known.

    Parameters
    ----------
    layout : Layout
    keys : int
        Keys in one object.
    b_first : bool
        Which half comes first in the library's format.

    Attributes
    ----------
    half : Polynomials
        Shape of either half.
    """

    def __init__(self, layout: Layout, *, keys: int = 1, b_first: bool) -> None:
        moduli = layout.polynomials.moduli
        self._whole = layout.polynomials
        self._b = 0 if b_first else 1
        self._shape = (keys, 2, len(moduli) // (2 * keys), layout.polynomials.ring_dimension)
        self.half = Polynomials(layout.polynomials.ring_dimension, moduli[: self._shape[2]] * keys)

    def join(self, b: Words, a: Words) -> Words:
        """Return a whole object's polynomials."""
        whole = np.empty(self._shape, np.uint64)
        whole[:, self._b] = b.reshape(whole[:, 0].shape)
        whole[:, 1 - self._b] = a.reshape(whole[:, 0].shape)
        return whole.reshape(-1, self._shape[-1])

    def split(self, whole: Words) -> tuple[Words, Words]:
        """Return (b, a) of a whole object's polynomials."""
        whole = whole.reshape(self._shape)
        flat = len(self.half.moduli), self._shape[-1]
        return whole[:, self._b].reshape(flat), whole[:, 1 - self._b].reshape(flat)

    def pack(self, b: Words, a: Words) -> bytes:
        """Return a packed object."""
        return self._whole.pack(self.join(b, a))

    def unpack(self, packed: bytes) -> tuple[Words, Words]:
        """Return (b, a) of a packed object; `DeserialisationError` where it is none."""
        return self.split(self._whole.unpack(packed))


class Keys:
    """Freshly generated OpenFHE keys.

    Attributes
    ----------
    public, secret, relinearisation
        The library's objects.
    tag : str
        What they are called.
    """

    def __init__(self, context: Any) -> None:
        pair = context.KeyGen()
        self.public, self.secret = pair.publicKey, pair.secretKey
        self.tag: str = self.secret.GetKeyTag()
        with private_key_maps(context):
            context.EvalMultKeyGen(self.secret)
            (self.relinearisation,) = context.GetEvalMultKeyVector(self.tag)


def new_context(settings: Any) -> Any:
    """Return OpenFHE's context of a scheme's settings, with the secret keys and the security that we ask for."""
    settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
    settings.SetSecurityLevel(openfhe.HEStd_128_classic)
    context = openfhe.GenCryptoContext(settings)
    for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.MULTIPARTY):
        context.Enable(feature)
    return context


class Library(ABC, Generic[P]):
    """An OpenFHE context, and the layouts of the objects that every scheme has, learned from throw-away ones.

    Parameters
    ----------
    parameters : RingParameters
    context
        From `new_context`.

    Attributes
    ----------
    secret_key, public_key, relinearisation_key, submission : Layout
        The last is a ciphertext's.
    """

    submission: Layout

    def __init__(self, parameters: P, context: Any) -> None:
        self.parameters = parameters
        self._context = context
        keys = self.new_keys()
        self.secret_key = self.learn(keys.secret, keys.tag)
        self.public_key = self.learn(keys.public, keys.tag)
        self.relinearisation_key = self.learn(keys.relinearisation, keys.tag)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    @abstractmethod
    def decoded(self, plaintext: Any) -> NDArray[Any]:
        """Return the slots of what has been decrypted."""

    def verify_reseeding(self, keys: Keys, ciphertext: Any) -> None:
        """Check that reseeding an encryption under `keys` changes nothing; errors as `Seeded.verify`."""

        def decrypt(words: Words) -> NDArray[Any]:
            return self.decoded(self.context.Decrypt(keys.secret, self.ciphertext(words, keys.tag)))

        secret = self.secret_key.words(save(keys.secret))
        Seeded(self.submission.polynomials).verify(self.submission.words(save(ciphertext)), secret, decrypt)

    def new_keys(self) -> Keys:
        """Return fresh keys."""
        return Keys(self.context)

    @cached_property
    def switching_halves(self) -> Halves:
        """Halves of a relinearisation key, or of any one key that switches."""
        return Halves(self.relinearisation_key, b_first=False)

    @cached_property
    def ciphertext_halves(self) -> Halves:
        """Halves of a ciphertext."""
        return Halves(self.submission, b_first=True)

    def products(self, secret: Any, x: Words, y: Words, tag: str) -> tuple[Words, Words]:
        """Return x·secret + e and y·secret + e', each with a fresh error, in the shape of `switching_halves`.

        The error has the standard deviation of fresh encryptions, 3.19.
        """
        halves, layout = self.switching_halves, self.relinearisation_key
        pair = self.load(openfhe.DeserializeEvalKeyString, layout, halves.pack(y, x), tag)
        made = self.context.MultiMultEvalKey(secret, pair, tag)
        times_y, times_x = halves.unpack(layout.pack(save(made)))
        return times_x, times_y

    def add_errors(self, b: Words, secret: Any, tag: str) -> None:
        """Add fresh errors to the half `b` of switching keys.

        OpenFHE makes these keys with errors of standard deviation 1.0 (measured); the tables that say which modulus is
        secure suppose 3.19.
        """
        zeros = self.switching_halves.half.zeros()
        keys = b.reshape(-1, *zeros.shape)
        for pair in (keys[start : start + 2] for start in range(0, len(keys), 2)):
            for key, error in zip(pair, self.products(secret, zeros, zeros, tag), strict=False):
                self.switching_halves.half.add_in_place(key, error)

    def learn(self, item: Any, tag: str) -> Layout:
        """Return the layout of objects like `item`, which is called `tag`."""
        find = partial(_polynomials, ring_dimension=self.parameters.ring_dimension)
        return Layout(save(item), find, tag=tag.encode())

    def load(self, parse: Any, layout: Layout, packed: bytes, tag: str) -> Any:
        """Return the library's object, called `tag`, from packed coefficients."""
        return self.parse(parse, layout.unpack(packed, tag.encode()))

    def packed_switching_keys(self, layout: Layout, halves: Halves, item: Any, keys: Keys) -> bytes:
        """Return fresh switching keys for `keys`, packed, with errors as large as they should be."""
        b, a = halves.unpack(layout.pack(save(item)))
        self.add_errors(b, keys.secret, keys.tag)
        return halves.pack(b, a)

    def ciphertext(self, words: Words, tag: str) -> Any:
        """Return the ciphertext with these coefficients."""
        return self.parse(openfhe.DeserializeCiphertextString, self.submission.raw(words, tag.encode()))

    def parse(self, parse: Any, raw: bytes) -> Any:
        """Return the library's object from what a `Layout` made."""
        try:
            return parse(raw, openfhe.BINARY)
        except RuntimeError as error:
            raise DeserialisationError(f"OpenFHE refused the object: {error}") from None


def save(item: Any) -> bytes:
    """Return OpenFHE's serialisation of `item`."""
    return bytes(openfhe.Serialize(item, openfhe.BINARY))


def tag_of(fingerprint: bytes) -> str:
    """Name the keys of a context inside OpenFHE."""
    return fingerprint.hex()[:TAG_LENGTH]
