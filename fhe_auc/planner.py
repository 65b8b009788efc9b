"""From a workload to CKKS parameters, packing, blinding and flooding: the smallest upload that is precise and safe.

Two inequalities decide, both in bits. Capacity: nothing may wrap around the modulus Q,

    2·log2 Δ' + (2·log2 n - 1) + ρ + log2(gain) + 1 + ε  ≤  log2 Q

with n the bound on pooled rows, n²/2 the largest den = 2PN, ρ the blinding bits, gain what packing multiplies totals
by, and ε for the redundancy in den's imaginary part and for the blur of limited digits. Precision: the error of the
AUC at the *least* number of rows, worst class balance and smallest multiplier stays below a target. Scale Δ' buys
precision, ρ buys finer-grained blinding, and both come out of the same modulus: the planner takes the largest ρ that
leaves the precision asked for.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import msgspec

from fhe_auc.ckks import BackendName, CkksParameters
from fhe_auc.ckks.parameters import CHAINS
from fhe_auc.errors import CapacityError
from fhe_auc.packing import Packing
from fhe_auc.rlwe.parameters import Chain
from fhe_auc.thresholds import MAX_SIZE

DEFAULT_MAX_ROWS = 10**6
DEFAULT_MIN_ROWS = 100
DEFAULT_BLINDING_BITS = 26
DEFAULT_FLOODING_BITS = 40
DEFAULT_SMUDGING_BITS = 40
DEFAULT_PRECISION = 1e-7
DEFAULT_LOOSE_PRECISION = 5e-7
"""With joint keys every party adds noise, and disguised counts amplify errors: 1e-7 would take a larger ring."""

JOINT_KEYS_BACKEND: BackendName = "openfhe"
"""The one backend with joint keys."""

RAREST = 10**6
"""Precision is promised while the rarer class has at least one row in this many."""

MULTIPLIER_RANGE_BITS = 16
"""Multipliers are log-uniform in [2^(ρ-16), 2^ρ]."""

CHECK_WEIGHT = 2.0 ** (-5 / 3)
"""κ: den travels as den·(1 + iκ), so that overflow shows.

