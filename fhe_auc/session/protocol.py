"""What a protocol plug-in is: a factory for one session's manifest, keys and roles."""

from __future__ import annotations

import operator
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import CheckedNames, Options
from fhe_auc.base.serialise import encode
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.study import MOST_ROWS
from fhe_auc.results.evaluation import Evaluation, Outcome
from fhe_auc.results.intervals import quantile
from fhe_auc.rows.own_rows import check_scores, warnings_of
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.plan import EncodedPlan, Keys, Plan

DEFAULT_PROTOCOL = "verified"
DEFAULT_MAX_ROWS = 10**6
DEFAULT_MIN_ROWS = 100


@dataclass(frozen=True, kw_only=True)
class Setup(CheckedNames):
    """How a session is set up, whatever it evaluates.

    Numbers may be numpy's; they become Python's. Raises `InputError` for a bound that is no integer.

    Attributes
    ----------
    keys : "sealed", "helper" or None
        A key holder makes the secret key and seals it to each party; or a helper has it, and no party. None: sealed,
        and in one process with an epsilon of verified helper.
    backend : "openfhe", "tenseal" or None
        Encryption library; None: openfhe where it can be imported, else tenseal.
    max_rows, min_rows : int
        Public bounds on the pooled rows: parameters hold up to max_rows, the precision from min_rows on. Protocols that
        encrypt refuse more than max_rows before any key is made.
    row_caps : mapping of str to int, int or None
        For exact and verified with a helper: the most rows of each party by name, or of any. Each party then proves
        that its counts are within its cap; who does not is left out and named. None: nothing is proved of inputs.
    """

    keys: str | None = None
    backend: str | None = None
    max_rows: int = DEFAULT_MAX_ROWS
    min_rows: int = DEFAULT_MIN_ROWS
    row_caps: Mapping[str, int] | int | None = None

    def __post_init__(self) -> None:
        self._make_integers("max_rows", "min_rows")
        if isinstance(self.row_caps, Mapping):
            caps = {party: _row_cap(cap, f" for {party!r}") for party, cap in self.row_caps.items()}
            object.__setattr__(self, "row_caps", caps)
        elif self.row_caps is not None:
            object.__setattr__(self, "row_caps", _row_cap(self.row_caps))

    def _make_integers(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is None and name == "min_parties":
                continue
            if (number := integer(value)) is None:
                raise InputError(f"{name} must be an integer, got {value!r}")
            object.__setattr__(self, name, number)


@dataclass(frozen=True, kw_only=True)
class Request(Setup):
    """What people have agreed on before any key exists: how a session is set up, and what it evaluates."""

    keys: str = "sealed"
    parties: tuple[str, ...]  # names; none where a fleet takes part
    thresholds: NDArray[np.float64]  # ascending, shape (m,); protocols that find thresholds set their own
    min_parties: int | None = None  # the session goes on with this many submissions; None: all
    interval: float | None = None  # level of the AUC's confidence interval; None: no interval
    analysis: Analysis = PLAIN  # only some protocols have more than one model over all rows
    fleet: Fleet | None = None  # devices in place of parties that have names
    options: Mapping[str, Any] = field(default_factory=dict)  # the protocol's own; unknown ones are refused

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keys", self.keys or "sealed")
        self._make_integers("min_parties")
        if self.interval is not None:
            quantile(self.interval)  # raises for what is no level
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in self.options.items()}
        object.__setattr__(self, "options", plain)

    @property
    def size(self) -> int:
        """How many may take part."""
        return len(self.parties) if self.fleet is None else self.fleet.members

    @property
    def caps(self) -> tuple[int, ...]:
        """The row cap of each party, or one for a fleet's devices; none where nothing is proved of inputs.

        Raises `InputError` where a party has none, or somebody else has one, or there is no helper.
        """
        if self.row_caps is None:
            return ()
        if self.keys != "helper":
            raise InputError('row_caps: parties prove their row caps with a helper only: give keys="helper"')
        if not isinstance(self.row_caps, Mapping):
            return (self.row_caps,) * (self.size if self.fleet is None else 1)
        without = [party for party in self.parties if party not in self.row_caps]
        for name in self.row_caps:
            if name not in self.parties:
                lacking = f", and party {without[0]!r} has none" if without else ""
                raise InputError(f"row caps: {name!r} is not a party of the session{lacking}")
        if without:
            raise InputError(
                f"row caps: party {without[0]!r} has none, and each party is to prove its own: give it one, or prove "
                "none (--no-proofs; row_caps=None)"
            )
        return tuple(self.row_caps[party] for party in self.parties)


