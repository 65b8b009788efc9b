"""What a member's name and signing key may be, and when something counts."""

from datetime import datetime, timedelta, timezone
from functools import lru_cache

from fhe_auc.base.names import MAX_CHARACTERS, problem_with
from fhe_auc_keys.errors import UnfitError
from fhe_auc_keys.trust.sealing import PRIME, x25519_key

SKEW = timedelta(minutes=5)  # by so much may a site's clock be slow, and it still accepts what was made just now


def check_name(name: str) -> str:
    """Return `name`; raise `UnfitError` where no member may have it."""
    if problem := problem_with(name):
        raise UnfitError(f"{name[:MAX_CHARACTERS]!a}: the name of a party {problem}")
    return name


def printable(text: str) -> str:
    """Return text from a file without anything that could steer a terminal."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def check_time(at: datetime) -> datetime:
    """Return `at` in UTC; ValueError for a time without a zone, which two sites would read differently."""
    if at.tzinfo is None:
        raise ValueError("a time needs a time zone")
    return at.astimezone(timezone.utc)


def counts(begins: datetime | float, ends: datetime | float, at: datetime) -> str:
    """Return from when until when something counts, which is not now, for an error that says what else can be done.

    Of the present it says the minute within an hour of that, else the hour only: a process that stays does not log each
    minute that it is wrong still.
    """
    seconds = [each.timestamp() if isinstance(each, datetime) else each for each in (begins, ends)]
    dates = [datetime.fromtimestamp(min(max(each, 0), 2**37), timezone.utc) for each in seconds]  # whatever is signed
    first, last = (f"{each:%Y-%m-%d %H:%M}" for each in dates)
    near = min(abs(at.timestamp() - each) for each in seconds) < 3600
    says = f"{check_time(at):{'%Y-%m-%d %H:%M' if near else '%Y-%m-%d, after %H:00'}}"
    return f"{first} to {last} UTC only, and the clock says {says} UTC: set the clock"


@lru_cache(maxsize=8192)
def check_signing_key(raw: bytes) -> None:
    """Raise `UnfitError` for no Ed25519 key, one not reduced, or of small order: all verifies under it."""
    y = int.from_bytes(raw, "little") % 2**255
    try:
        if len(raw) != 32 or y >= PRIME:
            raise ValueError
        same = (1 + y) * pow(1 - y, -1, PRIME) % PRIME  # the point on X25519's curve (RFC 7748, section 4.1)
        x25519_key(same.to_bytes(32, "little"))
    except (ValueError, UnfitError):
        raise UnfitError("the Ed25519 key is not reduced, or of small order") from None