A total that exceeds the modulus Q is off by integer multiples of Q in the four coefficients that carry two classes. In
the slots these are numbers of Q(√2), in which κ, a cube root, does not lie: no such multiple keeps Im = κ·Re. For small
multiples the gap is far above the tolerance (about 10^-6 of den, 10^-5 with limited digits); a workload a million times
too large comes out as good as random, and passes with about that probability.
"""

MAX_AMPLIFICATION = 10.0
"""Multipliers of disguised counts are drawn so that they amplify errors at most so often."""

MAX_SPLITS = 4
LEAST_EXTRA = 24
"""Positions that the extra element of disguised counts has at least, and"""
LEAST_POSITIONS = 256
"""how many there are in all, if one ciphertext holds them: else they would be guessed (docs/security.md)."""

_LEAST = {"thresholds": 1, "parties": 1, "classes": 1, "max_rows": 2, "min_rows": 2, "splits": 1}
_CHECK_BITS = math.log2((1 + math.hypot(1, CHECK_WEIGHT)) / 2)
_DISGUISE_BITS = math.log2(1 + math.hypot(1, 0.5))  # den once more, and tie, which is at most half of it
_MAX_BLINDING_BITS = 50
_MIN_FLOODING_BITS, _MAX_FLOODING_BITS = 30, 80  # of smudging, too
_MAX_TOLERANCE = 1e-3
_CONFIDENCE = 7.0  # standard deviations: a bound broken once in 10^11 sessions
_ENCODING = 2.0**-51  # error of the double-precision transforms, relative to the largest slot (measured: half of it),
_ENCODING_DEVIATION = 2.0**-53  # and its standard deviation over the slots (measured: 0.17 to 0.24 times the former)
_ERROR_DEVIATION = math.sqrt(3.19**2 + 1 / 12)  # both libraries' error distribution, and rounding when encoding
_BLUR_LEVELS_BITS = 3  # the digit blur has at least 2·2^3 + 1 levels, 2^16 times as many at the largest multiplier


def switching_noise_bits(ring_dimension: int, shares: int = 0) -> float:
    """Return the log2 of the key-switching noise (standard deviation of a slot, absolute) after a full trace.

    It varies from key to key. Measured over many keys on both backends: up to 2^18.7 at N = 8192 and 2^19.7 at
    N = 16384; a test holds it below this bound. A secret key that is the sum of n `shares`, and evaluation keys that
    are sums too, make it √n times as large (measured: 2^18.3, 2^19.3, 2^20.1 and 2^21.0 for 3, 10, 30 and 100). The
    noise of relinearisation is not in it: that comes before the trace, is the same in all slots of a class afterwards,
    and far below what is added.
    """
    return 19 + (ring_dimension // 8192 - 1) + math.log2(max(shares, 1)) / 2


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the parameters must carry.

    Attributes
    ----------
    thresholds : int
        Decision points m.
    parties : int
        Most parties that submit.
    classes : int
        Class totals computed at once, a power of two.
    max_rows, min_rows : int
        Public bounds on the pooled rows: capacity holds up to max_rows, precision from min_rows on.
    release_digits : int or None
        Decimal digits of the AUC that parties may learn; None: all.
    splits : int
        S: positions that a bin takes where counts are disguised (`protocols.disguise`); 1: they are not.
    joint_keys : bool
        Whether each party holds a share of the secret key, instead of all the same key. Then all parties submit.
    """

    thresholds: int
    parties: int
    classes: int = 2
    max_rows: int = DEFAULT_MAX_ROWS
    min_rows: int = DEFAULT_MIN_ROWS
    release_digits: int | None = None
    splits: int = 1
    joint_keys: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = _integer(getattr(self, name))
            if value is None:
                raise CapacityError(f"{name} must be an integer, got {getattr(self, name)!r}")
            if value < least:
                raise CapacityError(f"{name} must be at least {least}, got {value}")
            msgspec.structs.force_setattr(self, name, value)
        if self.splits > MAX_SPLITS:
            raise CapacityError(f"splits must be at most {MAX_SPLITS}, got {self.splits}")
        if self.thresholds > MAX_SIZE:
            raise CapacityError(f"thresholds must be at most {MAX_SIZE}, got more")
        if self.classes & (self.classes - 1):
            raise CapacityError(f"classes must be a power of two, got {self.classes}")
        if self.max_rows < self.min_rows:
            raise CapacityError(f"max_rows must be at least min_rows = {self.min_rows}, got {self.max_rows}")
        if self.release_digits is not None:
            digits = _integer(self.release_digits)
            if digits is None or not 1 <= digits <= 6:
                raise CapacityError(f"release_digits must be between 1 and 6, got {self.release_digits!r}")
            msgspec.structs.force_setattr(self, "release_digits", digits)
            if self.disguised:
                raise CapacityError("release_digits does not go with disguised counts")

    @property
    def disguised(self) -> bool:
        """Whether parties disguise their counts from an aggregator that may lie."""
        return self.splits > 1

    @property
    def positions(self) -> int:
        """Bins that packing must have: one a threshold; with disguised counts S, and some for the extra element."""
        return self.splits * self.thresholds + LEAST_EXTRA if self.disguised else self.thresholds


