"""What a party may be called: one rule for rows, manifests and certificates."""

import unicodedata
from collections.abc import Iterable

AGGREGATOR = "aggregator"  # sender name of the aggregator; no party may have it
HELPER = "helper-1"  # sender name of a session's helper; no party may have it
MAX_CHARACTERS = 64
"""X.509's upper bound for a common name (RFC 5280, ub-common-name): at a site the name stands in a certificate."""

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
