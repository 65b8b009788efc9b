"""Joint keys, whatever the scheme: n parties, n shares of a secret key that never exists as a whole.

Party i draws its own share s_i, and once more a secret u_i that it needs for one key only; S = Σ s_i is the secret key.
The random polynomials `a` that parts must have in common are expanded from what names the session and all its parties'
keys, others for every purpose, so that nobody chooses them and they need not travel. Every e is a fresh error, w what
the key switches, which is public:

    round 1   public key         b_i = e - a·s_i                               pk = (Σ b_i, a)
              rotation keys      b_i = e - a·s_i + w·σ(s_i)                    (Σ b_i, a), for each rotation
              relinearisation    h_i = e - a·u_i + w·s_i,  g_i = e + a·s_i     H = Σ h_i, G = Σ g_i
    round 2   relinearisation    r_i = e + s_i·H + (u_i - s_i)·G               (Σ r_i, G): encrypts w·S²
              submission         b_i = e - a·s_i + m_i                         (Σ b_i, a): encrypts Σ m_i
    round 3   result (c0, c1)    d_i = c1·s_i + smudging                       c0 + Σ d_i: decrypts to the result

Sources: Mouchet et al., PoPETs 2021 (protocols 1 to 3; without u_i, as in OpenFHE's own, the two relinearisation parts
of one party add up to w·s_i and an error: anybody who sees both reads the share). That a submission is one party's part
of a single ciphertext is ours: it takes half the bytes of a public-key encryption, its noise grows with √n instead of
n, and only the sum of all parties' parts can be decrypted. What w is, the scheme says: `fhe_auc.bfv.joint_keys`,
`fhe_auc.ckks.openfhe_joint_keys`.

Whoever chose `a`, H or G could read s_i from a single answer. So every party expands `a` itself, and adds up H and G
itself from parts whose authors it has verified. Whether a part is right nobody can tell; only that it is one.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from fhe_auc.rlwe import container, hidden
from fhe_auc.rlwe.library import P
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.serialise import encode

Purpose = Literal["public key", "relinearisation key", "rotation keys", "submission"]


class KeyParts(NamedTuple):
    """What a party contributes to the keys in the first round, packed; `BaseJointSetup.key_parts` has the shapes.

    The relinearisation part is both h_i and g_i. It and rotation keys are empty where a circuit needs none.
    """

    public_key: bytes
    relinearisation: bytes
    rotation_keys: bytes


class BaseJointSetup(ABC, Generic[P]):
    """What everybody knows of one session's joint keys: the common polynomials, and the shapes of all parts.

    `binding` is 32 bytes that name the session and all parties' keys (`fhe_auc_keys.roster.Roster.binding`): the common
    polynomials are expanded from it.
    """

    def __init__(self, parameters: P, binding: bytes) -> None:
        self.parameters = parameters
        self.binding = binding
        self.nothing = Polynomials(parameters.ring_dimension, ())

    @property
    @abstractmethod
    def key_parts(self) -> tuple[Polynomials, Polynomials, Polynomials]:
        """Shapes of `KeyParts`."""

    @property
    @abstractmethod
    def relinearisation_part(self) -> Polynomials:
        """Shape of a party's second part of the relinearisation key."""

    @property
    @abstractmethod
    def submission_part(self) -> Polynomials:
        """Shape of a party's part of one ciphertext."""

    @property
    @abstractmethod
    def result_part(self) -> Polynomials:
        """Shape of one polynomial of a result, and of a partial decryption of it."""

    def seed(self, purpose: Purpose, index: int) -> bytes:
        """Return the seed of the common polynomials for a purpose; submissions have others for every ciphertext."""
        label = encode((self.binding, encode(self.parameters), purpose, index))
        return hashlib.sha256(b"fhe-auc joint keys\0" + label).digest()

    def opened(self, kind: str, result: bytes) -> bytes:
        """Return what the container of a result holds; errors as `container.open_any`."""
        _, packed = container.open_any(kind, result)
        return packed

    def split_result(self, kind: str, result: bytes) -> tuple[Words, Words]:
        """Return both polynomials of a result; errors as `opened` and `hidden.unpack`."""
        half = self.result_part
        whole = Polynomials(half.ring_dimension, 2 * half.moduli)
        first, second = np.split(hidden.unpack(whole, self.opened(kind, result)), 2)
        return first, second

    def fused(self, kind: str, result: bytes, partials: Iterable[Words]) -> Words:
        """Return c0 + Σ d_i of a result and all partial decryptions; errors as `split_result`."""
        total, _ = self.split_result(kind, result)
        for partial in partials:
            self.result_part.add_in_place(total, partial)
        return total


Share = TypeVar("Share", bound="BaseJointShare[Any]")


class BaseJointShare(ABC, Generic[P]):
    """One party's share of the secret key, drawn when made; it is never printed, pickled or sent.

    Between rounds it may be kept in an encrypted key store: `saved` and `restored`.
    """

    setup: BaseJointSetup[P]

    def __init__(self, setup: BaseJointSetup[P]) -> None:
        self.setup = setup
        self._encrypted: set[int] = set()

    @classmethod
    @abstractmethod
    def restored(cls: type[Share], setup: Any, saved: bytes) -> Share:
        """Return the share that `saved` has written down; raise `DeserialisationError` where it is none."""

    @abstractmethod
    def saved(self) -> bytes:
        """Return the share as bytes, once `key_parts` has been sent; nobody else may see them."""

    def __repr__(self) -> str:
        return f"<JointShare of session {self.setup.binding.hex()} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a share of a secret key is not pickled; it ends with its session")

    @abstractmethod
    def key_parts(self) -> KeyParts:
        """Return this party's parts of the keys, first round."""

    @abstractmethod
    def relinearisation_part(self, total: Words) -> bytes:
        """Return this party's second part of the relinearisation key.

        `total`, uint64, is the sum of all parties' first parts, added up by the caller: from a sum chosen by somebody
        else the answer would tell the share.
        """

    def _use(self, block: int) -> None:
        """Note that a ciphertext's common polynomials are about to be used.

        Raises ValueError if they have been before: two values under the same random polynomials tell their difference.
        """
        if block in self._encrypted:
            raise ValueError(f"block {block} has been encrypted before with this share")
        self._encrypted.add(block)
