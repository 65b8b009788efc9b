"""The key holder: makes a session's CKKS keys and splits them by role.

The aggregator's part is serialised from a type that has no secret key (`fhe_auc.ckks.PublicContext`), with exactly the
rotation keys of the circuit; the parties' part holds the secret key.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fhe_auc import ckks


@dataclass(frozen=True)
class SessionKeys:
    """Key material of one session.

    Attributes
    ----------
    fingerprint : bytes
        32 bytes that name parameters and public key.
    aggregator : bytes
        Public and evaluation keys, for `fhe_auc.ckks.load_public`.
    party : bytes
        The secret key in the clear, for `fhe_auc.ckks.load_secret`; never for the aggregator. Not in the repr.
    """

    fingerprint: bytes
    aggregator: bytes = field(repr=False)
    party: bytes = field(repr=False)


def new_session_keys(parameters: ckks.CkksParameters) -> SessionKeys:
    """Return fresh keys for one session."""
    public, secret = ckks.generate(parameters)
    return SessionKeys(public.fingerprint, public.to_bytes(), secret.to_bytes())
