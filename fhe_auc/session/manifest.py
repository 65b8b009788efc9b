"""The manifest: what all roles of a session agree on before it starts. It is public and holds nothing secret."""

from __future__ import annotations

import hashlib
import math
from functools import cached_property, lru_cache
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, InputError
from fhe_auc.base.names import MAX_CHARACTERS, first_alike, problem_with
from fhe_auc.base.serialise import decode, encode
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.study import Study
from fhe_auc.question.thresholds import explicit
from fhe_auc.rlwe.ring_parameters import FINGERPRINT_BYTES, RingParameters
from fhe_auc.session.plan import EncodedPlan, Keys, Plan

SESSION_BYTES = 16
_NAME_BYTES = 32
_MOST_STEPS, _MOST_TURNS = 100, 2**40
P = TypeVar("P", bound=Plan)


@lru_cache(maxsize=8)  # a role's parts ask for it one by one, and in one process all roles for the same
def _decoded(content: bytes, kind: type[P]) -> P:
    return decode(content, kind, "plan")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """One session, as the key holder announces it; raises `InputError` if a field cannot be what it says.

    No two `parties` differ only in case or width of letters, and in a fleet's session there are none. The aggregator
    may go on with `min_parties` submissions: at least two where there are two parties or more.

    `context` is, with sealed keys, the fingerprint of the encryption context; between machines with a helper, that of
    its line in the members' file; otherwise empty. With the keys in these lines messages are signed; a session that is
    played in one process names none.

    `common_secret` names the secret that is dealt to all parties; it is empty where there is none. A party refuses any
    other secret: a dealer that gave parties different ones could read one party's own numbers off what all of them
    check.
    """

    protocol: str  # name of the plug-in
    session: bytes  # fresh random id, 16 bytes
    parties: tuple[str, ...]  # names
    grid: bytes  # thresholds, float64 little-endian, finite and strictly ascending, from 2 to 2^20 of them
    min_parties: int
    keys: Keys = "none"  # who makes them
    context: bytes = b""  # 32 bytes, or none
    fingerprints: tuple[bytes, ...] = ()  # of the lines of `parties`, in their order, 32 bytes each
    aggregator: bytes = b""  # fingerprint of the aggregator's line
    study: Study | None = None  # what is evaluated, in a session between machines
    plan: EncodedPlan | None = None  # of the encrypted computation, for the protocol to decode; None: nothing encrypted
    options: dict[str, bool | int | float | str] = msgspec.field(default_factory=dict)  # all else agreed on; finite
    fleet: Fleet | None = None  # with a helper, devices in place of `parties`
    common_secret: bytes = b""  # 32 bytes, or none
    step: int = 0  # which of its study's sessions this is, from 1 on (`fhe_auc.report.studies`); 0 where of none
    turn: int = 0  # in which of the study's hours, days, weeks or months (`Study.turn`)

    def __post_init__(self) -> None:
        if len(self.session) != SESSION_BYTES:
            raise InputError(f"a session id has {SESSION_BYTES} bytes, got {len(self.session)}")
        named = self.keys == "sealed" or (self.keys == "helper" and bool(self.aggregator))
        expected = FINGERPRINT_BYTES if named else 0
        if len(self.context) != expected:
            raise InputError(f"with {self.keys} keys, what names them has {expected} bytes, got {len(self.context)}")
        if len(self.common_secret) not in (0, _NAME_BYTES):
            raise InputError("what names the common secret has another length")
        if (self.plan is None) != (self.keys == "none"):
            raise InputError("a session has a plan if, and only if, it has keys")
        if len(self.grid) % 8:
            raise InputError("the thresholds are cut off")
        explicit(self.thresholds)
        for party in self.parties:
            if problem := problem_with(party):
                raise InputError(f"party {party[:MAX_CHARACTERS]!a}: the name of a party {problem}")
        if self.fleet is not None and (self.parties or self.keys != "helper"):
            raise InputError("a fleet's session names no parties, and has a helper")
        if not self.size:
            raise InputError("a session needs parties")
        if (pair := first_alike(self.parties)) is not None:
            raise InputError(
                f"parties {pair[0]!r} and {pair[1]!r} would be two, but their names differ at most in case or width of "
                "letters: give them one name, or names that people can tell apart"
            )
        expected_number = len(self.parties) if self.aggregator else 0
        named_keys = *self.fingerprints, *([self.aggregator] if self.aggregator else [])
        if len(self.fingerprints) != expected_number or {*map(len, named_keys)} - {FINGERPRINT_BYTES}:
            raise InputError("a session names the keys of all parties and of its aggregator, or none at all")
        if len(set(named_keys)) != len(named_keys):
            raise InputError("the aggregator and each party have keys of their own")
        if bool(self.aggregator) != (self.study is not None):
            raise InputError("a session between machines says what is evaluated, its study; one in a process has none")
        known = set(self.parties).union(() if self.study is None else self.study.sites)  # some may have left
        if self.study is not None and (strangers := set(self.study.caps) - known):
            raise InputError(f"row-caps: {min(strangers)!a} is not a party of the session")
        if not 0 <= self.step <= _MOST_STEPS or not 0 <= self.turn <= _MOST_TURNS:
            raise InputError(f"a session is step 1 to {_MOST_STEPS} of its study, or of none: 0; got {self.step}")
        listed = None if self.study is None else self.study.listed
        if listed is not None and not np.array_equal(self.thresholds, listed):
            raise InputError("the session's thresholds are not those of the score values that its study lists")
        for name, value in self.options.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"option {name!r} must be finite, got {value}")
        # A "pool" of one of several parties would be that party's own AUC.
        least = min(2, self.size)
        if not least <= self.min_parties <= self.size:
            raise InputError(f"min_parties must lie between {least} and {self.size}, got {self.min_parties}")

    def __hash__(self) -> int:
        return hash(self.session)  # options is a dict, which has no hash of its own

    @property
    def size(self) -> int:
        """How many may take part: parties, or members of the fleet."""
        return len(self.parties) if self.fleet is None else self.fleet.members

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """Ascending decision points, shape (m,), read-only."""
        return np.frombuffer(self.grid, "<f8")

    def decoded_plan(self, kind: type[P]) -> P:
        """Return the plan, which must be of this type.

        Raises `InputError` where there is none, it is of another type or malformed, or it is for other keys, another
        number of thresholds or fewer parties than the manifest.
        """
        if self.plan is None:
            raise InputError("the session's manifest has no plan for an encrypted computation")
        if self.plan.kind != kind.kind:
            raise InputError(f"the session's manifest is for a computation of kind {self.plan.kind[:40]!r}")
        try:
            plan: P = _decoded(self.plan.content, kind)
        except DeserialisationError as error:
            raise InputError(f"the session's manifest has no valid plan: {error}") from None
        if plan.keys != self.keys:
            raise InputError(f"the manifest's plan is for {plan.keys} keys, the session's are {self.keys}")
        if plan.thresholds != len(self.thresholds):
            raise InputError("the manifest's plan is for another number of thresholds")
        if plan.parties < self.size:
            raise InputError("the manifest's plan is for fewer parties")
        return plan

    def check_keys(self, plan: Plan, parameters: RingParameters, fingerprint: bytes) -> None:
        """Raise `InputError` where keys with these parameters and this fingerprint are not those of the session."""
        if plan.parameters != parameters:
            raise InputError("the keys were made with other parameters than the session's manifest names")
        if self.keys == "sealed" and self.context != fingerprint:
            raise InputError("the keys are not those of this session (fingerprint mismatch)")

    def check_common_secret(self, common_secret: bytes) -> None:
        """Raise `InputError` unless the manifest names this one."""
        if name_of(common_secret) != self.common_secret:
            raise InputError(
                "the parties' common secret is not that of the manifest: whoever has dealt it may deal several"
            )

    def to_bytes(self) -> bytes:
        """Serialise; equal manifests give equal bytes."""
        return encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Parse; raise `DeserialisationError` on anything else than a manifest."""
        return decode(data, cls, "manifest")

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the manifest, 32 bytes; every message carries it."""
        return hashlib.sha256(b"fhe-auc manifest\0" + self.to_bytes()).digest()


def name_of(common_secret: bytes) -> bytes:
    """Return what names a common secret in a manifest, and tells nothing of it: 32 bytes."""
    return hashlib.sha256(b"fhe-auc common secret 1\0" + common_secret).digest()
