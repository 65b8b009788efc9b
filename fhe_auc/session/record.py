"""What is known of a session once it has ended, beside its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What the aggregator may tell about an ended session: who took part, never how good the model is.

    The submissions of `counted` parties are in the result; `missing` ones submitted nothing acceptable.
    `delivered` parties have confirmed the last round: they have the result, or know that there is none, and nobody else
    learns which. `refused` names parties of which a submission was refused, each with the latest reason; in signed
    sessions only what they have signed is named, as anybody may send the rest in their names. A missing party is named
    there, too, whose input proof did not hold.
    """

    session: bytes  # the manifest's id, 16 bytes
    counted: tuple[str, ...]
    missing: tuple[str, ...]
    delivered: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain types; `from_dict` has the way back."""
        parties = {name: list(getattr(self, name)) for name in ("counted", "missing", "delivered")}
        return {"session": self.session.hex(), **parties, "refused": dict(self.refused)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> SessionRecord:
        """Return the record that `as_dict` was of."""
        counted, missing, delivered = (tuple(plain[name]) for name in ("counted", "missing", "delivered"))
        return cls(bytes.fromhex(plain["session"]), counted, missing, delivered, tuple(plain["refused"].items()))
