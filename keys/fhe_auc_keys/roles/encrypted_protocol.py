"""Base of the protocols that hide what parties send: a plan, a party's task, and the ways in which keys may be held.

keys "sealed"   a key holder makes all keys and seals the secret one to each party (`fhe_auc_keys.roles.sealed_roles`;
                where parties pad, `padded_roles`)
keys "helper"   a helper opens what parties have padded (`helper_roles`)

Each is a `fhe_auc_keys.roles.key_mode.KeyMode`, which a protocol makes of its computation.
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from fhe_auc.base.errors import InputError
from fhe_auc.base.options import check_names
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.aggregator import Aggregator
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import Party, R
from fhe_auc.session.plan import Plan
from fhe_auc.session.protocol import Protocol, Request, Session, new_manifest
from fhe_auc_keys.roles.key_mode import KeyMode

_ABSENT = {
    "sealed": "sealed keys",
    "helper": "helpers; exact, verified and the histograms have",
}
P = TypeVar("P", bound=Plan)


class EncryptedProtocol(Protocol[R], Generic[R, P]):
    """Base of the protocols that hide what parties send: parameters, keys and roles, given what is computed."""

    plan_type: ClassVar[type[Any]]  # of the plans in manifests of this protocol
    modes: ClassVar[Mapping[str, KeyMode]]  # how keys may be held, by `Request.keys`

    @abstractmethod
    def planned(self, request: Request) -> P:
        """Return the parameters of a `completed` request; raise `InputError` for an option of a wrong value."""

    @abstractmethod
    def task(self, manifest: Manifest, data: PartyData) -> Any:
        """Return a party's task on its own rows, as the computations take it; raise `InputError` where it has none."""

    def completed(self, request: Request) -> Request:
        """Return the request with the thresholds that its options stand for, where they do."""
        return request

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return the options that the manifest carries, beside the plan."""
        return {}

    def plan_of(self, manifest: Manifest) -> P:
        """Return the plan in a manifest of this protocol; raise `InputError` where a manifest is not such a one."""
        plan: P = manifest.decoded_plan(self.plan_type)
        return plan

    def plan(self, request: Request) -> P:
        """Return the parameters of such a session; errors as `prepare`."""
        check_names(self.options, self.name, request.options)
        self._mode(request.keys).check(request)
        request = self.completed(request)
        self.agreed(request)  # what is wrong with options shows before anything depends on them
        return self.planned(request)

    def prepare(self, request: Request) -> Session:
        """Plan and name the session; generate keys, unless they are made in it."""
        plan = self.plan(request)
        request = self.completed(request)
        options = self.agreed(request)
        mode = self.modes[request.keys]
        return mode.prepare(plan, partial(new_manifest, self, request, plan=plan, options=options))

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` as of the session's `KeyMode`."""
        return self.mode_of(manifest).aggregator(manifest, material)

    def new_party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[R]:
        """Return a party; `material` as of the session's `KeyMode`, `InputError` where it is another session's."""
        return self.mode_of(manifest).party(manifest, material, self.task(manifest, data))

    def helper(self, manifest: Manifest, material: bytes) -> Party[Any]:
        """Return the helper; `material` as of the session's `KeyMode`."""
        return self.mode_of(manifest).helper(manifest, material)

    def mode_of(self, manifest: Manifest) -> KeyMode:
        """Return how the keys of a session are held; raise `InputError` as `plan_of`, and where it names no parties."""
        self.plan_of(manifest)
        if manifest.fleet is not None:
            raise InputError("the session is a fleet's, which names no parties: see `fhe-auc fleet`")
        return self._mode(manifest.keys)

    def _mode(self, keys: str) -> KeyMode:
        if keys not in _ABSENT:
            raise InputError(f"keys must be {' or '.join(map(repr, _ABSENT))}, got {keys!r}")
        if keys not in self.modes:
            raise InputError(f"protocol {self.name!r} has no {_ABSENT[keys]}")
        return self.modes[keys]
