"""What the reader of any result ought to know about who is in it."""

from __future__ import annotations

from fhe_auc.manifest import Manifest

__all__ = ["of_parties"]


def of_parties(manifest: Manifest, parties: int) -> tuple[str, ...]:
    """Return warnings where the session has one party only, or counted fewer (`parties`) than it has."""
    found = []
    if len(manifest.parties) == 1:
        found.append("there is only one party, so the result is that party's own AUC (a site column?)")
    if parties < len(manifest.parties):
        found.append(f"{len(manifest.parties) - parties} of {len(manifest.parties)} parties are not in the result")
    return tuple(found)
