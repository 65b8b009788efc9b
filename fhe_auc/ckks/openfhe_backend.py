"""CKKS on OpenFHE.

OpenFHE keeps evaluation keys in process-wide maps that only grow and are cleared for everybody at once. Here they are
taken out of the maps as soon as they exist and handed to each operation, so that a session's keys go with its context.
"""

# ruff: noqa: E402 - OpenMP reads its variable when openfhe is imported

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

# On small rings OpenMP's threads cost far more than they give (up to 300 times on two cores). libgomp reads the
# variable once, when it is loaded; where another library has loaded it before, the limit is set at run time. Whoever
# has set the variable is taken to know better.
_threads_chosen = "OMP_NUM_THREADS" in os.environ
os.environ.setdefault("OMP_NUM_THREADS", "1")
import openfhe
from threadpoolctl import threadpool_limits

from fhe_auc.ckks.context import (
    Ciphertext,
    KeyPair,
    PublicContext,
    SecretContext,
    Slots,
    StoredPublic,
    StoredSecret,
)
from fhe_auc.ckks.layout import Layout, Run
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.ckks.polynomials import Polynomials, Words
from fhe_auc.ckks.seeded import VERIFIED, Seeded
from fhe_auc.errors import DeserialisationError, EvaluationError

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

_TAG_LENGTH = 32  # a key's name in OpenFHE: 128 random bits in hexadecimal
_SOME_ROTATION = (1,)  # to learn the format from where none is needed: the library has no empty map of keys
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
def _private_key_maps(context: Any) -> Iterator[None]:
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


class _Keys:
    """Freshly generated OpenFHE keys."""

    def __init__(self, context: Any, rotations: tuple[int, ...]) -> None:
        pair = context.KeyGen()
        self.public, self.secret = pair.publicKey, pair.secretKey
        self.tag: str = self.secret.GetKeyTag()
        with _private_key_maps(context):
            context.EvalMultKeyGen(self.secret)
            (self.relinearisation,) = context.GetEvalMultKeyVector(self.tag)
            context.EvalRotateKeyGen(self.secret, list(rotations or _SOME_ROTATION))
            self.rotation = context.GetEvalAutomorphismKeyMap(self.tag)