@dataclass(frozen=True)
class Delivery:
    """Material of each role when a session starts: for `Protocol.aggregator`, and by name for `Protocol.party`."""

    aggregator: bytes = field(repr=False)
    parties: Mapping[str, bytes] = field(repr=False)
    helper: bytes | None = field(default=None, repr=False)  # for `Protocol.helper`; None where the session has none


@dataclass(frozen=True)
class Session:
    """A prepared session: its manifest, and in subclasses the material of its roles."""

    manifest: Manifest

    def delivery(self) -> Delivery:
        """Return each role's material, where all roles run in this process; empty where there are no keys."""
        return Delivery(b"", dict.fromkeys(self.manifest.parties, b""))


class Spending(NamedTuple):
    """What a session spends of the privacy of a site's rows."""

    epsilon: float
    unit: str  # "row": one row is replaced, label and score; "label": one label flips; "score": one score is another
    delta: float = 0.0


class Protocol(ABC, Generic[R]):
    """One way to evaluate a model across parties; installed through the entry-point group ``fhe_auc.protocols``.

    Its sessions yield an `Evaluation`, or what `yields` says: `QuantileThresholds`, for an evaluation to come.
    """

    name: ClassVar[str]  # the plug-in's name, as on the command line
    summary: ClassVar[str]  # one line for ``fhe-auc protocols``
    trust: ClassVar[str]  # one line: what has to be trusted
    encrypts: ClassVar[bool] = True  # whether results come out of an encrypted computation; otherwise they are noisy
    options: ClassVar[type[Options]] = Options  # what `Request.options` may hold, by the names of its fields
    yields: ClassVar[type[Outcome]] = Evaluation  # what a session yields to each party
    proves_inputs: ClassVar[bool] = False  # whether parties can prove their row caps
    several: ClassVar[bool] = False  # whether a session can answer for several models, groups or classes
    boundaries: ClassVar[str | None] = None  # name of the protocol that finds quantile thresholds for this one

    @abstractmethod
    def prepare(self, request: Request) -> Session:
        """Do the key holder's part: plan, generate keys, name the session.

        Raises `InputError` where the request cannot be met.
        """

    def set_up(self, setup: Setup, options: Mapping[str, Any], rows: Mapping[str, int]) -> Setup:
        """Return how a session is set up where one process knows the number of rows of each party, by name."""
        return setup

    def plan(self, request: Request) -> Plan | None:
        """Return the encryption parameters of such a session, None where nothing is encrypted; errors as `prepare`."""
        return None

    def plan_of(self, manifest: Manifest) -> Plan | None:
        """Return the plan in a manifest of this protocol, None where nothing is encrypted.

        Raises `InputError` for a manifest that `prepare` does not return; so do the methods below.
        """
        return None

    def analysis_of(self, manifest: Manifest) -> Analysis:
        """Return what a session of this protocol estimates."""
        return PLAIN

    def spends(self, manifest: Manifest) -> Spending | None:
        """Return what a session spends of the privacy of a site's rows; None where no result is private."""
        return None

    def soundness(self, manifest: Manifest) -> float | None:
        """Return a proved bound on the probability that a party accepts a wrong number; None where there is none."""
        return None

    def staged(self, request: Request, bins: int) -> tuple[Request, Request]:
        """Return the requests of two sessions: one finds so many quantile thresholds, the other evaluates at them.

        The first is for the protocol that `boundaries` names; the second for this one, with its thresholds to be filled
        in. Raises `InputError` where an option has a wrong value, or does not go with quantile thresholds.
        """
        return replace(request, analysis=PLAIN, row_caps=None, options={"bins": bins}), request

    @abstractmethod
    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator of a session, from its material as of `Delivery`."""

    def helper(self, manifest: Manifest, material: bytes) -> Party[Any]:
        """Return the helper of a session, from its material; raise `InputError` where the protocol has none."""
        raise InputError(f"protocol {self.name!r} has no helper")

    @final
    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party with the rows `data`, from its material.

        Every party is made here, so that all check their scores before anything is sent
        (`fhe_auc.rows.own_rows.check_scores`, with its `InputError`).
        """
        check_scores(data, manifest.thresholds)
        made = self.new_party(manifest, material, data)
        made.own_warnings = self.own_warnings(manifest, [data])
        return made

    def own_warnings(self, manifest: Manifest, parties: Sequence[PartyData]) -> tuple[str, ...]:
        """Return warnings about the parties' own rows (`fhe_auc.rows.own_rows.warnings_of`)."""
        return warnings_of(parties, manifest.thresholds)

    @abstractmethod
    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party, for `party`, which has checked the scores."""


class Attacks(ABC):
    """Aggregators and parties that lie about one protocol, for demonstrations; `registry.attacks` finds the installed.

    The engine brings none. A package adds some, on sessions with sealed keys or a helper, through the entry-point group
    ``fhe_auc.attacks``, under the protocol's name.
    """

    descriptions: ClassVar[Mapping[str, str]]  # by name: what the aggregator does
    of_parties: ClassVar[Mapping[str, str]] = {}  # by other names: what a party does

    @final
    def described(self, attack: str) -> str:
        """Return what whoever lies does; raise `InputError`, which names all attacks, where there is none such."""
        known = {**self.descriptions, **self.of_parties}
        if attack not in known:
            raise InputError(f"there is no attack {attack!r} on this protocol; known are {', '.join(known)}")
        return known[attack]

    @abstractmethod
    def aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that lies; it holds what the honest one does.

        `attack` is a name in `descriptions`, `material` is as for `Protocol.aggregator`, and `rows` is about how many
        rows all parties have, which liars are taken to know. Raises `InputError` where there is no such attack, or none
        on this session.
        """

    def party(self, attack: str, manifest: Manifest, material: bytes, data: PartyData, *, rows: int) -> Party[Any]:
        """Return a party with these rows that lies, as `aggregator`; `attack` is a name in `of_parties`."""
        raise InputError(f"there is no attack {attack!r} of a party on this protocol")


