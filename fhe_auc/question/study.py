"""What a session between machines evaluates, in words that its parties agree on, and how many rows each may put in.

A pooled AUC of different things is worth nothing: of two versions of a model, two outcomes, cohorts or periods. So the
manifest says which they are, and a site opens a session only for what it has agreed to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_toml

MAX_CHARACTERS = 300
MOST_ROWS = 2**40  # more than any session has; msgpack and JSON hold it


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"row_caps": "row-caps"}):
    """What is evaluated.

    Each party checks its own cap, which stops honest mistakes, such as a wrong file. A party that lies goes past its
    cap, unless parties prove theirs (`fhe_auc.input_proofs`).

    Attributes
    ----------
    model : str
        Name, and digest or version.
    outcome, cohort, period : str
        What is predicted, about whom, and when; like `model` 1 to 300 printable characters, without blanks at the ends.
    row_caps : dict of str to int
        Party to the most rows that it may put in, 1 to 2^40; who is not named has no cap. In files: ``row-caps``.

    Raises `InputError` that names the field if one cannot be that.
    """

    model: str
    outcome: str
    cohort: str
    period: str
    row_caps: dict[str, int] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("model", "outcome", "cohort", "period"):
            text = getattr(self, name)
            if not 1 <= len(text) <= MAX_CHARACTERS or not text.isprintable() or text != text.strip():
                raise InputError(
                    f"{name} must be 1 to {MAX_CHARACTERS} printable characters on one line, without blanks at its ends"
                )
        for party, cap in self.row_caps.items():
            if not 1 <= cap <= MOST_ROWS:
                raise InputError(f"row-caps: the cap of {party!a} must lie between 1 and {MOST_ROWS}, got {cap}")

    @classmethod
    def read(cls, path: Path) -> Study:
        """Read a TOML file with the fields as keys; `InputError` names file and key, also a key that is no field."""
        return read_toml(path, cls, "study")

    def differing(self, other: Study) -> list[str]:
        """Return the fields in which two differ."""
        return [
            said
            for name, said in zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
            if getattr(self, name) != getattr(other, name)
        ]

    def require_rows(self, party: str, rows: int) -> None:
        """Raise `InputError` where a party has more rows than its cap."""
        cap = self.row_caps.get(party, rows)
        if rows > cap:
            raise InputError(
                f"party {party!r} has {rows:,} rows, more than its cap in the session's study, {cap:,}", party=party
            )

    def rows(self) -> list[tuple[str, str, str]]:
        """Say for a table what is evaluated: label, nothing, text."""
        caps = ", ".join(f"{party} {cap:,}" for party, cap in self.row_caps.items()) or "none"
        return [
            *((name, "", getattr(self, name)) for name in ("model", "outcome", "cohort", "period")),
            ("row caps", "", f"{caps}; each party checks its own" if self.row_caps else caps),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {**msgspec.structs.asdict(self), "row_caps": dict(self.row_caps)}
