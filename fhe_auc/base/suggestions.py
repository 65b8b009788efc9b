"""What somebody may have meant by a name that does not exist."""

import difflib
from collections.abc import Iterable


def known_names(name: str, known: Iterable[str], *, most: int = 12) -> str:
    """Return the end of a message about an unknown name: "; did you mean 'risk'? (there are: risk, died)"."""
    names = list(known)
    if not names:
        return "; there are none"
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in names], n=1)
    meant = next((f"; did you mean {each!r}?" for each in names if [each.lower()] == near), "")
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{meant} (there are: {', '.join(names[:most])}{more})"
