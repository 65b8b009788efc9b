"""What a protocol plug-in is: a factory for one session's manifest, keys and roles."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, final

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import Options, check_names
from fhe_auc.base.python_options import count, plain
from fhe_auc.base.serialise import encode
from fhe_auc.question.analysis import PLAIN, Analysis, Questions
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.study import MOST_ROWS
from fhe_auc.results.evaluation import Evaluation, Outcome
from fhe_auc.results.intervals import quantile
from fhe_auc.rlwe.ring_parameters import FINGERPRINT_BYTES
from fhe_auc.rows.at_horizon import at_horizon
from fhe_auc.rows.own_checks import check_scores, doubts, left_out
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import SESSION_BYTES, Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.plan import EncodedPlan, Keys, Plan

OptionValue: TypeAlias = bool | int | float | str | None
DEFAULT_PROTOCOL = "verified"
DEFAULT_MAX_ROWS = 10**6
DEFAULT_MIN_ROWS = 100
_NAMES = "session", "context", "common_secret", "fingerprints", "aggregator", "study", "fleet", "step", "turn"
_KINDS = {"sealed": "sealed keys", "helper": "helpers; exact, verified and the histograms have"}


@dataclass(frozen=True, kw_only=True)
class Setup:
    """How a session is set up, whatever it evaluates; fields as `fhe_auc.federated_auc` has them.

    Numbers may be numpy's; they become Python's. Raises `InputError` for a bound that is no integer.
    """

    keys: str | None = None
    backend: str | None = None
    max_rows: int = DEFAULT_MAX_ROWS
    min_rows: int = DEFAULT_MIN_ROWS
    row_caps: Mapping[str, int] | int | None = None

    def __post_init__(self) -> None:
        for name in ("max_rows", "min_rows"):
            object.__setattr__(self, name, count(plain(getattr(self, name)), name))
        caps: Any = self.row_caps
        caps = caps.to_dict() if hasattr(caps, "to_dict") else plain(caps)  # of a Series by party
        if isinstance(caps, Mapping):
            caps = {party: _row_cap(cap, f" for {party!r}") for party, cap in caps.items()}
        object.__setattr__(self, "row_caps", caps if caps is None or isinstance(caps, dict) else _row_cap(caps, _ONE))


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
    options: Mapping[str, OptionValue] = field(default_factory=dict)  # the protocol's own; unknown ones are refused

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keys", self.keys or "sealed")
        if self.interval is not None:
            quantile(self.interval)  # raises for what is no level
        object.__setattr__(self, "options", {name: plain(value) for name, value in self.options.items()})

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
                "none (the study: proofs = false; row_caps=None)"
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


Announce: TypeAlias = Callable[[bytes, bytes], Manifest]
"""Makes the manifest of a new session, given what names its keys, perhaps nothing, and its common secret."""


class KeyKind(ABC, Generic[R]):
    """One way in which the keys of a protocol's sessions may be held: who has which, and what its roles do.

    Materials are those of `Delivery`; the methods that take one raise `InputError` where it is malformed or of another
    session.
    """

    def check(self, request: Request) -> None:
        """Raise `InputError` where a request asks for what these keys have not."""

    @abstractmethod
    def prepare(self, plan: Plan, announce: Announce) -> Session:
        """Make the keys that are there beforehand."""

    @abstractmethod
    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator."""

    @abstractmethod
    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party with these rows."""

    def helper(self, manifest: Manifest, material: bytes) -> Party[Outcome]:
        """Return the helper; raise `InputError` where there is none."""
        raise InputError("the session has no helper")


class Spending(NamedTuple):
    """What a session spends of the privacy of a site's rows."""

    epsilon: float
    unit: str  # "row": one row is replaced, label and score; "label": one label flips; "score": one score is another
    delta: float = 0.0
    after: float = 0.0  # epsilon of the session after this one, without which it is worth nothing


