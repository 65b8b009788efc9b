"""How somebody gets into a consortium: by a link, a request, and a comparison by telephone.

The link is where the exchange is, and the fingerprint of the first members' file. A request is a member's line, which
lies in its author's place. Who sits in the middle shows the site another link, and the coordinator another line; so
both compare what commits to both sides. He may try keys on both sides until two strings are alike: with 80 bits 2^40
tries, of half a second and 128 MB each (17,000 years of one core).
"""

from __future__ import annotations

import base64
import hashlib

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import frame, unframe
from fhe_auc_keys.errors import TamperedError, UnfitError
from fhe_auc_keys.trust.members import FINGERPRINT, Member

REQUEST, MAX_REQUEST = "request", 4096
"""Name of a request in its author's place of the exchange, and its most bytes."""

_MAGIC = b"fhejoin"
_COMPARED = 16  # characters, 5 bits each
_COST = 2**17  # scrypt's N (RFC 7914); with blocks of 1 KB it takes 128 MB


def link(place: str, root: bytes) -> str:
    """Return by what a site joins: where the exchange is, and the first file's fingerprint; no credential."""
    return f"{place}#{base64.b32encode(root).decode().lower()}"


def split_link(text: str) -> tuple[str, bytes]:
    """Return what `link` has joined; `UnfitError` for something else."""
    place, _, root = text.strip().rpartition("#")
    try:
        found = base64.b32decode(root.upper())
    except ValueError:
        found = b""
    if not place or len(found) != FINGERPRINT:
        raise UnfitError("a link is where the exchange is, a #, and 32 letters and digits: copy it whole")
    return place, found


def request(line: Member) -> bytes:
    """Return what somebody who wants to be a member puts into the exchange, under `REQUEST`."""
    return frame(_MAGIC, line)


def requested(data: bytes) -> Member:
    """Return what `request` has framed, checked as `Member.check`; `TamperedError` for anything else."""
    try:
        line = unframe(_MAGIC, data, Member, "request")
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None
    line.check()
    return line


def comparison(root: bytes, line: Member) -> str:
    """Return what a new member and a coordinator compare: 16 characters in groups of four.

    It takes half a second, on purpose. `root` is the first file's fingerprint, on each side its own.
    """
    text = root + line.fingerprint
    drawn = hashlib.scrypt(
        text, salt=b"fhe-auc comparison 1", n=_COST, r=8, p=1, maxmem=2 * 1024 * _COST, dklen=_COMPARED * 5 // 8
    )
    letters = base64.b32encode(drawn).decode().lower()
    return " ".join(letters[start : start + 4] for start in range(0, _COMPARED, 4))
