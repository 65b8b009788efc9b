"""Joint keys on OpenFHE: n parties, n shares of a secret key that never exists as a whole.

Party i draws its own share s_i, and once more a secret u_i that it needs for one key only; S = Σ s_i is the secret key.
The random polynomials `a` that parts must have in common are expanded from the session id, others for every purpose, so
that nobody chooses them and they need not travel. Every e is a fresh error, w the factor of a key-switching digit:

    round 1   public key         b_i = e - a·s_i                               pk = (Σ b_i, a)
              rotation keys      b_i = e - a·s_i + w·σ(s_i)                    (Σ b_i, a), for each rotation
              relinearisation    h_i = e - a·u_i + w·s_i,  g_i = e + a·s_i     H = Σ h_i, G = Σ g_i
    round 2   relinearisation    r_i = e + s_i·H + (u_i - s_i)·G               (Σ r_i, G): encrypts w·S²
              submission         b_i = e - a·s_i + m_i                         (Σ b_i, a): encrypts Σ m_i
    round 3   result (c0, c1)    d_i = c1·s_i + smudging                       c0 + Σ d_i: the blinded totals

Sources: Mouchet et al., PoPETs 2021 (protocols 1 to 3; without u_i, as in OpenFHE's own, the two relinearisation parts
of one party add up to w·s_i and an error: anybody who sees both reads the share). That a submission is one party's part
of a single ciphertext is ours: it takes half the bytes of a public-key encryption, its noise grows with √n instead of
n, and only the sum of all parties' parts can be decrypted.

Whoever chose `a`, H or G could read s_i from a single answer. So every party expands `a` itself, and adds up H and G
itself from parts whose authors it has verified (`keys.joint`). Whether a part is right nobody can tell; only that it is
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import openfhe

from fhe_auc.ckks import container
from fhe_auc.ckks.context import PublicContext, Slots, StoredPublic, checked
from fhe_auc.ckks.layout import Layout
from fhe_auc.ckks.openfhe_backend import Halves, OpenFhePublicContext, scheme_for
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.ckks.polynomials import Polynomials, Words
from fhe_auc.serialise import decode, encode

Purpose = Literal["public key", "relinearisation key", "rotation keys", "submission"]


class KeyParts(NamedTuple):
    """What a party contributes to the keys in the first round, packed; `JointSetup.key_parts` has the shapes.

    The relinearisation part is both h_i and g_i.
    """

    public_key: bytes
    relinearisation: bytes
    rotation_keys: bytes


class JointSetup:
    """What everybody knows of one session's joint keys: the common polynomials, and the shapes of all parts.

    Parameters
    ----------
    parameters : CkksParameters
        Of the openfhe backend.
    session : bytes
        16 bytes, fresh and random; the common polynomials are expanded from it.
    """

    def __init__(self, parameters: CkksParameters, session: bytes) -> None:
        self.parameters = parameters
        self.session = session
        self.tag = session.hex()  # what keys and ciphertexts of this session are called inside OpenFHE
        self.scheme = scheme = scheme_for(parameters)
        self.halves: dict[Purpose, Halves] = {
            "public key": Halves(scheme.public_key, b_first=True),
            "relinearisation key": scheme.switching_halves,
            "rotation keys": scheme.rotation_halves,
            "submission": scheme.ciphertext_halves,
        }

    @property
    def key_parts(self) -> tuple[Polynomials, Polynomials, Polynomials]:
        """Shapes of `KeyParts`."""
        whole = self.scheme.relinearisation_key.polynomials
        none = Polynomials(self.parameters.ring_dimension, ())
        rotation_keys = self.halves["rotation keys"].half if self.parameters.rotations else none
        return self.halves["public key"].half, whole, rotation_keys

    @property
    def relinearisation_part(self) -> Polynomials:
        """Shape of a party's second part of the relinearisation key."""
        return self.halves["relinearisation key"].half

    @property
    def submission_part(self) -> Polynomials:
        """Shape of a party's part of one block."""
        return self.halves["submission"].half

    def common(self, purpose: Purpose, index: int = 0) -> Words:
        """Return the polynomials `a` for a purpose; submissions have others for every block."""
        return self.halves[purpose].half.uniform(self._seed(purpose, index))

    def _seed(self, purpose: Purpose, index: int) -> bytes:
        label = encode((self.session, encode(self.parameters), purpose, index))
        return hashlib.sha256(b"fhe-auc joint keys\0" + label).digest()

    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""
        public_key, relinearisation, rotation_keys = key_parts
        _, g = self.halves["relinearisation key"].split(relinearisation)
        stored = StoredPublic(
            self.parameters,
            self.halves["public key"].pack(public_key, self.common("public key")),
            self.halves["relinearisation key"].pack(relinearisation_part, g),
            self.halves["rotation keys"].pack(rotation_keys, self.common("rotation keys"))
            if self.parameters.rotations
            else b"",
        )
        return OpenFhePublicContext(stored)

    def submission(self, total: Words, block: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a block, for `PublicContext.load_submission`."""
        packed = self.submission_part.pack(total) + self._seed("submission", block)
        return container.seal("submission", fingerprint, packed)

    def fuse(self, result: bytes, partials: Iterable[Words]) -> Slots:
        """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters.
        """
        total, _ = self.split_result(result)
        for partial in partials:
            self.partial.polynomials.add_in_place(total, partial)
        packed = self.partial.polynomials.pack(total)
        fused = self.load(openfhe.DeserializeCiphertextString, self.partial, packed)
        plaintext = self.scheme.context.MultipartyDecryptFusion([fused])
        unit = self.scheme.library_scale / self.parameters.scale**2
        return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit)

    @cached_property
    def partial(self) -> Layout:
        """Layout of a partial decryption: one polynomial."""
        keys = self.scheme.context.KeyGen()
        ciphertext = self.scheme.encrypt(keys.secretKey, np.zeros(self.parameters.slots, complex), 1)
        (partial,) = self.scheme.context.MultipartyDecryptLead([ciphertext], keys.secretKey)
        return self.scheme.learn(partial, partial.GetKeyTag())

    def split_result(self, result: bytes) -> tuple[Words, Words]:
        """Return both polynomials of a result; `DeserialisationError` where it is none."""
        _, packed = container.open_any("result", result)
        return self.halves["submission"].unpack(packed)  # which differs from a result in the header only

    def load(self, parse: Any, layout: Layout, packed: bytes) -> Any:
        """Return the library's object, called by this session's name."""
        return self.scheme.load(parse, layout, packed, self.tag)


class _Share(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    secret: bytes
    ephemeral: bytes
    encrypted: tuple[int, ...]

    def __repr__(self) -> str:
        return "<share of a secret key (secret)>"


class JointShare:
    """One party's share of the secret key, drawn when made; it is never printed, pickled or sent.

    Between rounds it may be kept in an encrypted key store: `saved` and `restored`.

    Parameters
    ----------
    setup : JointSetup
    """

    def __init__(self, setup: JointSetup) -> None:
        self._setup = setup
        self._encrypted: set[int] = set()
        self._secret, self._public_key = self._new_secret()
        self._ephemeral, _ = self._new_secret()  # u_i; its "public key" has the same `a` and goes nowhere

    @classmethod
    def restored(cls, setup: JointSetup, saved: bytes) -> JointShare:
        """Return the share that `saved` has written down; raise `DeserialisationError` where it is none."""
        found = decode(saved, _Share, "share of a secret key")
        share = cls.__new__(cls)
        share._setup = setup
        share._encrypted = set(found.encrypted)
        share._secret, share._ephemeral = (
            setup.load(openfhe.DeserializePrivateKeyString, setup.scheme.secret_key, packed)
            for packed in (found.secret, found.ephemeral)
        )
        return share

    def saved(self) -> bytes:
        """Return the share as bytes, once `key_parts` has been sent; nobody else may see them."""
        pack = self._setup.scheme.secret_key.pack
        secret, ephemeral = (pack(openfhe.Serialize(key, openfhe.BINARY)) for key in (self._secret, self._ephemeral))
        return encode(_Share(secret, ephemeral, tuple(sorted(self._encrypted))))

    def __repr__(self) -> str:
        return f"<JointShare of session {self._setup.session.hex()} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a share of a secret key is not pickled; it ends with its session")

    def key_parts(self) -> KeyParts:
        """Return this party's parts of the keys, first round."""
        setup = self._setup
        shapes = setup.key_parts
        public_key = self._made("public key", setup.scheme.public_key, self._public_key, setup.common("public key"))
        parts = public_key, self._relinearisation(), self._rotation_keys()
        return KeyParts(*(shape.pack(part) for shape, part in zip(shapes, parts, strict=True)))

    def relinearisation_part(self, total: Words) -> bytes:
        """Return this party's second part of the relinearisation key.

        Parameters
        ----------
        total : ndarray of uint64
            The sum of all parties' first parts, added up by the caller: from a sum chosen by somebody else the answer
            would tell the share.
        """
        setup, scheme = self._setup, self._setup.scheme
        half = setup.relinearisation_part
        h, g = setup.halves["relinearisation key"].split(total)
        part, minus = scheme.products(self._secret, h, g, setup.tag)
        plus, _ = scheme.products(self._ephemeral, g, half.zeros(), setup.tag)
        half.subtract_in_place(part, minus)
        half.add_in_place(part, plus)
        return half.pack(part)

    def encrypt(self, values: Slots, block: int, mask: Words | None = None, *, shift_bits: int = 0) -> bytes:
        """Return this party's part of the encrypted sum of a block.

        Parameters
        ----------
        values : ndarray of complex128, shape (N/2,)
        block : int
        mask : ndarray of uint64, optional
            As `SecretContext.encrypt` takes it.
        shift_bits : int
            Encrypt 2^shift_bits times the values, from whose encoding nothing more is rounded off.

        Raises
        ------
        ValueError
            Not one finite value a slot, or a value beyond the modulus; or the block has been encrypted before: two
            values under the same random polynomials tell their difference.
        """
        setup, scheme = self._setup, self._setup.scheme
        values = checked(values, setup.parameters, 1)
        if block in self._encrypted:
            raise ValueError(f"block {block} has been encrypted before with this share")
        self._encrypted.add(block)
        common = setup.common("submission", block)
        reference = setup.relinearisation_part.zeros()
        reference[: len(common)] = common  # one digit, modulo Q
        product, _ = scheme.products(self._secret, reference, np.zeros_like(reference), setup.tag)
        first = setup.submission_part.zeros()
        setup.submission_part.subtract_in_place(first, product[: len(common)])
        ciphertext = self._ciphertext(first, common)
        scheme.context.EvalAddInPlace(ciphertext, self._encoded(values * setup.parameters.scale, shift_bits))
        part = self._made("submission", scheme.submission, ciphertext, common)
        if mask is not None:
            setup.submission_part.add_in_place(part, mask)
        return setup.submission_part.pack(part)

    def partial(self, result: bytes, smudging: Sequence[Slots]) -> bytes:
        """Return this party's partial decryption of a result.

        Parameters
        ----------
        result : bytes
            From `PublicContext.dump_result`.
        smudging : sequence of ndarray
            Noise to add, in plain units over all slots, one layer after the other (`fhe_auc.blinding`). The library
            adds only 2^20 of its own.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters.
        """
        setup, scheme = self._setup, self._setup.scheme
        _, second = setup.split_result(result)
        noise = self._ciphertext(np.zeros_like(second), second)
        for layer in smudging:
            scheme.context.EvalAddInPlace(noise, scheme.integers(layer * setup.parameters.scale**2))
        # The library's "lead" decrypts (c0, c1) as c0 + c1·s: here c0 is the smudging noise, for every party.
        (partial,) = scheme.context.MultipartyDecryptLead([noise], self._secret)
        return setup.partial.pack(openfhe.Serialize(partial, openfhe.BINARY))

    def _new_secret(self) -> tuple[Any, Any]:
        """Return a fresh secret, and its part of the public key."""
        setup, scheme = self._setup, self._setup.scheme
        common = setup.common("public key")
        packed = setup.halves["public key"].pack(np.zeros_like(common), common)
        reference = setup.load(openfhe.DeserializePublicKeyString, scheme.public_key, packed)
        pair = scheme.context.MultipartyKeyGen(reference, False, True)
        return pair.secretKey, pair.publicKey

    def _relinearisation(self) -> Words:
        """Return h_i and g_i, as one key."""
        setup, scheme = self._setup, self._setup.scheme
        halves, layout = setup.halves["relinearisation key"], scheme.relinearisation_key
        common = setup.common("relinearisation key")
        reference = setup.load(openfhe.DeserializeEvalKeyString, layout, halves.pack(np.zeros_like(common), common))
        switching = scheme.context.MultiKeySwitchGen(self._secret, self._ephemeral, reference)
        h = self._made("relinearisation key", layout, switching, common)
        scheme.add_errors(h, self._ephemeral, setup.tag)
        g, _ = scheme.products(self._secret, common, np.zeros_like(common), setup.tag)
        return halves.join(h, g)

    def _rotation_keys(self) -> Words:
        setup, scheme = self._setup, self._setup.scheme
        if not setup.parameters.rotations:
            _, _, none = setup.key_parts
            return none.zeros()
        common = setup.common("rotation keys")
        packed = setup.halves["rotation keys"].pack(np.zeros_like(common), common)
        reference = setup.load(openfhe.DeserializeEvalKeyMapString, scheme.rotation_keys, packed)
        elements = list(scheme.elements.values())
        keys = scheme.context.MultiEvalAutomorphismKeyGen(self._secret, reference, elements, setup.tag)
        parts = self._made("rotation keys", scheme.rotation_keys, keys, common)
        scheme.add_errors(parts, self._secret, setup.tag)
        return parts

    def _encoded(self, values: Slots, shift_bits: int) -> Any:
        """Return what is to be added to a ciphertext: a plaintext, or a ciphertext that hides nothing."""
        scheme = self._setup.scheme
        plaintext = scheme.integers(values)
        if not shift_bits:
            return plaintext
        zeros = self._setup.submission_part.zeros()
        shifted = self._ciphertext(zeros, zeros)
        scheme.context.EvalAddInPlace(shifted, plaintext)
        shifted = scheme.context.EvalMult(shifted, scheme.integers(np.full(len(values), 2.0**shift_bits, complex)))
        shifted.SetNoiseScaleDeg(1)
        shifted.SetScalingFactor(scheme.library_scale)
        return shifted

    def _ciphertext(self, first: Words, second: Words) -> Any:
        setup = self._setup
        packed = setup.halves["submission"].pack(first, second)
        return setup.load(openfhe.DeserializeCiphertextString, setup.scheme.submission, packed)

    def _made(self, purpose: Purpose, layout: Layout, item: Any, common: Words) -> Words:
        """Return the half of a fresh object that is this party's own.

        Raises
        ------
        RuntimeError
            The library did not use the common polynomials. Nothing made from them may leave the process.
        """
        own, found = self._setup.halves[purpose].unpack(layout.pack(openfhe.Serialize(item, openfhe.BINARY)))
        if not np.array_equal(found, common):
            raise RuntimeError(f"OpenFHE made a part of a {purpose} with other common polynomials")
        return own
