"""Joint keys on OpenFHE: n parties, n shares of a secret key that never exists as a whole.

Party i draws its own secret share s_i; S = Σ s_i is the secret key. What all parts of a key must have in common, the
random polynomials `a`, is expanded from the session id, so that nobody chooses it and only the other halves travel:

    public key         b_i = e - a·s_i                      (Σ b_i, a)
    rotation keys      b_i = e - a·s_i + w·σ(s_i)           (a, Σ b_i), for each rotation and each digit w
    switching key      b_i = e - a·s_i + w·s_i              (a, B) with B = Σ b_i: encrypts w·S
    relinearisation    (a·s_i + e, B·s_i + e')              summed: encrypts w·S²; a second round, since it needs B
    submission         b_i = e - a·s_i + m_i                (Σ b_i, a): encrypts Σ m_i
    result (c0, c1)    h_i = c1·s_i + smudging              c0 + Σ h_i: the blinded totals

Sources: Asharov et al., EUROCRYPT 2012 (evaluation keys in two rounds); Mouchet et al., PoPETs 2021. That a submission
is one party's part of a single ciphertext is ours: it takes half the bytes of a public-key encryption, its noise grows
with √n instead of n, and only the sum of all parties' parts can be decrypted.

Whoever chose `a`, or B, could read s_i from a single answer. So every party expands `a` itself, and adds up B itself
from parts whose authors it has verified (`keys.joint`). Whether a part is right nobody can tell; only that it is one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import openfhe

from fhe_auc.ckks import container
from fhe_auc.ckks.context import PublicContext, Slots, StoredPublic
from fhe_auc.ckks.layout import Layout
from fhe_auc.ckks.openfhe_backend import OpenFhePublicContext, scheme_for
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.ckks.polynomials import Polynomials, Words
from fhe_auc.serialise import encode

Kind = Literal["public key", "switching key", "rotation keys", "submission"]
KEY_KINDS: tuple[Kind, ...] = ("public key", "switching key", "rotation keys")
"""What a party contributes to in the first round, in the order of `KeyParts`."""


class KeyParts(NamedTuple):
    """One party's parts of the keys, first round; packed polynomials of the shape `JointSetup.part`."""

    public_key: bytes
    switching_key: bytes
    rotation_keys: bytes


