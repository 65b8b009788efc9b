"""What a session between machines evaluates, in words that its parties agree on, and how many rows each may put in.

A pooled AUC of different things is worth nothing: of two versions of a model, two outcomes, cohorts or periods. So the
manifest says which they are, and a site opens a session only for what it has agreed to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_toml
from fhe_auc.question import binning

MAX_CHARACTERS = 300
MOST_AWAY = 2**20
MOST_ROWS = 2**40  # more than any session has; msgpack and JSON hold it


class Study(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="kebab"):
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
    most_away : int
        Sites that may count in one result and not in another one: the counts of so many, in sum, may be told, also of
        one alone. 0 for none; five or more may be away anyhow. In files: ``most-away``.
    score_values : str
        All scores that there are, where these are few: "0:9", "0:1:0.05" or "0,1.5,3". Thresholds are these values'
        own, and a party with another score is refused. Empty: any scores. In files: ``score-values``.

    Raises `InputError` that names the field if one cannot be that.
    """

    model: str
    outcome: str
    cohort: str
    period: str
    row_caps: dict[str, int] = msgspec.field(default_factory=dict)
    most_away: int = 0
    score_values: str = ""

    def __post_init__(self) -> None:
        for name in ("model", "outcome", "cohort", "period"):
            text = getattr(self, name)
            if not 1 <= len(text) <= MAX_CHARACTERS or not text.isprintable() or text != text.strip():
                raise InputError(
                    f"{name} must be 1 to {MAX_CHARACTERS} printable characters on one line, without blanks at its ends"
                )
        if not 0 <= self.most_away <= MOST_AWAY:
            raise InputError(f"most-away must lie between 0 and {MOST_AWAY:,}, got {self.most_away:,}")
        _ = self.thresholds
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

    @property
    def question(self) -> tuple[str, str]:
        """What tells which results are compared: model and outcome, whatever cohort and period are called."""
        return self.model, self.outcome

    @property
    def thresholds(self) -> NDArray[np.float64] | None:
        """Thresholds of the listed score values, shape (m,); None where any scores may be."""
        return binning.thresholds_of(binning.parse_listed(self.score_values)) if self.score_values else None

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
            *([("most away", "", f"{self.most_away}; their counts may be told")] if self.most_away else []),
            *([("score values", "", f"{self.score_values}; others are refused")] if self.score_values else []),
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types, for JSON."""
        return {**msgspec.structs.asdict(self), "row_caps": dict(self.row_caps)}
