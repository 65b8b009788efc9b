"""The plan of a computation on what parties hide: what everybody needs of it who does not know the protocol.

A protocol has a plan type of its own, a `msgspec.Struct` with a `kind`. In a manifest it travels as `EncodedPlan`,
which the engine passes on unread; the protocol decodes it (`fhe_auc.session.manifest.Manifest.decoded_plan`).
"""

from __future__ import annotations

from typing import ClassVar, Literal, NamedTuple, Protocol

import msgspec

from fhe_auc.base import quantities
from fhe_auc.rlwe.ring_parameters import MAX_MODULUS_BITS, SECURITY_BITS, RingParameters

Keys = Literal["none", "sealed", "helper"]
"""Who makes a session's keys: nobody, a key holder, or a helper."""

BLOB_BYTES, WRAPPED_BYTES = 1270, 50
"""With a helper: what a party sends it, signed; and what of a result is for one party alone. With their lengths."""

VECTOR_SUMS = "vector sums"  # the kind of the plan of sums of vectors (`fhe_auc.session.vector_computation`)
ONE_TIME_PADS = "one-time pads"  # in place of an encryption library, where what parties send is padded and nothing else


class EncodedPlan(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A plan as it stands in a manifest: the name of its type (`Plan.kind`), and the plan as msgpack."""

    kind: str
    content: bytes


class Parameter(NamedTuple):
    """A row of a table for people; `why` may hold {thresholds}, {max_rows} and {min_rows}, for `str.format`."""

    name: str
    value: str
    why: str


class Terms(NamedTuple):
    """What the parties of a session agree to, beside thresholds and options.

    `rows` are for people; `data` the same for programs: of "max_rows", "min_rows" and "sums" those that the plan has.
    """

    rows: list[Parameter]
    data: dict[str, int]


class Plan(Protocol):
    """Everything public that parties and aggregator must agree on for a computation."""

    kind: ClassVar[str]  # names the type in a manifest

    @property
    def parties(self) -> int:
        """Most parties that submit."""

    @property
    def thresholds(self) -> int:
        """Points of the session's grid."""

    @property
    def keys(self) -> Keys:
        """Who makes the keys: "sealed" or "helper"."""

    @property
    def parameters(self) -> RingParameters | None:
        """Ring, moduli and backend of the encryption; None where there are pads alone."""

    @property
    def submission_bytes(self) -> int:
        """Bytes of what one party submits, without envelopes."""

    @property
    def download_bytes(self) -> int:
        """Bytes that one party receives in a session, without envelopes."""

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons; plans of one kind and the same keys have the same names."""

    def as_dict(self) -> dict[str, object]:
        """Return the parameters as plain data, for JSON."""

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""


def backend_of(plan: Plan) -> str:
    """Return the encryption library of a session, or `ONE_TIME_PADS` where it takes none."""
    return ONE_TIME_PADS if plan.parameters is None else plan.parameters.backend


def describe_ring(parameters: RingParameters, why: str, why_modulus: str) -> list[Parameter]:
    """Return the rows on ring and moduli, with the reasons for the one and the other."""
    special = parameters.special_bits
    return [
        Parameter("ring dimension N", f"{parameters.ring_dimension:,}", why),
        Parameter("modulus Q, bits", "+".join(map(str, parameters.modulus_bits)), why_modulus),
        Parameter(
            "special prime P, bits",
            str(special) if special else "none",
            "SEAL has one in its keys, to switch keys with; nothing here does, so that it is as small as can be",
        ),
        Parameter(
            "Q·P and limit, bits",
            f"{parameters.log2_modulus + special} of {MAX_MODULUS_BITS[parameters.ring_dimension]}",
            "beyond it, 128-bit security needs a larger N (guidelines of 2024, https://eprint.iacr.org/2024/463)",
        ),
    ]


def describe_flooding(bits: int, log2_distance: float) -> Parameter:
    """Return the row on flooding; with it, results differ by 2^log2_distance, whatever their own noise was."""
    return Parameter(
        "flooding λ, bits",
        str(bits),
        "the aggregator adds noise 2^λ times as large as what it hides, which then shows by a statistical distance of "
        f"2^{log2_distance:.1f} at most",
    )


def describe_upload(plan: Plan, why: str) -> Parameter:
    """Return the row on what a party sends."""
    return Parameter("upload of a party", quantities.bytes_text(plan.submission_bytes), why)


def describe_download(plan: Plan) -> Parameter:
    """Return the row on what a party receives."""
    why = "the result; signed messages, as between machines, list all parties besides, some 50 bytes for each"
    return Parameter("download of a party", quantities.bytes_text(plan.download_bytes), why)


def ring_as_dict(plan: Plan, parameters: RingParameters, blocks: int) -> dict[str, object]:
    """Return what the plain data of encrypted plans begin with; a submission has so many ciphertexts."""
    return {
        "security_bits": SECURITY_BITS,
        "ring_dimension": parameters.ring_dimension,
        "modulus_bits": list(parameters.modulus_bits),
        "special_bits": parameters.special_bits,
        "total_modulus_bits": parameters.log2_modulus + parameters.special_bits,
        "max_modulus_bits": MAX_MODULUS_BITS[parameters.ring_dimension],
        "blocks": blocks,
        "upload_bytes": plan.submission_bytes,
        "download_bytes": plan.download_bytes,
    }