class _Halves:
    """How the objects of one kind split into the half that parties contribute and the half that is common to all.

    Parameters
    ----------
    layout : Layout
    keys : int
        Keys in one object.
    own_first : bool
        Which half comes first in the library's format.
    """

    def __init__(self, layout: Layout, *, keys: int = 1, own_first: bool) -> None:
        moduli = layout.polynomials.moduli
        self._layout = layout
        self._own = 0 if own_first else 1
        self._shape = (keys, 2, len(moduli) // (2 * keys), layout.polynomials.ring_dimension)
        self.half = Polynomials(layout.polynomials.ring_dimension, moduli[: self._shape[2]] * keys)

    def join(self, own: Words, common: Words) -> bytes:
        """Return a packed object."""
        whole = np.empty(self._shape, np.uint64)
        whole[:, self._own] = own.reshape(whole[:, 0].shape)
        whole[:, 1 - self._own] = common.reshape(whole[:, 0].shape)
        return self._layout.polynomials.pack(whole.reshape(-1, self._shape[-1]))

    def split(self, packed: bytes) -> tuple[Words, Words]:
        """Return own and common half of a packed object; `DeserialisationError` where it is none."""
        whole = self._layout.polynomials.unpack(packed).reshape(self._shape)
        flat = len(self.half.moduli), self._shape[-1]
        return whole[:, self._own].reshape(flat), whole[:, 1 - self._own].reshape(flat)


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
        self._halves: dict[Kind, _Halves] = {
            "public key": _Halves(scheme.public_key, own_first=True),
            "switching key": _Halves(scheme.relinearisation_key, own_first=False),
            "rotation keys": _Halves(scheme.rotation_keys, keys=len(parameters.rotations), own_first=False),
            "submission": _Halves(scheme.submission, own_first=True),
        }
        self.relinearisation = scheme.relinearisation_key.polynomials
        """Shape of a part of the relinearisation key."""

    def part(self, kind: Kind) -> Polynomials:
        """Return the shape of one party's part."""
        return self._halves[kind].half

    def common(self, kind: Kind, index: int = 0) -> Words:
        """Return the polynomials `a` of a kind of part; submissions have others for every block."""
        label = encode((self.session, encode(self.parameters), kind, index))
        return self.part(kind).uniform(hashlib.sha256(b"fhe-auc joint keys\0" + label).digest())

    def whole(self, kind: Kind, own: Words, common: Words) -> bytes:
        """Return both halves as the scheme's packed object."""
        return self._halves[kind].join(own, common)

    def own_half(self, kind: Kind, packed: bytes, common: Words) -> Words:
        """Return the contributed half of a packed object that the library made.

        Raises
        ------
        RuntimeError
            The library did not use the common polynomials. Nothing made from them may leave the process.
        """
        own, found = self._halves[kind].split(packed)
        if not np.array_equal(found, common):
            raise RuntimeError(f"OpenFHE made a {kind} with other common polynomials")
        return own

    def public_context(self, public_key: Words, relinearisation: Words, rotation_keys: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts."""
        stored = StoredPublic(
            self.parameters,
            self.whole("public key", public_key, self.common("public key")),
            self.relinearisation.pack(relinearisation),
            self.whole("rotation keys", rotation_keys, self.common("rotation keys")),
        )
        return OpenFhePublicContext(stored)

    def submission(self, total: Words, block: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' submissions of a block, for `PublicContext.load_submission`."""
        packed = self.whole("submission", total, self.common("submission", block))
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
        fused = self.scheme.load(openfhe.DeserializeCiphertextString, self.partial, packed, self.tag)
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
        return self._halves["submission"].split(packed)  # which differs from a result in the header only

    def load(self, parse: Any, layout: Layout, packed: bytes) -> Any:
        """Return the library's object, called by this session's name."""
        return self.scheme.load(parse, layout, packed, self.tag)


class JointShare:
    """One party's share of the secret key, drawn when made; it is never printed, pickled, stored or sent.

    Parameters
    ----------
    setup : JointSetup
    """

    def __init__(self, setup: JointSetup) -> None:
        self._setup = setup
        self._encrypted: set[int] = set()
        reference = self._reference("public key", setup.common("public key"))
        pair = setup.scheme.context.MultipartyKeyGen(reference, False, True)
        self._public_key, self._secret = pair.publicKey, pair.secretKey

    def __repr__(self) -> str:
        return f"<JointShare of session {self._setup.session.hex()} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a share of a secret key is not pickled; it ends with its session")

    def key_parts(self) -> KeyParts:
        """Return this party's parts of public, switching and rotation keys."""
        setup, scheme = self._setup, self._setup.scheme
        common = {kind: setup.common(kind) for kind in KEY_KINDS}
        switching = scheme.context.MultiKeySwitchGen(
            self._secret, self._secret, self._reference("switching key", common["switching key"])
        )
        rotation = scheme.context.MultiEvalAutomorphismKeyGen(
            self._secret,
            self._reference("rotation keys", common["rotation keys"]),
            list(scheme.elements.values()),
            setup.tag,
        )
        return KeyParts(
            self._packed_part("public key", scheme.public_key, self._public_key, common["public key"]),
            self._packed_part("switching key", scheme.relinearisation_key, switching, common["switching key"]),
            self._packed_part("rotation keys", scheme.rotation_keys, rotation, common["rotation keys"]),
        )

    def relinearisation_part(self, switching_key: Words) -> bytes:
        """Return this party's part of the relinearisation key.

        Parameters
        ----------
        switching_key : ndarray of uint64
            The sum of all parties' parts, added up by the caller: from a sum chosen by somebody else the answer would
            tell the share.
        """
        setup = self._setup
        packed = setup.whole("switching key", switching_key, setup.common("switching key"))
        layout = setup.scheme.relinearisation_key
        joint = setup.load(openfhe.DeserializeEvalKeyString, layout, packed)
        part = setup.scheme.context.MultiMultEvalKey(self._secret, joint, setup.tag)
        return layout.pack(openfhe.Serialize(part, openfhe.BINARY))

    def encrypt(self, values: Slots, block: int) -> bytes:
        """Return this party's part of the encrypted sum of a block.

        Raises
        ------
        ValueError
            The block has been encrypted before: two values under the same random polynomials tell their difference.
        """
        if block in self._encrypted:
            raise ValueError(f"block {block} has been encrypted before with this share")
        self._encrypted.add(block)
        setup, scheme = self._setup, self._setup.scheme
        common = setup.common("submission", block)
        ciphertext = self._zero(common)
        scheme.context.EvalAddInPlace(ciphertext, scheme.integers(values * setup.parameters.scale))
        return self._packed_part("submission", scheme.submission, ciphertext, common)

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

    def _zero(self, common: Words) -> Any:
        """Return a fresh encryption of zero under this share, (e - a·s_i, a)."""
        # The library has no call for it, but a switching key *from* the zero key is made of just such pairs. One digit
        # modulo Q is enough.
        setup, scheme = self._setup, self._setup.scheme
        layout = scheme.secret_key
        nothing = setup.load(openfhe.DeserializePrivateKeyString, layout, bytes(layout.packed_size))
        shape = len(setup.part("switching key").moduli), setup.parameters.ring_dimension
        reference = np.zeros(shape, np.uint64)
        reference[: len(common)] = common
        switching = scheme.context.MultiKeySwitchGen(nothing, self._secret, self._reference("switching key", reference))
        packed = scheme.relinearisation_key.pack(openfhe.Serialize(switching, openfhe.BINARY))
        return self._ciphertext(setup.own_half("switching key", packed, reference)[: len(common)], common)

    def _ciphertext(self, first: Words, second: Words) -> Any:
        packed = self._setup.whole("submission", first, second)
        return self._setup.load(openfhe.DeserializeCiphertextString, self._setup.scheme.submission, packed)

    def _reference(self, kind: Kind, common: Words) -> Any:
        """Return a key of which OpenFHE's multiparty functions take the common half, and nothing else."""
        setup = self._setup
        packed = setup.whole(kind, np.zeros_like(common), common)
        scheme = setup.scheme
        if kind == "public key":
            return setup.load(openfhe.DeserializePublicKeyString, scheme.public_key, packed)
        if kind == "rotation keys":
            return setup.load(openfhe.DeserializeEvalKeyMapString, scheme.rotation_keys, packed)
        return setup.load(openfhe.DeserializeEvalKeyString, scheme.relinearisation_key, packed)

    def _packed_part(self, kind: Kind, layout: Layout, item: Any, common: Words) -> bytes:
        packed = layout.pack(openfhe.Serialize(item, openfhe.BINARY))
        return self._setup.part(kind).pack(self._setup.own_half(kind, packed, common))