class Scheme:
    """An OpenFHE context and the layouts of its objects, learned from throw-away ones."""

    def __init__(self, parameters: CkksParameters) -> None:
        first, *scaling = parameters.modulus_bits
        settings = openfhe.CCParamsCKKSRNS()
        settings.SetRingDim(parameters.ring_dimension)
        settings.SetMultiplicativeDepth(len(scaling))
        settings.SetFirstModSize(first)
        settings.SetScalingModSize(scaling[0])
        settings.SetScalingTechnique(openfhe.FIXEDMANUAL)
        settings.SetKeySwitchTechnique(openfhe.HYBRID)
        settings.SetNumLargeDigits(len(parameters.modulus_bits))
        settings.SetBatchSize(parameters.slots)
        settings.SetSecretKeyDist(openfhe.UNIFORM_TERNARY)
        settings.SetSecurityLevel(openfhe.HEStd_128_classic)
        # The REAL type refuses to decode valid results near the capacity bound, and has no imaginary part.
        settings.SetCKKSDataType(openfhe.COMPLEX)
        context = openfhe.GenCryptoContext(settings)
        for feature in (openfhe.PKE, openfhe.KEYSWITCH, openfhe.LEVELEDSHE, openfhe.ADVANCEDSHE, openfhe.MULTIPARTY):
            context.Enable(feature)
        self.parameters = parameters
        self._context = context
        self.library_scale = 2.0 ** scaling[0]
        self.elements = {step: context.FindAutomorphismIndex(step) for step in parameters.rotations}

        keys = _Keys(self.context, ())
        zeros = np.zeros(parameters.slots, complex)
        self.submission = self.learn(self.encrypt(keys.secret, zeros, 1), keys.tag)
        self.result = self.learn(self.encrypt(keys.secret, zeros, 2), keys.tag)
        self.secret_key = self.learn(keys.secret, keys.tag)
        self.public_key = self.learn(keys.public, keys.tag)
        self.relinearisation_key = self.learn(keys.relinearisation, keys.tag)
        self._verify_reseeding(keys)

    def _verify_reseeding(self, keys: _Keys) -> None:
        def decrypt(words: Words) -> Slots:
            ciphertext = self.parse(openfhe.DeserializeCiphertextString, self.submission.raw(words, keys.tag.encode()))
            return np.asarray(self.context.Decrypt(keys.secret, ciphertext).GetCKKSPackedValue(), complex)

        values = np.full(self.parameters.slots, VERIFIED / self.parameters.scale, complex)
        words = self.submission.words(openfhe.Serialize(self.encrypt(keys.secret, values, 1), openfhe.BINARY))
        secret = self.secret_key.words(openfhe.Serialize(keys.secret, openfhe.BINARY))
        Seeded(self.submission.polynomials).verify(words, secret, decrypt)

    @property
    def context(self) -> Any:
        """The library's context; `EvaluationError` in a process that was forked from one that has used it."""
        _refuse_forks()
        return self._context

    @cached_property
    def switching_halves(self) -> Halves:
        """Halves of a relinearisation key, or of any one key that switches."""
        return Halves(self.relinearisation_key, b_first=False)

    @cached_property
    def rotation_halves(self) -> Halves:
        """Halves of the rotation keys."""
        return Halves(self.rotation_keys, keys=len(self.parameters.rotations or _SOME_ROTATION), b_first=False)

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
        times_y, times_x = halves.unpack(layout.pack(openfhe.Serialize(made, openfhe.BINARY)))
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

    @cached_property
    def rotation_keys(self) -> Layout:
        """Layout of rotation keys, which parties never need."""
        keys = _Keys(self.context, self.parameters.rotations)
        return self.learn(keys.rotation, keys.tag)

    def learn(self, item: Any, tag: str) -> Layout:
        find = partial(_polynomials, ring_dimension=self.parameters.ring_dimension)
        return Layout(openfhe.Serialize(item, openfhe.BINARY), find, tag=tag.encode())

    def integers(self, values: Slots) -> Any:
        """Encode values at scale 1, as the nearest polynomial with integer coefficients.

        The library only encodes at its own scale (a degree of two appends zeros), so divide by it first.
        """
        return self.context.MakeCKKSPackedPlaintext(values / self.library_scale)

    def encrypt(self, key: Any, values: Slots, degree: int) -> Ciphertext:
        """Encrypt `values` at scale Δ'^degree, and set the library's bookkeeping to that degree."""
        ciphertext = self.context.Encrypt(key, self.integers(values * self.parameters.scale**degree))
        ciphertext.SetNoiseScaleDeg(degree)
        ciphertext.SetScalingFactor(self.library_scale**degree)
        return ciphertext

    def load(self, parse: Any, layout: Layout, packed: bytes, tag: str) -> Any:
        """Return the library's object, called `tag`, from packed coefficients."""
        return self.parse(parse, layout.unpack(packed, tag.encode()))

    def parse(self, parse: Any, raw: bytes) -> Any:
        """Return the library's object from what a `Layout` made."""
        try:
            return parse(raw, openfhe.BINARY)
        except RuntimeError as error:
            raise DeserialisationError(f"OpenFHE refused the object: {error}") from None


@lru_cache(maxsize=4)
def scheme_for(parameters: CkksParameters) -> Scheme:
    """Return the scheme of these parameters; making one takes a second."""
    return Scheme(parameters)


def _tag(fingerprint: bytes) -> str:
    """Name the keys of a context inside OpenFHE."""
    return fingerprint.hex()[:_TAG_LENGTH]