def new_manifest(
    protocol: Protocol[Any],
    request: Request,
    *,
    context: bytes = b"",
    common_secret: bytes = b"",
    plan: Plan | None = None,
    options: Mapping[str, bool | int | float | str] | None = None,
) -> Manifest:
    """Return the manifest of a new session for a request; what only some protocols have is left empty.

    Raises `InputError` as `Manifest`, and where the protocol does not answer for several models or groups.
    """
    analysis = request.analysis
    if not protocol.several and (analysis.heterogeneity or analysis.cluster or not analysis.is_plain):
        raise InputError(
            f"protocol {protocol.name!r} answers for one model over all rows; exact and verified for several models, "
            "groups, classes, sites and patients"
        )
    if request.row_caps is not None and not protocol.proves_inputs:
        raise InputError(f"row_caps: parties prove them with exact and verified, not with protocol {protocol.name!r}")
    keys: Keys = "none" if plan is None else plan.keys
    return Manifest(
        protocol=protocol.name,
        session=new_session_id(),
        parties=request.parties,
        grid=request.thresholds.astype("<f8").tobytes(),
        min_parties=request.size if request.min_parties is None else request.min_parties,
        keys=keys,
        context=context,
        plan=None if plan is None else EncodedPlan(plan.kind, encode(plan)),
        options=dict(options or {}),
        fleet=request.fleet,
        common_secret=common_secret if request.fleet is None else b"",
    )


def new_session_id() -> bytes:
    """Return a fresh random session id, 16 bytes."""
    return secrets.token_bytes(SESSION_BYTES)


def _row_cap(cap: Any, whose: str = "") -> int:
    if (number := integer(cap)) is None or not 1 <= number <= MOST_ROWS:
        got = repr(cap) if isinstance(cap, (int, float, str, np.generic)) else type(cap).__name__
        kinds = "" if whose else ", or a mapping of each party's name to one"
        raise InputError(f"row_caps: a cap must be an integer from 1 to {MOST_ROWS}{kinds}; got {got}{whose}")
    return number


def integer(value: Any) -> int | None:
    """Return an integer of any type, numpy's too, as Python's; None for anything else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def check_rows(rows: int, max_rows: int, *, party: str | None = None) -> None:
    """Raise `InputError` where all parties together, or one alone, have more rows than a session may have."""
    if rows > max_rows:
        raise InputError(too_many_rows(rows, max_rows, party=party), party=party)


def too_many_rows(rows: int, max_rows: int, *, party: str | None = None) -> str:
    """Say how many rows are too many, of all parties together or of one alone, and which option takes them."""
    who = f"the parties have {rows:,} rows in all" if party is None else f"party {party!r} alone has {rows:,} rows"
    excess, option = f"{rows - max_rows:,} more than max_rows = {max_rows:,}", f"--max-rows {rows} (max_rows={rows})"
    return f"{who}, {excess}; give {option} or more"
