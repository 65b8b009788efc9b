"""Names: what a party may be called, which names people take for the same, and which one a typing error meant."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

AGGREGATOR = "aggregator"  # sender name of the aggregator; no party may have it
HELPER = "helper-1"  # sender name of a session's helper; no party may have it
MAX_CHARACTERS = 64
"""X.509's upper bound for a common name (RFC 5280, ub-common-name): enough for any site's."""

QUOTED = r'\s*"((?:[^"]|"")*)"\s*'
NAME_BYTES = 4 * MAX_CHARACTERS + 8  # more than the longest name takes, encoded


def problem_with(name: str) -> str | None:
    """Return what is wrong with a party's name, as the end of a sentence, or None where it is fine."""
    if not name.strip():
        return "must not be blank"
    if len(name) > MAX_CHARACTERS:
        return f"must have at most {MAX_CHARACTERS} characters, got {len(name)}"
    if (role := alike(name).strip()) in (AGGREGATOR, HELPER):
        return f"must not be {role!r}"
    # Names that look alike must not differ in blanks, control characters or Unicode normal form only. Half a surrogate
    # pair, as which Python shows a file name that is not UTF-8, does not print either.
    if not name.isprintable() or name != name.strip() or name != unicodedata.normalize("NFC", name):
        return "must be printable text in Unicode normal form C, without blanks at its ends"
    return None


def all_printable(value: Any) -> bool:
    """Return whether all texts in plain types can be shown anywhere: whoever has signed them may steer no terminal."""
    if isinstance(value, dict):
        return all(map(all_printable, (*value, *value.values())))
    if isinstance(value, (list, tuple)):
        return all(map(all_printable, value))
    return not isinstance(value, str) or value.isprintable()


def alike(name: str) -> str:
    """Return what names that people take for the same have in common: neither case nor width of letters counts."""
    return unicodedata.normalize("NFKC", name).casefold()


def first_alike(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the first two names that are `alike`, None where there are none."""
    seen: dict[str, str] = {}
    for name in names:
        if (looks := alike(name)) in seen:
            return seen[looks], name
        seen[looks] = name
    return None


def known_names(name: str, known: Iterable[str], *, most: int = 12) -> str:
    """Return the end of a message about an unknown name: "; did you mean 'risk'? (there are: risk, died)"."""
    names = list(known)
    if not names:
        return "; there are none"
    from difflib import get_close_matches  # nobody needs it before a mistake

    near = get_close_matches(name.lower(), [each.lower() for each in names], n=1)
    meant = next((f"; did you mean {each!r}?" for each in names if [each.lower()] == near), "")
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{meant} (there are: {', '.join(map(quoted, names[:most]))}{more})"


def names_in(text: str) -> tuple[str, ...]:
    """Return names with commas between them; one within double quotes, as `quoted` writes it, may have any."""
    found = re.findall(rf"{QUOTED},|([^,]*),", text + ",")
    return tuple((plain or name.replace('""', '"')).strip() for name, plain in found)


def quoted(name: str) -> str:
    """Return a name as lists of names have it: within double quotes where it has a comma, an equals sign or quotes."""
    return '"' + name.replace('"', '""') + '"' if re.search('[,="]', name) else name
