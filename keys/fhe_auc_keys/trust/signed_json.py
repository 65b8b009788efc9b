"""JSON that stands alone: signed by a member, to be verified anywhere, years later, with the members' files.

    {…, "time": "2026-11-23T18:50:01+00:00", "signature": {"signer": "north", "members": 3, "ed25519": base64}}

Everything but ``ed25519`` is signed, in the canonical form of RFC 8785: blanks and the order of names do not matter,
nor whether 1e16 has all its digits, as JavaScript writes it.
"""

import base64
import copy
import json
import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import rfc8785

from fhe_auc.base.serialise import json_text
from fhe_auc_keys.errors import TamperedError
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import Member, Members
from fhe_auc_keys.trust.public_keys import SKEW, check_time
from fhe_auc_keys.trust.signatures import has_signed

_DEEPEST = 100  # objects in one another; far fewer than what Python's stack takes
_LARGEST = 2**53 - 1  # integers beyond it are not the same number to every reader of JSON


def sign_json(identity: Identity, purpose: bytes, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return `value` as plain JSON with a member's signature, good for one purpose alone.

    `value` has a ``time``, in ISO format with a time zone. What is not finite becomes null, integers beyond 2^53 text.
    """
    plain: dict[str, Any] = json.loads(json_text(value), parse_int=_integer)
    plain["signature"] = {"signer": identity.name, "members": identity.version}
    plain["signature"]["ed25519"] = _base64(identity.sign(purpose, rfc8785.dumps(plain)))
    return plain


def parse(data: bytes | str) -> dict[str, Any]:
    """Return a JSON object, unverified; raise `TamperedError` where it is none, or readers could differ about it."""
    try:
        found = json.loads(data, object_pairs_hook=_distinct, parse_int=_read, parse_float=_read, parse_constant=_read)
        _check_depth(found, _DEEPEST)
    except (ValueError, RecursionError):
        raise TamperedError("it is not one well-formed JSON object") from None
    if not isinstance(found, dict):
        raise TamperedError("it is not a JSON object")
    return found


def verified_signer(value: Mapping[str, Any], purpose: bytes, members: Members, *, at: datetime) -> Member:
    """Return who has signed the object, from `parse`; `at` is the present, with a time zone.

    The members' file that it names has to be for the ``time`` in it. The time is the signer's own claim, so that what
    is signed with keys that were stolen since does not count. Raises `TamperedError` where there is no signature, or
    not of these contents, or no time, or one in the future; and as `Members.signer`.
    """
    unsigned = copy.deepcopy(dict(value))
    try:
        signature = _bytes(unsigned["signature"].pop("ed25519"))
        name, version = unsigned["signature"]["signer"], unsigned["signature"]["members"]
        if not isinstance(name, str) or type(version) is not int:
            raise ValueError("no member")
        signed = rfc8785.dumps(unsigned)
        time = check_time(datetime.fromisoformat(unsigned["time"]))
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise TamperedError("it bears no signature, or no time with a time zone") from None
    if time > at + SKEW:
        raise TamperedError("its time is in the future")
    found = members.signer(name, version, time)
    if not has_signed(found.signing_key, purpose, signed, signature):
        raise TamperedError(f"it is not what {found.name!r} has signed: it was changed since, if only a few digits")
    return found


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    found = base64.b64decode(text, validate=True)
    if _base64(found) != text:  # the last bits of the text say nothing
        raise ValueError("not base64 as everybody writes it")
    return found


def _integer(text: str) -> int | str:
    return text if abs(int(text)) > _LARGEST else int(text)


def _read(text: str) -> float:
    # RFC 8785 has the float 1e16 with all its digits, 2^60 with zeros for the last ones; its library refuses integers.
    near = float(text)
    if math.isfinite(near):
        whole = int(text) if text.lstrip("-").isdigit() else None
        if whole is not None and abs(whole) <= _LARGEST:
            return whole
        if whole in (None, int(near), Decimal(repr(near))):
            return near
    raise TamperedError(f"the number {text[:32]} in it is not the same to every reader of JSON")


def _check_depth(value: Any, left: int) -> None:
    if not left:
        raise ValueError("too deep")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_depth(each, left - 1)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TamperedError("a name is in it twice")
    return found
