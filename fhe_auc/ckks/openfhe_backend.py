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
from fhe_auc.errors import DeserialisationError

if not _threads_chosen:
    del os.environ["OMP_NUM_THREADS"]  # child processes are not ours to decide for
    threadpool_limits(limits=1, user_api="openmp")

_TAG_LENGTH = 32  # a key's name in OpenFHE: 128 random bits in hexadecimal
_SOME_ROTATION = (1,)  # where none is needed: the library has no empty map of keys, and nobody gets this key
_key_maps = threading.Lock()


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
        self.context = context
        self.library_scale = 2.0 ** scaling[0]
        self.elements = {step: context.FindAutomorphismIndex(step) for step in parameters.rotations}

        keys = _Keys(context, ())
        zeros = np.zeros(parameters.slots, complex)
        self.submission = self.learn(self.encrypt(keys.secret, zeros, 1), keys.tag)
        self.result = self.learn(self.encrypt(keys.secret, zeros, 2), keys.tag)
        self.secret_key = self.learn(keys.secret, keys.tag)
        self.public_key = self.learn(keys.public, keys.tag)
        self.relinearisation_key = self.learn(keys.relinearisation, keys.tag)

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
        try:
            return parse(layout.unpack(packed, tag.encode()), openfhe.BINARY)
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

    def rotate(self, ciphertext: Ciphertext, step: int) -> Ciphertext:
        return self._scheme.context.EvalAutomorphism(ciphertext, self._scheme.elements[step], self._rotation)

    def _parse_submission(self, packed: bytes) -> Ciphertext:
        return self._scheme.load(openfhe.DeserializeCiphertextString, self._scheme.submission, packed, self._tag)

    def _pack_result(self, ciphertext: Ciphertext) -> bytes:
        return self._scheme.result.pack(openfhe.Serialize(ciphertext, openfhe.BINARY))


class OpenFheSecretContext(SecretContext):
    """A party's context on OpenFHE."""

    def __init__(self, stored: StoredSecret) -> None:
        super().__init__(stored)
        self._scheme = scheme = scheme_for(stored.parameters)
        self._tag = tag = _tag(self.fingerprint)
        self._secret_key = scheme.load(openfhe.DeserializePrivateKeyString, scheme.secret_key, stored.secret_key, tag)

    def _encrypt(self, values: Slots) -> bytes:
        ciphertext = self._scheme.encrypt(self._secret_key, values, 1)
        return self._scheme.submission.pack(openfhe.Serialize(ciphertext, openfhe.BINARY))

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

    stored = StoredPublic(
        parameters,
        pack(scheme.public_key, keys.public),
        pack(scheme.relinearisation_key, keys.relinearisation),
        pack(scheme.rotation_keys, keys.rotation),
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