class Protocol(Generic[R]):
    """One way to evaluate a model across parties; installed through the entry-point group ``fhe_auc.protocols``.

    Its sessions yield an `Evaluation`, or what `yields` says: `QuantileThresholds`, for an evaluation to come. A
    protocol that hides what parties send has `key_kinds` and `planned`; one without keys makes its roles itself.
    """

    name: ClassVar[str]  # the plug-in's name, as on the command line
    summary: ClassVar[str]  # one line for ``fhe-auc protocols``
    trust: ClassVar[str]  # one line: what has to be trusted
    encrypts: ClassVar[bool] = True  # whether results come out of an encrypted computation; otherwise they are noisy
    options: ClassVar[Options] = Options()  # what `Request.options` may hold
    yields: ClassVar[type[Outcome]] = Evaluation  # what a session yields to each party
    proves_inputs: ClassVar[bool] = False  # whether parties can prove their row caps
    several: ClassVar[bool] = False  # whether a session can answer for several models, groups or classes
    weighs: ClassVar[bool] = False  # whether rows may have weights in sessions of one model
    boundaries: ClassVar[str | None] = None  # name of the protocol that finds quantile thresholds for this one

    def key_kinds(self) -> Mapping[str, Callable[[], KeyKind[R]]]:
        """Return what makes each kind of keys that the protocol has, by `Request.keys`; most load much."""
        return {}

    def takes(self, request: Request | Manifest) -> Options:
        """Return the options that a request, or a manifest, may have."""
        return self.options

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries, beside the plan; raise `InputError` for a wrong value."""
        return {}

    def planned(self, request: Request) -> Plan:
        """Return the parameters of a `completed` request; raise `InputError` for an option of a wrong value."""
        raise InputError(f"protocol {self.name!r} has no plan")

    def prepare(self, request: Request) -> Session:
        """Do the key holder's part: plan, generate keys, name the session.

        Raises `InputError` where the request cannot be met.
        """
        kind, request, options = self._checked(request)
        plan = self.planned(request)

        def announce(context: bytes, common_secret: bytes) -> Manifest:
            named = {"context": context, "common_secret": common_secret}
            return new_manifest(self, request, plan=plan, options=options, **named)

        return kind.prepare(plan, announce)

    def manifest_of(self, request: Request, like: Manifest | None = None) -> Manifest:
        """Return the manifest that `prepare` gives, but with the names that `like` has for session, keys and people.

        Without it they are zeros; no key is made. Errors as `prepare`.
        """
        if self.encrypts:
            _, request, options = self._checked(request)
            plan = self.planned(request)
            context = bytes(FINGERPRINT_BYTES) if plan.keys == "sealed" else b""
            made = new_manifest(self, request, plan=plan, options=options, context=context)
        else:
            made = self.prepare(request).manifest  # there are no keys
        if like is None:
            return made
        return msgspec.structs.replace(made, **{name: getattr(like, name) for name in _NAMES})

    def plan(self, request: Request) -> Plan | None:
        """Return the encryption parameters of such a session, None where nothing is encrypted; errors as `prepare`."""
        return self.planned(self._checked(request)[1]) if self.encrypts else None

    def _checked(self, request: Request) -> tuple[KeyKind[R], Request, dict[str, bool | int | float | str]]:
        """Return the kind of keys, the `completed` request, and the options: what is wrong with them shows first."""
        check_names(self.takes(request), self.name, request.options)
        check_weighed(self, request.analysis, request.options, request.fleet)
        kind = self._kind(request.keys)
        kind.check(request)
        request = self.completed(request)
        return kind, request, self.agreed(request)

    def set_up(self, setup: Setup, options: Mapping[str, object], rows: Mapping[str, int]) -> Setup:
        """Return how a session is set up where one process knows the number of rows of each party, by name."""
        return setup

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

        0 is for as many as are best, which a protocol says whose noise bounds them. The first is for the protocol that
        `boundaries` names; the second for this one, with its thresholds to be filled in. Raises `InputError` where an
        option has a wrong value, or does not go with quantile thresholds.
        """
        if not bins:
            raise InputError(
                f"protocol {self.name!r} adds no noise that says how many thresholds are best: say how many, as in "
                "quantile:200"
            )
        return replace(request, analysis=PLAIN, row_caps=None, options={"bins": bins}), request

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator of a session, from its material as of `Delivery`."""
        return self.kind_of(manifest).aggregator(manifest, material)

    def helper(self, manifest: Manifest, material: bytes) -> Party[Outcome]:
        """Return the helper of a session, from its material; raise `InputError` where the protocol has none."""
        return self.kind_of(manifest).helper(manifest, material)

    def kind_of(self, manifest: Manifest) -> KeyKind[R]:
        """Return the kind of a session's keys; raise `InputError` as `plan_of`, and where it names no parties."""
        self.plan_of(manifest)
        if manifest.fleet is not None:
            raise InputError("the session is a fleet's, which names no parties: see `fhe-auc fleet`")
        return self._kind(manifest.keys)

    def _kind(self, keys: str) -> KeyKind[R]:
        if keys not in _KINDS:
            raise InputError(f"keys must be {' or '.join(map(repr, _KINDS))}, got {keys!r}")
        if keys not in (kinds := self.key_kinds()):
            raise InputError(f"protocol {self.name!r} has no {_KINDS[keys]}")
        return kinds[keys]()

    @final
    def party(
        self, manifest: Manifest, material: bytes, data: PartyData, warned: tuple[str, ...] | None = None
    ) -> Party[R]:
        """Return the party with the rows `data`, from its material; `warned` is what is said of them, if known.

        Every party is made here, so that all check their scores before anything is sent
        (`fhe_auc.rows.own_checks.check_scores`, with its `InputError`).
        """
        check_scores(data, manifest.thresholds)
        data = at_horizon(data, self.analysis_of(manifest))
        made = self.new_party(manifest, material, data)
        made.own_warnings = self.own_warnings(manifest, [data]) if warned is None else warned
        return made

    def own_warnings(self, manifest: Manifest, parties: Sequence[PartyData]) -> tuple[str, ...]:
        """Return warnings about the parties' own rows: what was `left_out` of them, and `doubts`."""
        analysis = self.analysis_of(manifest)
        reduced = [at_horizon(data, analysis) for data in parties]
        return (*left_out(parties), *doubts(reduced, manifest.thresholds, analysis))

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return the party, for `party`, which has checked the scores."""
        return self.kind_of(manifest).party(manifest, material, data)


def new_manifest(
    protocol: Protocol[R],
    request: Request,
    *,
    context: bytes = b"",
    common_secret: bytes = b"",
    plan: Plan | None = None,
    options: Mapping[str, bool | int | float | str] = MappingProxyType({}),
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
    check_weighed(protocol, analysis, request.options)
    if request.row_caps is not None and not protocol.proves_inputs:
        raise InputError(f"row_caps: parties prove them with exact and verified, not with protocol {protocol.name!r}")
    keys: Keys = "none" if plan is None else plan.keys
    return Manifest(
        protocol=protocol.name,
        session=secrets.token_bytes(SESSION_BYTES),
        parties=request.parties,
        grid=request.thresholds.astype("<f8").tobytes(),
        min_parties=request.size if request.min_parties is None else request.min_parties,
        keys=keys,
        context=context,
        plan=None if plan is None else EncodedPlan(plan.kind, encode(plan)),
        options=dict(options),
        fleet=request.fleet,
        common_secret=common_secret if request.fleet is None else b"",
    )


def check_weighed(
    protocol: Protocol[Any], asked: Analysis | Questions, options: Mapping[str, object], fleet: Fleet | None = None
) -> None:
    """Raise `InputError` where rows have weights or follow-up times, and sessions cannot have these."""
    if asked.weights or asked.follow_up:
        if not (protocol.weighs or protocol.several) or fleet is not None:
            raise InputError(
                f"{'a fleet' if fleet else f'protocol {protocol.name!r}'} counts each row once: weights and follow-up "
                "times are for exact, verified and histogram-federated"
            )
        if options.get("epsilon") is not None:
            raise InputError(
                "epsilon: weights and follow-up times do not go with noise, which is sized for rows that count once"
            )


_ONE = " of any party, or a mapping of each party's name to one,"


def _row_cap(cap: object, whose: str) -> int:
    if not 1 <= (found := count(plain(cap), f"row_caps: a cap{whose}")) <= MOST_ROWS:
        raise InputError(f"row_caps: a cap{whose} must lie between 1 and {MOST_ROWS}, got {found}")
    return found
