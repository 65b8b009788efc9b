"""The list of a fleet's members, signed by the consortium's authority: their number, their Merkle root, and an end.

So who convenes a session cannot name members of its own making. The authority signs for those only whom it has
certified; the list ends as a revocation list does, so that who is revoked goes with the next one.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat, encode
from fhe_auc.question.fleet import Fleet, Members, root_of
from fhe_auc_keys.errors import ExpiredError, KeysError, TamperedError, UnfitCertificateError
from fhe_auc_keys.trust.authority import LIST_DAYS, Authority
from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.public_keys import check_time
from fhe_auc_keys.trust.sealing import has_signed

_PURPOSE = b"list of a fleet's members 1"


class _Listed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    not_after: int  # Unix seconds
    signature: bytes  # over number, root and end


_FORMAT = KeptFormat(b"fhememb", _Listed, "signed list of a fleet's members")


def sign_members(authority: Authority, members: Members, *, at: datetime) -> bytes:
    """Return the authority's signature for these members, shape (members, 32), for `Fleet.listed`.

    It is accepted for 30 days from `at`. Raises `UnfitCertificateError` where a key is not in a valid certificate of
    this authority's, and `InputError` where a member is there twice.
    """
    certified = authority.signing_keys(at=at)
    odd = [index for index, member in enumerate(members) if member.tobytes() not in certified]
    if odd:
        raise UnfitCertificateError(
            f"member {odd[0]} of the fleet has no valid certificate of this authority; {len(odd):,} of "
            f"{len(members):,} members have none"
        )
    return sign_list(authority, members, at=at)


def sign_list(authority: Authority, members: Members, *, at: datetime) -> bytes:
    """Return the same without a look at certificates, for simulations, whose devices have none."""
    ends = int((check_time(at) + timedelta(days=LIST_DAYS)).timestamp())
    statement = encode((len(members), root_of(members), ends))
    return _FORMAT.frame(_Listed(ends, authority.sign(_PURPOSE, statement)))


def check_members(fleet: Fleet, trust: Trust, *, at: datetime) -> None:
    """Check that an authority trusted here has signed a fleet's members, for a time that includes `at`.

    Raises `TamperedError` for a damaged list, `KeysError` without such a signature, `ExpiredError` at other times.
    """
    try:
        listed = _FORMAT.unframe(fleet.listed)
    except DeserialisationError as error:
        raise TamperedError(str(error)) from None
    statement = encode((fleet.members, fleet.root, listed.not_after))
    signer = next((each for each in trust.anchors if _has_signed(each, listed.signature, statement)), None)
    if signer is None:
        raise KeysError(f"no authority trusted here has signed the list of the fleet's {fleet.members:,} members")
    ends = min(listed.not_after, int(signer.not_valid_after_utc.timestamp()))
    if check_time(at).timestamp() > ends:
        until = f"{datetime.fromtimestamp(ends, timezone.utc):%Y-%m-%d}"
        raise ExpiredError(f"the list of the fleet's members is accepted until {until} only: have it signed anew")


def _has_signed(authority: x509.Certificate, signature: bytes, statement: bytes) -> bool:
    key = authority.public_key()
    return isinstance(key, Ed25519PublicKey) and has_signed(key.public_bytes_raw(), _PURPOSE, statement, signature)
