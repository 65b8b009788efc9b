"""What a site opens without asking anybody: sessions of one key holder, within bounds that the site has written down.

The policy stands in the site's key store, encrypted as everything there is; nothing that comes from outside changes it.
It opens no session of a study whose parties are others than those of the last one (`fhe_auc_keys.site.openings`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from fhe_auc.base.errors import DeserialisationError, InputError, UnknownProtocolError
from fhe_auc.base.files import read_toml
from fhe_auc.base.serialise import KeptFormat
from fhe_auc.question.analysis import DEFAULT_MIN_CELL, Analysis
from fhe_auc.question.study import MOST_AWAY
from fhe_auc.session import registry
from fhe_auc.session.plan import Keys
from fhe_auc_keys.bundles.announcement import Announcement
from fhe_auc_keys.errors import KeysError, StoreError, unreadable
from fhe_auc_keys.site import answered_studies
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust.public_keys import SKEW

Value = bool | int | float | str
_NAME = "policy"
_UNSET = {
    "cohort": "any",
    "period": "any",
    "hours-between": "none, so any number of sessions",
    "until": "no end",
    "max-row-cap": "none",
}
"""What a policy allows by a key that is not there; by one that is not named here, nothing."""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
    """Bounds within which a session is opened unseen; raises `InputError` where a field cannot be that."""

    holder: str  # the member who makes the keys, or convenes
    protocols: tuple[str, ...]
    model: str  # what is evaluated, word for word, as the next
    outcome: str
    min_parties: int  # so many must submit before there is a result, at least 2
    max_thresholds: int
    cohort: str = ""  # word for word, as the next; empty for any
    period: str = ""
    keys: tuple[Keys, ...] = ("sealed",)
    helpers: tuple[str, ...] = ()  # which members may be the helper
    max_days: int = 7  # for so long can the session still go on, 1 to 31
    hours_between: int | None = None  # least hours between two sessions of a protocol, 1 to 8,760; None for any number
    until: date | None = None  # the last day (UTC) on which any is opened; None for no end
    most_away: int = 0  # the study may let so many sites be away from one result and not from another
    max_row_cap: int | None = None  # if given, each party has a row cap, no larger, and proves it where it can
    score_columns: tuple[str, ...] = ()  # those that a session of several models may ask for
    groups: tuple[str, ...] = ()  # columns of groups, likewise
    options: dict[str, Value | tuple[Value, ...]] = {}  # allowed values by name; none that is not named

    def __post_init__(self) -> None:
        for name in ("holder", "protocols", "model", "outcome", "keys"):
            if not getattr(self, name):
                raise InputError(f"{name} must not be empty")
        if "helper" in self.keys and not self.helpers:  # else who convenes picks who reads counts with the aggregator
            raise InputError("helpers must not be empty where keys has 'helper'")
        if "verified" in self.protocols and "epsilon" in self.options and "helper" not in self.keys:
            raise InputError("keys must have 'helper' where [options] have epsilon: verified takes a helper with it")
        for name, least, most in (
            ("min_parties", 2, 2**20),
            ("most_away", 0, MOST_AWAY),
            ("max_thresholds", 2, 2**20),
            ("max_days", 1, 31),
            ("hours_between", 1, 8760),
        ):
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise InputError(f"{name.replace('_', '-')} must lie between {least} and {most}")

    @classmethod
    def read(cls, path: Path) -> Policy:
        """Read a TOML file, keys as the attributes with hyphens; `InputError` that names file and key."""
        return read_toml(path, cls, "policy")

    @classmethod
    def stored(cls, store: KeyStore) -> Policy:
        """Return a key store's policy; `StoreError` where it has none, `DamagedFileError` where it is malformed."""
        if not is_in(store):
            raise StoreError("this key store has no policy: `fhe-auc keys policy FILE` sets one")
        try:
            return _FORMAT.unframe(store.get("trust", _NAME))
        except DeserialisationError as error:
            again = f"trust/{_NAME} is malformed: set it again by `fhe-auc keys policy FILE`"
            raise unreadable(error, again) from None

    def keep(self, store: KeyStore) -> None:
        """Put it into a key store, in place of another."""
        store.put("trust", _NAME, self.to_bytes(), replace=True)

    def to_bytes(self) -> bytes:
        """Serialise."""
        return _FORMAT.frame(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Policy:
        """Read what `to_bytes` wrote; `DeserialisationError` for anything else."""
        return _FORMAT.unframe(data)

    @property
    def repeats(self) -> bool:
        """Whether it says how often, or until when, a study is answered."""
        return self.hours_between is not None or self.until is not None

    def admit(self, announced: Announcement, store: KeyStore, *, at: datetime) -> None:
        """Write down in the site's store that it takes part in a session now; the same one again changes nothing.

        That stands where opening its keys then fails, too: the session may try again, and others wait as if it had not.

        Raises `KeysError`, with the first reason, for a session outside the policy, or too soon after another; errors
        as `answered_studies.check`.
        """
        before = answered_studies.objections(store, announced, hours=self.hours_between, at=at)
        if reason := next(chain(self._objections(announced, at), self._ended(announced, store, at), before), None):
            by_hand = "so that a person has to open it (`fhe-auc keys open`)"
            raise KeysError(f"outside this site's policy, {by_hand}: {reason}")
        answered_studies.write_down(store, announced, at=at, by_policy=True)

    def _ended(self, announced: Announcement, store: KeyStore, at: datetime) -> Iterator[str]:
        if self.until is not None and answered_studies.latest(store, announced, at=at).date() > self.until:
            yield f"it takes part in sessions until {self.until} only"

    def _objections(self, announced: Announcement, at: datetime) -> Iterator[str]:
        manifest, study = announced.manifest, announced.study
        if announced.holder.name != self.holder:
            yield f"it is signed by {announced.holder.name!r}, not by {self.holder!r}"
        for what, found, allowed in (
            ("protocol", manifest.protocol, self.protocols),
            ("keys", manifest.keys, self.keys),
            ("model", study.model, (self.model,)),
            ("outcome", study.outcome, (self.outcome,)),
            ("cohort", study.cohort, (self.cohort or study.cohort,)),
            ("period", study.period, (self.period or study.period,)),
        ):
            if found not in allowed:
                yield f"{what} is {found!r}, not {' or '.join(map(repr, allowed))}"
        if announced.helper is not None and announced.helper.name not in self.helpers:
            yield f"helper is {announced.helper.name!r}, which the policy's helpers do not allow"
        if manifest.min_parties < self.min_parties:
            yield f"{manifest.min_parties} parties are enough for its result, fewer than {self.min_parties}"
        if study.most_away > self.most_away:
            yield f"its study may tell the counts of {study.most_away} sites (most-away), more than {self.most_away}"
        if len(manifest.thresholds) > self.max_thresholds:
            yield f"it has {len(manifest.thresholds):,} thresholds, more than {self.max_thresholds:,}"
        if announced.not_after - at > timedelta(days=self.max_days) + SKEW:
            yield f"it can go on until {announced.not_after:%Y-%m-%d %H:%M} UTC, for more than {self.max_days} days"
        if self.max_row_cap is not None:
            for party in manifest.parties:
                if study.row_caps.get(party, self.max_row_cap + 1) > self.max_row_cap:
                    yield f"{party!r} has no row cap, or one above {self.max_row_cap:,}"
        for name in self.options:
            if name not in manifest.options:
                yield f"option {name} is not there, which the policy's [options] demand"
        for name, value in manifest.options.items():
            values = self.options.get(name, ())
            if not any(_same(value, each) for each in (values if isinstance(values, tuple) else (values,))):
                yield f"option {name} is {value!r}, which the policy's [options] do not allow"
        try:
            if self.max_row_cap is not None and goes_without_proofs(announced):
                yield "its parties have row caps that they do not prove (--no-proofs)"
            yield from self._objections_to(registry.load(manifest.protocol).analysis_of(manifest))
        except UnknownProtocolError:
            yield f"protocol {manifest.protocol!r} is not installed here, so that nobody can tell what it asks for"

    def _objections_to(self, analysis: Analysis) -> Iterator[str]:
        asked = analysis.models if len(analysis.models) > 1 else ()
        for what, names, allowed in (
            ("score column", asked, self.score_columns),
            ("group", tuple(each.name for each in analysis.by), self.groups),
        ):
            for name in names:
                if name not in allowed:
                    yield f"{what} {name!r} is none that the policy names"
        if analysis.classes or analysis.heterogeneity or analysis.cluster:
            yield "it is for classes, differences between sites, or sums over patients, which no policy allows"
        if analysis.by and analysis.min_cell < DEFAULT_MIN_CELL:
            yield f"it shows groups of {analysis.min_cell} rows, fewer than {DEFAULT_MIN_CELL}"

    def rows(self) -> list[tuple[str, str, str]]:
        """Say for a table what is allowed, also by what is not there: key, value, nothing."""
        said = {name: value for name, value in msgspec.to_builtins(self).items() if value not in ("", None, (), {})}
        return [(name, _said(value), "") for name, value in (said | {**_UNSET, **said}).items()]


def goes_without_proofs(announced: Announcement) -> bool:
    """Whether parties, or a fleet's devices, have row caps that they could prove in such a session, and do not.

    Raises `UnknownProtocolError`.
    """
    if announced.helper is None or not (announced.study.row_caps or announced.manifest.fleet is not None):
        return False
    plan = registry.load(announced.manifest.protocol).plan_of(announced.manifest)
    return plan is not None and plan.terms().data.get("row_caps_proved") is False


_FORMAT = KeptFormat(b"fhepoli", Policy, "policy", version=5)


def is_in(store: KeyStore) -> bool:
    """Whether a key store has a policy."""
    return store.has("trust", _NAME)


def remove(store: KeyStore) -> None:
    """Take the policy out of a key store; `StoreError` where it has none."""
    Policy.stored(store)
    store.remove("trust", _NAME)


def _same(value: Value, allowed: Value) -> bool:
    """Whether two values are equal, and not just as True and 1 are."""
    return value == allowed and isinstance(value, bool) is isinstance(allowed, bool)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_said(each)}" for name, each in value.items())
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)
