"""Where revocation lists, signed and numbered, come from: a file, a folder of them, or a URL (https: or file:)."""

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from fhe_auc.base.clock import SYSTEM, Clock
from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.trusted_authorities import Trusted, parse_list, read_list

LONGEST_FETCHED = 2**24  # bytes; some 400,000 revoked certificates

_TIMEOUT, _PATIENCE = 20.0, 60.0  # seconds for a reply to begin, and for all of it
_PIECE = 2**16
_OFTEN, _SELDOM = 600.0, 3600.0  # seconds from one look at a place to the next
_SUFFIX = ".crl"


def is_url(place: str) -> bool:
    """Whether a place is a URL; raise `InputError` for one of another kind than ``https:`` and ``file:``."""
    scheme, separator, rest = place.partition(":")
    if not separator or not (scheme == "file" or rest.startswith("//")):
        return False
    parts = urlsplit(place)
    if parts.scheme not in ("https", "file") or (parts.scheme == "file" and parts.netloc not in ("", "localhost")):
        raise InputError(f"{place!r}: revocation lists are fetched by https: and from this machine (file:) only")
    if parts.username is not None:
        raise InputError("a URL of revocation lists holds no password: lists are public")
    return True


def with_lists_of(trusted: Trusted, place: str) -> Trusted:
    """Return `trusted` with the lists at a place; of a folder's, which may be old or of strangers, those that are news.

    Raise `InputError` where there is no revocation list, or none (``*.crl``) in a folder; `KeysError` where a URL does
    not answer in time, or at too great length; otherwise as `Trusted.with_list`.
    """
    if is_url(place):
        parts = urlsplit(place)
        if parts.scheme == "https":
            return trusted.with_list(parse_list(_fetched(place), place))
        from urllib.request import url2pathname  # with TLS and HTTP it takes as long to load as all else here

        place = url2pathname(parts.path)
    if not Path(place).is_dir():
        return trusted.with_list(read_list(Path(place)))
    files = sorted(path for path in Path(place).iterdir() if path.suffix == _SUFFIX and path.is_file())
    if not files:
        raise InputError(f"there is no revocation list (*{_SUFFIX}) in {place!r}", file=place)
    for found in map(read_list, files):
        if trusted.wants(found):
            trusted = trusted.with_list(found)
    return trusted


def renewed(
    store: KeyStore, report: Callable[[str], None], asked: dict[str, float] | None = None, clock: Clock = SYSTEM
) -> Trusted:
    """Return whom a store trusts, after taking newer lists into it; `report` is told why one cannot be fetched.

    A process that calls this again and again passes the same `asked`, empty at first: then each place is asked once an
    hour, and every ten minutes where it could not be reached, or a list ends soon.
    """
    before = trusted = Trusted.stored(store)
    due: dict[str, float] = {} if asked is None else asked
    for place in trusted.places:
        now = clock.monotonic()
        if now < due.get(place, now):
            continue
        due[place] = now + _OFTEN
        try:
            trusted = with_lists_of(trusted, place)
            if not trusted.ending(at=clock.now()):
                due[place] = now + _SELDOM
        except (FheAucError, OSError) as error:
            report(f"no newer revocation list: {error}")
    if trusted != before:
        trusted.keep(store)
    return trusted


def _fetched(url: str) -> bytes:
    import ssl
    import urllib.request
    from http.client import HTTPException
    from urllib.error import URLError

    opener = urllib.request.OpenerDirector()  # without what opens http:, also where a server leads there
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context()),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    data, deadline = bytearray(), time.monotonic() + _PATIENCE
    try:
        with opener.open(url, timeout=_TIMEOUT) as reply:
            while len(data) <= LONGEST_FETCHED and (piece := reply.read1(_PIECE)):
                data += piece
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not done after {_PATIENCE:g} s")
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if type(error) is URLError else error
        raise KeysError(f"{url} cannot be fetched ({reason}): get the list as a file, from the authority") from None
    if len(data) > LONGEST_FETCHED:
        raise KeysError(f"{url} is longer than {LONGEST_FETCHED:,} bytes, which no revocation list should be")
    return bytes(data)
