"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def known_names(name: str, known: Iterable[str], *, most: int = 12) -> str:
    """Return the end of a message about an unknown name: "; did you mean 'risk'? There are: risk, died".

    At most so many names as `most` says are listed.
    """
    names = list(known)
    near = difflib.get_close_matches(name.lower(), {each.lower(): each for each in names}, n=1)
    meant = next((each for each in names if near and each.lower() == near[0]), None)
    listed = ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
    return ("" if meant is None else f"; did you mean {meant!r}?") + (f" (there are: {listed})" if names else "")