def _integer(value: Any) -> int | None:
    """Return an integer of any kind, numpy's too, as Python's own; None for what is none."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="auc"):
    """Everything public that parties and aggregator must agree on for an encrypted AUC.

    Attributes
    ----------
    workload : Workload
    parameters : CkksParameters
    packing : Packing
    blinding_bits : int
        ρ: multipliers lie in [2^(ρ-16), 2^ρ].
    flooding_bits : int
        λ: the aggregator's flooding exceeds the noise it hides by 2^λ.
    smudging_bits : int
        The same of the noise that each party adds to its partial decryption; 0 without joint keys.
    tolerance : float
        What says by how much the AUC of disguised executions may differ (`protocols.malicious.accept`); at most 1e-3;
        0 without disguise.

    Raises
    ------
    CapacityError
        The parts do not fit together, or would not hide what they must. A plan comes from whoever wrote the manifest.
    """

    workload: Workload
    parameters: CkksParameters
    packing: Packing
    blinding_bits: int
    flooding_bits: int
    smudging_bits: int = 0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        packing, workload = self.packing, self.workload
        _check_hiding(self.blinding_bits, self.flooding_bits)
        check_smudging(workload.joint_keys, self.parameters.backend, self.smudging_bits)
        if packing.slots != self.parameters.slots or packing.classes != workload.classes:
            raise CapacityError("the plan's packing has other slots or classes than its parameters and workload")
        if packing != _packing(workload, packing.slots):
            raise CapacityError(
                f"the plan's {packing.blocks} x {packing.bins} bins are not those for {workload.positions} positions"
            )
        if self.parameters.rotations != _rotations(workload, packing):
            raise CapacityError("the plan's rotations are not exactly those of the circuit")
        if self.blinding_bits < _blur_bits(workload):
            raise CapacityError(
                f"the plan's blur of {workload.release_digits} digits has too few levels: blinding_bits is "
                f"{self.blinding_bits}, at least {_blur_bits(workload)} are needed"
            )
        _check_tolerance(workload, self.tolerance)
        if self.capacity_bits < 0:
            raise CapacityError("the plan's workload does not fit its modulus")

    @property
    def precision(self) -> float:
        """Bound on the numerical error of the AUC, see `error_bound`."""
        return error_bound(self)

    @property
    def thresholds(self) -> int:
        """Points of the session's grid."""
        return self.workload.thresholds

    @property
    def parties(self) -> int:
        """Most parties that submit."""
        return self.workload.parties

    @property
    def joint_keys(self) -> bool:
        """Whether each party holds a share of the secret key."""
        return self.workload.joint_keys

    @property
    def blocks(self) -> int:
        """Ciphertexts of a submission."""
        return self.packing.blocks

    @property
    def shift_bits(self) -> int:
        """What is encrypted is not shifted."""
        return 0

    @property
    def release_digits(self) -> int | None:
        """Decimal digits of the AUC that parties may learn."""
        return self.workload.release_digits

    @property
    def least_multiplier(self) -> float:
        """Smallest blinding multiplier."""
        return float(2.0 ** (self.blinding_bits - MULTIPLIER_RANGE_BITS))

    @property
    def flooding_deviation(self) -> float:
        """Standard deviation of flooding in a slot, in plain units (squares of counts times multiplier and gain).

        Sized for the largest multiplier: noise that grew with the multiplier would hide nothing.
        """
        return self._hiding_deviation(self.flooding_bits)

    @property
    def smudging_deviation(self) -> float:
        """Standard deviation of the noise that a party adds to its partial decryption, in the same units; joint keys.

        It hides what flooding hides, for the case that an aggregator has not flooded, and with it the party's share.
        """
        return self._hiding_deviation(self.smudging_bits)

    @property
    def unit(self) -> float:
        """What one unit of a result's integer coefficients is worth, in the same units."""
        return float(2.0 ** (-2 * self.parameters.log2_scale))

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of all noise added to a slot of the result, in the same units."""
        if not self.workload.joint_keys:
            return self.flooding_deviation
        return math.hypot(self.flooding_deviation, math.sqrt(self.workload.parties) * self.smudging_deviation)

    @property
    def switching_noise_bits(self) -> float:
        """Log2 of the key-switching noise in a slot (standard deviation, absolute) after a full trace."""
        return switching_noise_bits(self.parameters.ring_dimension, self.workload.parties * self.workload.joint_keys)

    def _hiding_deviation(self, bits: int) -> float:
        noise = self.switching_noise_bits + self.blinding_bits + bits
        return float(2.0 ** (noise - 2 * self.parameters.log2_scale))

    @property
    def capacity_bits(self) -> float:
        """Bits of the modulus that the largest honest result leaves unused."""
        return self.parameters.log2_modulus - _needed_bits(
            self.workload, self.packing, self.parameters.log2_scale, self.blinding_bits
        )

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's ciphertexts, without envelopes."""
        return self.packing.blocks * self.parameters.submission_bytes

    @property
    def key_bytes(self) -> int:
        """Bytes of one party's parts of joint keys, without envelopes: public key, and half of each switching key.

        There are as many of these as rotations, and one that becomes the relinearisation key, of which both halves
        follow in the second round.
        """
        if not self.workload.joint_keys:
            return 0
        digits = len(self.parameters.modulus_bits)
        half = digits * self.parameters.polynomial_bytes(self.parameters.special_bits)
        return self.parameters.polynomial_bytes() + (len(self.parameters.rotations) + 1 + 2) * half


