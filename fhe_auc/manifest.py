"""The manifest: what all roles of a session agree on before it starts. It is public and holds nothing secret."""

from __future__ import annotations

import hashlib
import math
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.errors import InputError
from fhe_auc.names import MAX_CHARACTERS, alike, problem_with
from fhe_auc.rlwe.parameters import FINGERPRINT_BYTES
from fhe_auc.serialise import decode, encode
from fhe_auc.thresholds import explicit
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.exact_auc.planner import ExactPlan
from fhe_auc_protocols.histograms.encrypted_sums import SumPlan

SESSION_BYTES = 16

AnyPlan: TypeAlias = AucPlan | SumPlan | ExactPlan
"""Parameters of an encrypted computation."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session, as the key holder announces it.

    Attributes
    ----------
    protocol : str
        Name of the plug-in.
    session : bytes
        Fresh random id, 16 bytes.
    parties : tuple of str
        Names of all parties, each once.
    grid : bytes
        Thresholds, float64 little-endian, ascending.
    min_parties : int
        The aggregator may go on with this many submissions; at least two where there are two parties or more.
    context : bytes
        Fingerprint of the encryption context; empty for protocols without encryption.
    plan : AucPlan, SumPlan, ExactPlan or None
        Parameters of the encrypted computation.
    options : dict of str to bool, int, float or str
        Parameters of the protocol that all roles must agree on and that are not in the plan: a privacy budget.
    """

    protocol: str
    session: bytes
    parties: tuple[str, ...]
    grid: bytes
    min_parties: int
    context: bytes = b""
    plan: AnyPlan | None = None
    options: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise InputError(f"a session id has {SESSION_BYTES} bytes, got {len(self.session)}")
        if len(self.context) not in (0, FINGERPRINT_BYTES):
            raise InputError(f"a context's fingerprint has {FINGERPRINT_BYTES} bytes, got {len(self.context)}")
        if len(self.grid) % 8:
            raise InputError("the thresholds are cut off")
        explicit(self.thresholds)
        for party in self.parties:
            if problem := problem_with(party):
                raise InputError(f"party {party[:MAX_CHARACTERS]!a}: the name of a party {problem}")
        if not self.parties or len({alike(party) for party in self.parties}) != len(self.parties):
            raise InputError("a session needs parties, and no two whose names differ in case or width of letters only")
        for name, value in self.options.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"option {name!r} must be finite, got {value}")
        # A "pool" of one of several parties would be that party's own AUC.
        least = min(2, len(self.parties))
        if not least <= self.min_parties <= len(self.parties):
            raise InputError(f"min_parties must lie between {least} and {len(self.parties)}, got {self.min_parties}")

    def __hash__(self) -> int:
        return hash(self.session)  # options is a dict, which has no hash of its own

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Ascending decision points."""
        return np.frombuffer(self.grid, "<f8")

    @property
    def joint_keys(self) -> bool:
        """Whether the parties make the keys together."""
        return self.plan is not None and self.plan.joint_keys

    def to_bytes(self) -> bytes:
        """Serialise; equal manifests give equal bytes."""
        return encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Parse; raise `DeserialisationError` on anything else than a manifest."""
        return decode(data, cls, "manifest")

    @property
    def digest(self) -> bytes:
        """SHA-256 of the manifest; every message carries it."""
        return hashlib.sha256(b"fhe-auc manifest\0" + self.to_bytes()).digest()
