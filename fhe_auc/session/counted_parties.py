"""Who counts when parties are away: who is asked in a round, who has answered, and whether they are enough.

Two results of the same rows tell what lies between their lists of who counts: of one site in one list alone, its exact
counts. So a list is compared with every list of the same question that this role has opened, and with all parties of
the session: not with the last alone, as two steps of five sites and of six can lead to a list that one site tells from
the first. Sums and differences of more lists tell the counts of *cells*: of sites that all these lists have or lack
together. So a list must not part fewer than five sites from the others of their cell either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fhe_auc.base.errors import EvaluationError, TooFewPartiesError
from fhe_auc.base.names import HELPER

ENOUGH_APART = 5  # sites; the sum of so many sites' counts may be told


def too_near(counted: Collection[str], earlier: Iterable[Collection[str]], most_away: int) -> tuple[str, ...]:
    """Return the sites that a list, beside `earlier` ones, would tell apart; sorted, empty where it may be opened.

    They are missing from `counted`, or back in it, beside an earlier list, more than `most_away` and fewer than five;
    or the smaller parts of the cells of `earlier`, one of which has all parties, if these sites are more than
    `most_away`, and each part is fewer than five.
    """
    now, lists = frozenset(counted), [frozenset(each) for each in earlier]
    for before in lists:
        for apart in (before - now, now - before):
            if most_away < len(apart) < ENOUGH_APART:
                return tuple(sorted(apart))
    cells: dict[tuple[bool, ...], set[str]] = {}
    for site in frozenset[str]().union(*lists):
        cells.setdefault(tuple(site in each for each in lists), set()).add(site)
    # A list within one cell is no part of it: so many parties are enough for a result of their own.
    parts = (cell - now if now <= cell else min(cell & now, cell - now, key=len) for cell in cells.values())
    few = sorted(site for part in parts if len(part) < ENOUGH_APART for site in part)
    return tuple(few) if len(few) > most_away else ()


def not_opened(apart: Iterable[str]) -> EvaluationError:
    """Return the error where these sites make a list too near to an earlier one."""
    return EvaluationError(
        f"not opened: beside the results before it (or one of all parties), this one would tell the counts of "
        f"{', '.join(map(repr, apart))}, of which some lists have all and others none. Run it again when the same "
        "sites are there (keys session --repeat). These two tell them: most-away in the study and the policies; or a "
        "session of fewer parties, which a person opens at each site"
    )


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


class CountedParties:
    """The parties of one session, from round to round; whoever does not answer a round is out of the session.

    `counted` are those still in it, in the manifest's order. `digests` are of what each has submitted in this round
    (`Message.digest`), in the order of arrival, empty where it is not signed; `refusals` as of `SessionRecord`.
    """

    def __init__(self, parties: tuple[str, ...]) -> None:
        self._parties = parties
        self._known = frozenset(parties)  # to look up names in
        self.count(parties)
        self.open_round()
        self.refusals: dict[str, str] = {}

    def open_round(self, *, for_helper: bool = False) -> None:
        """Begin a round that nobody has answered, of the session's helper or of the parties that count."""
        self._for_helper = for_helper
        self.digests: dict[str, bytes] = {}

    def count(self, parties: tuple[str, ...]) -> None:
        """Go on with these parties alone."""
        self.counted, self._awaited = parties, frozenset(parties)

    @property
    def asked(self) -> tuple[str, ...]:
        """Who is to answer this round."""
        return (HELPER,) if self._for_helper else self.counted

    def is_asked(self, name: str) -> bool:
        """Whether this party or helper is to answer this round."""
        return name == HELPER if self._for_helper else name in self._awaited

    @property
    def answered(self) -> tuple[str, ...]:
        """Who has answered this round, in the order of `asked`."""
        return tuple(name for name in self.asked if name in self.digests)

    def refuse(self, name: str, reason: str) -> None:
        """Remember why a submission was refused; what strangers send is not worth keeping."""
        if name in self._known or self.is_asked(name):
            self.refusals[name] = reason

    def require(self, least: int) -> None:
        """Raise `TooFewPartiesError`, which names who is missing, where fewer than `least` have answered this round."""
        if len(self.digests) >= least:
            return
        missing = [name for name in self.asked if name not in self.digests]
        named = ", ".join(map(repr, missing[:10])) + (", …" if len(missing) > 10 else "")
        raise TooFewPartiesError(
            f"{len(self.digests)} of {len(self.asked)} parties submitted, at least {least} are needed; missing: {named}"
        )

    def record(self, session: bytes) -> SessionRecord:
        """Return who took part in the session of this id, after its last round."""
        missing = tuple(party for party in self._parties if party not in self._awaited)
        return SessionRecord(session, self.counted, missing, self.answered, tuple(self.refusals.items()))