def plan(
    workload: Workload,
    backend: BackendName,
    *,
    blinding_bits: int = DEFAULT_BLINDING_BITS,
    flooding_bits: int = DEFAULT_FLOODING_BITS,
    smudging_bits: int = DEFAULT_SMUDGING_BITS,
    precision: float | None = None,
    tolerance: float | None = None,
) -> Plan:
    """Return the plan with the smallest upload.

    Parameters
    ----------
    workload : Workload
    backend : "openfhe" or "tenseal"
    blinding_bits : int
        Least ρ; more is used where capacity and precision allow.
    flooding_bits : int
        λ, statistical bits by which flooding hides the noise beneath it.
    smudging_bits : int
        The same for each party's noise on its partial decryption; only joint keys have it.
    precision : float or None
        Largest error of the AUC allowed from ``workload.min_rows`` rows on; None: 1e-7, with joint keys or
        disguised counts 5e-7. With
        `release_digits` a twentieth of the last digit is enough, and is what is asked for.
    tolerance : float or None
        What disguised executions are accepted with; None: the plan's `disagreement`, below which honest results would
        be refused.

    Raises
    ------
    CapacityError
        No parameters with 128-bit security do.
    """
    if precision is None:
        loose = workload.joint_keys or workload.disguised
        precision = DEFAULT_LOOSE_PRECISION if loose else DEFAULT_PRECISION
    if workload.release_digits is not None:
        precision = max(precision, 0.05 * 10.0**-workload.release_digits)
        blinding_bits = max(blinding_bits, _blur_bits(workload))
    _check_hiding(blinding_bits, flooding_bits)
    smudging_bits = smudging_bits if workload.joint_keys else 0
    check_smudging(workload.joint_keys, backend, smudging_bits)
    if tolerance is not None:
        _check_tolerance(workload, tolerance)
        precision = min(precision, tolerance)  # else honest results would be refused
    hiding = blinding_bits, flooding_bits, smudging_bits
    fitting = [
        found
        for chain in CHAINS[backend]
        if (packing := _packing(workload, chain.ring_dimension // 2)) is not None
        and (found := _fill(workload, backend, chain, packing, hiding, (precision, tolerance))) is not None
    ]
    if not fitting:
        raise CapacityError(
            f"no parameters with 128-bit security hold {workload.max_rows:,} pooled rows, {workload.thresholds:,} "
            f"thresholds and {workload.parties:,} parties with an AUC error below {precision:g} from "
            f"{workload.min_rows:,} rows on; lower max_rows, raise min_rows or release fewer digits, or take fewer "
            "thresholds or splits"
        )
    return min(fitting, key=lambda found: (found.submission_bytes, found.parameters.ring_dimension))


def _check_hiding(blinding_bits: int, flooding_bits: int) -> None:
    if not MULTIPLIER_RANGE_BITS < blinding_bits <= _MAX_BLINDING_BITS:
        raise CapacityError(
            f"blinding_bits must lie above {MULTIPLIER_RANGE_BITS} and at most at {_MAX_BLINDING_BITS}, "
            f"got {blinding_bits}"
        )
    if not _MIN_FLOODING_BITS <= flooding_bits <= _MAX_FLOODING_BITS:
        raise CapacityError(
            f"flooding_bits must lie between {_MIN_FLOODING_BITS} and {_MAX_FLOODING_BITS}, got {flooding_bits}"
        )


def check_smudging(joint_keys: bool, backend: BackendName, smudging_bits: int) -> None:
    """Raise `CapacityError` for smudging that protects nothing, or that there is no use for."""
    if not joint_keys:
        if smudging_bits:
            raise CapacityError("only partial decryptions under joint keys are smudged: smudging_bits must be 0")
        return
    if backend != JOINT_KEYS_BACKEND:
        raise CapacityError(f"joint keys need the backend {JOINT_KEYS_BACKEND}, got {backend}")
    if not _MIN_FLOODING_BITS <= smudging_bits <= _MAX_FLOODING_BITS:
        raise CapacityError(
            f"smudging_bits must lie between {_MIN_FLOODING_BITS} and {_MAX_FLOODING_BITS}, got {smudging_bits}"
        )


def _check_tolerance(workload: Workload, tolerance: float) -> None:
    if not (0 < tolerance <= _MAX_TOLERANCE if workload.disguised else tolerance == 0):
        raise CapacityError(
            f"tolerance must lie above 0 and at most at {_MAX_TOLERANCE:g} where counts are disguised, and be 0 where "
            f"they are not, got {tolerance:g}"
        )


def _blur_bits(workload: Workload) -> int:
    """Return the least ρ that gives the blur of limited digits its levels at the smallest multiplier, 2^(ρ-16)."""
    if workload.release_digits is None:
        return 0
    return math.ceil(MULTIPLIER_RANGE_BITS + math.log2(2 * 10**workload.release_digits) + _BLUR_LEVELS_BITS)


def _rotations(workload: Workload, packing: Packing) -> tuple[int, ...]:
    """Return the steps of the circuit: the trace's (which include cB), and one between classes for limited digits."""
    blur = set() if workload.release_digits is None else {1}
    return tuple(sorted(blur.union(packing.trace_steps)))


def _packing(workload: Workload, slots: int) -> Packing | None:
    """Return the packing of the fewest blocks, and in them the fewest bins; None where not even one bin fits."""
    largest = slots // (2 * workload.classes)
    if not largest:
        return None
    wanted = max(workload.positions, LEAST_POSITIONS) if workload.disguised else workload.positions
    bins = min(1 << (wanted - 1).bit_length(), largest)
    blocks = -(-workload.positions // bins)
    return Packing(slots, workload.classes, bins, blocks, _x_bits(workload, blocks * bins))


def _x_bits(workload: Workload, bins: int) -> int:
    """Return the bits of `Packing.x_unit` with which errors on X and on Y weigh about alike."""
    if not workload.disguised:
        return (bins.bit_length() + 1) // 2
    x_norm, y_norm = _disguised_norms(workload, bins)
    return round(math.log2(2 * math.sqrt(x_norm / y_norm)))


def _disguised_norms(workload: Workload, bins: int) -> tuple[float, float]:
    """Return bounds on the norm of X, in 2P, and of Y, in N, over all positions of disguised counts.

    S weights that add up to 1, each at most 3/2 from 1/2, have squares that add up to 2S + 1 at most. All positives may
    count in every bin, all negatives in one. The extra element has |x| ≤ 1, and Σ|y|² ≤ 25/n at n ≥ 24 positions.
    """
    main = 2 * workload.splits + 1
    extra = bins - workload.splits * workload.thresholds
    return math.sqrt(main * workload.thresholds + extra), math.sqrt(main + 25 / extra)


def _needed_bits(workload: Workload, packing: Packing, log2_scale: float, blinding_bits: int) -> float:
    largest_den = 2 * math.log2(workload.max_rows) - 1
    blur = 0.0 if workload.release_digits is None else math.log2(1 + 0.5 * 10.0**-workload.release_digits)
    redundancy = _DISGUISE_BITS if workload.disguised else _CHECK_BITS
    return 2 * log2_scale + largest_den + blur + blinding_bits + math.log2(packing.gain) + 1 + redundancy


def _fill(
    workload: Workload,
    backend: BackendName,
    chain: Chain,
    packing: Packing,
    hiding: tuple[int, int, int],
    accuracy: tuple[float, float | None],
) -> Plan | None:
    """Return the plan on this chain with the finest-grained blinding, or None where precision cannot be had."""
    least_blinding_bits, flooding_bits, smudging_bits = hiding
    precision, tolerance = accuracy
    rotations = _rotations(workload, packing)
    total_bits = sum(chain.modulus_bits)
    for blinding_bits in range(_MAX_BLINDING_BITS, least_blinding_bits - 1, -1):
        spare = total_bits - _needed_bits(workload, packing, 0.0, blinding_bits)
        log2_scale = math.floor(2 * spare) / 4  # quarter bits
        if log2_scale < 1:
            continue
        parameters = CkksParameters(
            backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, log2_scale, rotations
        )
        candidate = Plan(
            workload=workload,
            parameters=parameters,
            packing=packing,
            blinding_bits=blinding_bits,
            flooding_bits=flooding_bits,
            smudging_bits=smudging_bits,
            tolerance=_MAX_TOLERANCE if workload.disguised else 0.0,
        )
        if not candidate.precision <= precision:  # nan, too
            continue
        if not workload.disguised:
            return candidate
        least = disagreement(candidate)
        if tolerance is None or least <= tolerance:
            return msgspec.structs.replace(candidate, tolerance=least if tolerance is None else tolerance)
    return None


def error_bound(candidate: Plan) -> float:
    """Return a bound on |AUC error| from min_rows rows on, at the smallest multiplier.

    It holds for every class balance down to one row in a million. Flooding and smudging, of which recovery averages
    the slots of a class, come in quadrature with `fresh_error`'s noise, at seven standard deviations.
    """
    packing, workload = candidate.packing, candidate.workload
    least_den = 2.0 * (workload.min_rows - 1)
    one_total = candidate.noise_deviation / math.sqrt(2 * packing.slots / packing.classes)
    # num and den have noise of their own, hence the factor √2 (twice, half of it in the line above).
    hiding = math.sqrt(2) * one_total / (candidate.least_multiplier * packing.gain * least_den)
    error = math.hypot(_CONFIDENCE * hiding, _fresh_noise(candidate)) + _encoding_error(candidate)
    return error * (MAX_AMPLIFICATION if workload.disguised else 1)


def disagreement(candidate: Plan) -> float:
    """Return the least tolerance at which honest executions agree: t, with |AUC_e - AUC_f| ≤ t·√(A_e² + A_f²)/10.

    A_e ≤ 10 is how much the multipliers of execution e amplify errors. Noise of two executions is independent, so that
    their differences add up like the sides of that triangle. Errors of encoding are no noise: they add up in full,
    A_e + A_f ≤ √2·√(A_e² + A_f²).
    """
    return error_bound(candidate) + MAX_AMPLIFICATION * (math.sqrt(2) - 1) * _encoding_error(candidate)


def fresh_error(candidate: Plan) -> float:
    """Return a bound on the error of num and den relative to den, without added noise, whatever the multiplier."""
    return _fresh_noise(candidate) + _encoding_error(candidate)


def _fresh_noise(candidate: Plan) -> float:
    """Return seven standard deviations of what encryptions, and the rotation that joins X and Y, do to the AUC."""
    packing, parameters = candidate.packing, candidate.parameters
    # A trace adds one switching's noise up over all slots, incoherently.
    switching = 2.0**candidate.switching_noise_bits / math.sqrt(packing.slots)
    encrypting = _ERROR_DEVIATION * math.sqrt(candidate.workload.parties * parameters.ring_dimension)
    slot_noise = math.hypot(switching, encrypting) / parameters.scale
    # Worst balances, relative to den = 2PN: noise on Y meets X ≤ 2P·|1 + iκ| in every bin (N = 1); noise on u·X meets
    # Y, whose bins add up to N (P = 1). Each noise slot enters two products, num and den err independently: √2·√2, over
    # √2 for the real part.
    bins = packing.blocks * packing.bins
    x_norm, y_norm = math.sqrt(bins) * math.hypot(1, CHECK_WEIGHT), 1.0
    if candidate.workload.disguised:
        x_norm, y_norm = _disguised_norms(candidate.workload, bins)
    on_x = y_norm / (2 * packing.x_unit)
    return _CONFIDENCE * slot_noise * math.sqrt(2 / packing.copies) * math.hypot(x_norm, on_x)


def _encoding_error(candidate: Plan) -> float:
    """Return the error of encoding in double precision: alike in all bins and copies, it averages out nowhere.

    Worst balances as for noise; the error is as large as the largest slot makes it. Disguised values have random
    phases, so that over the positions errors add up like noise, and the largest is twice what it would be.
    """
    packing, workload = candidate.packing, candidate.workload
    balance = min(workload.max_rows, RAREST)
    bins = packing.blocks * packing.bins
    if not workload.disguised:
        return _ENCODING * balance * max(2 * packing.x_unit * bins, 1 / (2 * packing.x_unit))
    x_norm, y_norm = _disguised_norms(workload, bins)
    worst = max(2 * packing.x_unit * x_norm, y_norm / (2 * packing.x_unit))
    return _CONFIDENCE * _ENCODING_DEVIATION * balance * 2 * worst