class OpenFhePublicContext(PublicContext):
    """The aggregator's context on OpenFHE."""

    def __init__(self, stored: StoredPublic) -> None:
        super().__init__(stored)
        self._scheme = scheme = scheme_for(stored.parameters)
        self._tag = tag = _tag(self.fingerprint)
        self._public_key = scheme.load(openfhe.DeserializePublicKeyString, scheme.public_key, stored.public_key, tag)
        self._relin = scheme.load(
            openfhe.DeserializeEvalKeyString, scheme.relinearisation_key, stored.relinearisation_key, tag
        )
        if self.parameters.rotations:
            self._rotation = scheme.load(
                openfhe.DeserializeEvalKeyMapString, scheme.rotation_keys, stored.rotation_keys, tag
            )

    def _encrypt(self, values: Slots, degree: int) -> Ciphertext:
        return self._scheme.encrypt(self._public_key, values, degree)

    def _degree(self, ciphertext: Ciphertext) -> int:
        return int(ciphertext.GetNoiseScaleDeg())

    def add_in_place(self, total: Ciphertext, ciphertext: Ciphertext) -> None:
        self._scheme.context.EvalAddInPlace(total, ciphertext)

    def multiply(self, left: Ciphertext, right: Ciphertext) -> Ciphertext:
        # For a ciphertext of three polynomials OpenFHE's KeySwitch is relinearisation, with a key of our choice.
        return self._scheme.context.KeySwitch(self._scheme.context.EvalMultNoRelin(left, right), self._relin)

    def multiply_integers(self, ciphertext: Ciphertext, weights: Slots) -> Ciphertext:
        product = self._scheme.context.EvalMult(ciphertext, self._scheme.integers(weights))
        # The library counts one more factor of its scale than there is.
        product.SetNoiseScaleDeg(ciphertext.GetNoiseScaleDeg())
        product.SetScalingFactor(ciphertext.GetScalingFactor())
        return product

    def raised(self, ciphertext: Ciphertext) -> Ciphertext:
        ones = np.full(self.parameters.slots, self.parameters.scale, complex)
        return self._scheme.context.EvalMult(ciphertext, self._scheme.integers(ones))

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        return self._scheme.context.EvalAutomorphism(ciphertext, self._scheme.elements[step], self._rotation)

    @property
    def ciphertext_shape(self) -> Polynomials:
        return self._scheme.submission.polynomials

    def ciphertext(self, words: Words) -> Ciphertext:
        raw = self._scheme.submission.raw(words, self._tag.encode())
        return self._scheme.parse(openfhe.DeserializeCiphertextString, raw)

    def _pack_result(self, ciphertext: Ciphertext) -> bytes:
        return self._scheme.result.pack(openfhe.Serialize(ciphertext, openfhe.BINARY))


class OpenFheSecretContext(SecretContext):
    """A party's context on OpenFHE."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._scheme = scheme = scheme_for(stored.parameters)
        self._tag = tag = _tag(self.fingerprint)
        self._secret_key = scheme.load(openfhe.DeserializePrivateKeyString, scheme.secret_key, stored.secret_key, tag)

    @property
    def _seeded(self) -> Seeded:
        return Seeded(self._scheme.submission.polynomials)

    @cached_property
    def _secret_words(self) -> Words:
        return self._scheme.secret_key.polynomials.unpack(self._stored.secret_key)

    def _encrypt(self, values: Slots) -> Words:
        ciphertext = self._scheme.encrypt(self._secret_key, values, 1)
        return self._scheme.submission.words(openfhe.Serialize(ciphertext, openfhe.BINARY))

    def _decrypt(self, packed: bytes) -> Slots:
        ciphertext = self._scheme.load(openfhe.DeserializeCiphertextString, self._scheme.result, packed, self._tag)
        plaintext = self._scheme.context.Decrypt(self._secret_key, ciphertext)
        unit = self._scheme.library_scale / self.parameters.scale
        return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit**2)


def generate(parameters: CkksParameters) -> KeyPair:
    """Return fresh keys: exactly the rotation keys that `parameters` names."""
    scheme = scheme_for(parameters)
    keys = _Keys(scheme.context, parameters.rotations)

    def pack(layout: Layout, item: Any) -> bytes:
        return layout.pack(openfhe.Serialize(item, openfhe.BINARY))

    def pack_switching(layout: Layout, halves: Halves, item: Any) -> bytes:
        b, a = halves.unpack(pack(layout, item))
        scheme.add_errors(b, keys.secret, keys.tag)
        return halves.pack(b, a)

    stored = StoredPublic(
        parameters,
        pack(scheme.public_key, keys.public),
        pack_switching(scheme.relinearisation_key, scheme.switching_halves, keys.relinearisation),
        pack_switching(scheme.rotation_keys, scheme.rotation_halves, keys.rotation) if parameters.rotations else b"",
    )
    digest = hashlib.sha256(stored.public_key).digest()
    secret = StoredSecret(parameters, digest, pack(scheme.secret_key, keys.secret))
    return KeyPair(OpenFhePublicContext(stored), OpenFheSecretContext(secret))


def load_public(stored: StoredPublic) -> PublicContext:
    """Return the aggregator's context from its stored parts."""
    return OpenFhePublicContext(stored)


def load_secret(stored: StoredSecret) -> SecretContext:
    """Return a party's context from its stored parts."""
    return OpenFheSecretContext(stored)
