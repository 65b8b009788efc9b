"""Plug-ins ``exact`` and ``verified``: the integers that an AUC is made of, under one-time pads and BFV.

exact       the aggregator follows the protocol; what parties decrypt is these integers and nothing else
verified    the aggregator may do what it likes: parties get the right integers, or an error
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.base.options import Options
from fhe_auc.base.python_options import flag
from fhe_auc.bfv.parameters import CHAINS, MAX_PLAIN_MODULI, BfvParameters
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN, Analysis
from fhe_auc.question.score_bins import of_one_number
from fhe_auc.question.weights import Weights
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.results.heterogeneity import LEAST_SITES
from fhe_auc.results.intervals import quantile
from fhe_auc.rlwe.modular import primes_above, primes_below
from fhe_auc.rlwe.ring_parameters import DEFAULT_FLOODING_BITS, BackendName, choose_backend
from fhe_auc.rows.own_checks import ONLY_NOISE
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, KeyKind, Protocol, Request, Setup, Spending
from fhe_auc_keys.roles.sealed import SealedPads
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.exact_auc import epsilon_noise
from fhe_auc_protocols.exact_auc.computations import ExactComputation, ExactTask
from fhe_auc_protocols.exact_auc.exact_plan import AnalysisSums, ExactPlan, least_prime
from fhe_auc_protocols.exact_auc.result_check import INTERVAL, PLAIN_INTERVAL, ROUND_SCORES
from fhe_auc_protocols.exact_auc.tie_sums import runs_of

_NO_FLEET = "a fleet's members have no secret in common, which verified takes: give --protocol exact"
_NO_OTHERS = f"with {ROUND_SCORES} every rounded score is a threshold: give no others"

_SMALL_BITS, _LARGE_BITS = 42, 50  # of a plaintext prime at most, on the libraries' first chain and on others


class Exact(Protocol[Evaluation]):
    """Plug-in ``exact``."""

    name = "exact"
    summary = "pads and BFV: the AUC as an exact fraction, P and N; the aggregator is trusted to compute it"
    trust = "the aggregator computes what it should and does not collude with a party, key holder or helper"
    several = True
    boundaries = "boundaries-federated"
    options = options_of.EXACT
    authenticated: ClassVar[bool] = False
    proves_inputs = True

    def key_kinds(self) -> Mapping[str, Callable[[], KeyKind[Evaluation]]]:
        """Return sealed keys, with an echo where results are proved, and a helper's."""
        sealed = partial(SealedPads, ExactComputation, self.task, echo=self.authenticated)
        return {"sealed": sealed, "helper": self._helper_keys}

    def _helper_keys(self) -> KeyKind[Evaluation]:
        from fhe_auc_keys.roles.helped import HelperKeys

        return HelperKeys(ExactComputation, self.task)

    def staged(self, request: Request, bins: int) -> tuple[Request, Request]:
        """Split a request for quantile thresholds; not of rounded scores, which bring their own, nor with epsilon."""
        if _budget(request):
            raise InputError(epsilon_noise.NO_QUANTILES)
        if ROUND_SCORES in request.options:
            raise InputError(_NO_OTHERS)
        first, second = super().staged(request, bins)
        return replace(first, analysis=Analysis(models=request.analysis.models)), second

    def completed(self, request: Request) -> Request:
        """Return the request with every rounded score as a threshold, if scores are rounded."""
        decimals = request.options.get(ROUND_SCORES)
        if decimals is None:
            return request
        own = grids.decimals(_checked_decimals(decimals))
        defaults = grids.resolve(
            self.options.thresholds_for(several=request.analysis.coarse, compared=request.analysis.compared)
        )
        if not any(np.array_equal(request.thresholds, grid) for grid in (own, defaults)):
            raise InputError(_NO_OTHERS)
        return replace(request, thresholds=own)

    def takes(self, request: Request | Manifest) -> Options:
        """Return the options of a request: a fleet's devices have noise, too."""
        return self.options if request.fleet is None else options_of.VERIFIED

    def agreed(self, request: Request) -> dict[str, bool | int | float | str]:
        """Return to how many decimals scores are rounded, and the level of the interval, if there are any."""
        level = {} if request.interval is None else {INTERVAL: request.interval}
        decimals = request.options.get(ROUND_SCORES)
        rounding = {} if decimals is None else {ROUND_SCORES: _checked_decimals(decimals)}
        asked = request.options.get(PLAIN_INTERVAL)
        plain = {} if asked is None else {PLAIN_INTERVAL: flag(asked, PLAIN_INTERVAL)}
        return {**rounding, **plain, **_budget(request), **level}

    def set_up(self, setup: Setup, options: Mapping[str, object], rows: Mapping[str, int]) -> Setup:
        """Return with an epsilon one with a helper, where each party proves that it has its rows."""
        if not self.authenticated or options.get("epsilon") is None or setup.keys not in (None, "helper"):
            return setup
        return replace(setup, keys="helper", row_caps=rows if setup.row_caps is None else setup.row_caps)

    def planned(self, request: Request) -> ExactPlan:
        """Return the parameters for an exact fraction."""
        if request.fleet is not None and self.authenticated:
            raise InputError(_NO_FLEET)
        privacy = epsilon_noise.budget(request)
        analysis, caps = request.analysis, request.caps
        bound = sum(caps) if request.fleet is None else sum(caps) * request.size
        try:
            return plan_exact(
                thresholds=len(request.thresholds),
                parties=request.size,
                max_rows=privacy.total if privacy is not None else min(request.max_rows, bound or request.max_rows),
                analysis=analysis,
                min_parties=request.min_parties,
                interval=request.interval is not None and request.fleet is None,
                authenticated=self.authenticated,
                backend=choose_backend(request.backend),
                helpers=int(request.keys == "helper"),
                caps=caps,
                runs=_runs(request.thresholds, request.options),
                privacy=privacy,
            )
        except CapacityError as error:
            if analysis.is_plain:
                raise
            raise CapacityError(f"{error}; fewer models, groups, classes or thresholds take less") from None

    def spends(self, manifest: Manifest) -> Spending | None:
        """Return the budget of the session, where it has one."""
        asked = _budget(manifest)
        return Spending(float(asked["epsilon"]), str(asked["epsilon_unit"])) if asked else None

    def soundness(self, manifest: Manifest) -> float | None:
        """Return the proved bound of the session."""
        return self.plan_of(manifest).soundness

    def own_warnings(self, manifest: Manifest, parties: Sequence[PartyData]) -> tuple[str, ...]:
        """Return what parties ought to know of their own rows; with a budget, not that noise would hide few of them."""
        told = super().own_warnings(manifest, parties)
        return tuple(text for text in told if ONLY_NOISE not in text) if _budget(manifest) else told

    def analysis_of(self, manifest: Manifest) -> Analysis:
        """Return what the session estimates; errors as `plan_of`."""
        return self.plan_of(manifest).analysis

    def task(self, manifest: Manifest, data: PartyData) -> ExactTask:
        """Return a party's computation on its own rows, rounded if the session rounds scores."""
        return ExactTask(manifest, rounded(data, manifest))

    def plan_of(self, manifest: Manifest) -> ExactPlan:
        """Return the plan in a manifest of this protocol; raise `InputError` where a manifest is not such a one."""
        plan = manifest.decoded_plan(ExactPlan)
        if plan.authenticated != self.authenticated:
            raise InputError(f"the session's manifest is not one for protocol {self.name!r}")
        if manifest.fleet is not None and self.authenticated:
            raise InputError(_NO_FLEET)
        flag(manifest.options.get(PLAIN_INTERVAL, False), PLAIN_INTERVAL)
        level = manifest.options.get(INTERVAL)
        if level is None:
            fits = not plan.interval
        else:
            quantile(level)  # raises for what is no level
            fits = plan.interval or plan.privacy is not None or manifest.fleet is not None
        if not fits:
            raise InputError("the session's manifest has an interval, and its plan not the sums for it, or the reverse")
        privacy = plan.privacy
        odd = privacy is not None and bool(privacy.members) != (manifest.fleet is not None)
        if odd or _budget(manifest) != ({} if privacy is None else privacy.options(manifest)):
            raise InputError("the session's manifest and its plan are for other privacy budgets")
        if plan.caps and plan.caps != agreed_caps(manifest, plan.caps):
            raise InputError("the session's plan proves other row caps than its study or fleet names")
        if plan.analysis.heterogeneity and manifest.min_parties < LEAST_SITES:
            raise InputError(f"the session's manifest releases sums over sites of fewer than {LEAST_SITES} parties")
        if plan.runs != _runs(manifest.thresholds, manifest.options):
            raise InputError("the session's plan takes other bins for those of one score than its thresholds make")
        # A result claims to be the AUC of the rounded scores: only where each of them is a threshold is it that.
        places = manifest.options.get(ROUND_SCORES)
        if places is not None and not np.array_equal(manifest.thresholds, grids.decimals(_checked_decimals(places))):
            raise InputError(f"the session's manifest does not fit its {ROUND_SCORES}, {places}")
        return plan


class Verified(Exact):
    """Plug-in ``verified``."""

    name = "verified"
    options = options_of.VERIFIED
    summary = (
        "pads, BFV, one-time authenticators: the AUC as an exact fraction, P and N; a liar passes below 2^-40 where "
        "all must submit, without a helper"
    )
    trust = "the aggregator does not collude with a party, key holder or helper; its sums are proved, not trusted"
    authenticated = True


def agreed_caps(manifest: Manifest, planned: tuple[int, ...]) -> tuple[int, ...]:
    """Return the row caps that a manifest names, in the order of its parties; those that are planned if it has none."""
    if manifest.fleet is not None:
        return (manifest.fleet.row_cap,)
    if manifest.study is None or not manifest.study.caps:
        return planned if len(planned) == manifest.size else ()
    return tuple(manifest.study.caps.get(party, 0) for party in manifest.parties)


def rounded(data: PartyData, manifest: Manifest) -> PartyData:
    """Return a party's rows with scores rounded as the session says; they lie between 0 and 1, as its thresholds."""
    decimals = manifest.options.get(ROUND_SCORES)
    if decimals is None:
        return data
    return data.with_scores(lambda scores: np.round(scores, _checked_decimals(decimals)))


def _runs(thresholds: NDArray[np.float64], options: Mapping[str, object]) -> tuple[int, ...]:
    """Return which bins have one score only: of rounded scores all do."""
    grid = grids.explicit(thresholds)
    return runs_of(np.ones(len(grid), bool) if ROUND_SCORES in options else of_one_number(grid))


def _budget(asked: Request | Manifest) -> dict[str, bool | int | float | str]:
    """Return the options of a private AUC, with defaults; none where nobody has asked for one."""
    return epsilon_noise.agreed(asked.options, fleet=asked.fleet is not None)


def _checked_decimals(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= grids.MAX_PLACES:
        raise InputError(f"{ROUND_SCORES} must be a whole number from 1 to {grids.MAX_PLACES}, got {value!r}")
    return int(value)


def plan_exact(
    *,
    thresholds: int,
    parties: int,
    backend: BackendName,
    analysis: Analysis = PLAIN,
    min_parties: int | None = None,
    max_rows: int = DEFAULT_MAX_ROWS,
    interval: bool = False,
    authenticated: bool = True,
    helpers: int = 0,
    caps: tuple[int, ...] = (),
    runs: tuple[int, ...] | None = None,
    privacy: epsilon_noise.Privacy | None = None,
    flooding_bits: int = DEFAULT_FLOODING_BITS,
) -> ExactPlan:
    """Return the plan; parameters as of `ExactPlan`.

    Results keep the fewest primes of Q with which the plan holds.

    Raises `CapacityError`: an argument is out of range, or no parameters with 128-bit security do; sums over sites are
    asked for, and fewer than 5 parties (`min_parties`; None: all) may count.
    """
    interval = interval and privacy is None
    if analysis.heterogeneity and min_parties is not None and min_parties < LEAST_SITES:
        raise CapacityError(f"sums over sites take {LEAST_SITES} parties; {min_parties} may be all here")
    sums = AnalysisSums(analysis, thresholds, interval, privacy, runs, bool(caps))
    planned = partial(
        ExactPlan,
        analysis=analysis,
        thresholds=thresholds,
        interval=interval,
        authenticated=authenticated,
        parties=parties,
        max_rows=max_rows,
        flooding_bits=flooding_bits,
        helpers=helpers,
        caps=caps,
        runs=runs,
        privacy=privacy,
    )
    small_prime = least_prime(sums.release)
    reason: CapacityError | None = None

    def candidates(
        rows: int, privacy: epsilon_noise.Privacy | None = privacy, analysis: Analysis = analysis
    ) -> Iterator[BfvParameters]:
        if privacy is not None:
            privacy = privacy.for_rows(rows)
        own = replace(sums, privacy=privacy, analysis=analysis)
        least = own.for_rows(rows, parties).least_modulus(rows, parties)
        return _candidates(backend, least, small_prime, prove=bool(caps))

    def most(privacy: epsilon_noise.Privacy | None) -> int:
        """Return how many rows, up to `max_rows`, can be proved."""
        tried = range(max(2, parties), max_rows + 1)
        return tried[0] - 1 + bisect_left(tried, True, key=lambda rows: next(candidates(rows, privacy), None) is None)

    def coarser(own: Weights) -> str:
        """Return which coarser step of weights would do, if one does."""
        for per in (10**power for power in reversed(range(len(f"{own.per}") - 1))):
            asked = msgspec.structs.replace(own, most=max(per, own.most * per // own.per), per=per)
            if next(candidates(max_rows, analysis=msgspec.structs.replace(analysis, weights=asked)), None) is not None:
                return f", take weights in steps of {1 / per:g}"
        return ""

    for parameters in candidates(max_rows):
        for kept in range(1, len(parameters.modulus_bits) + 1):
            try:
                return planned(parameters=parameters, kept=kept)
            except CapacityError as error:
                reason = error
    if reason is None and caps:
        others = coarser(analysis.weights) if analysis.weights else ""
        others += ", leave the interval out (--interval none; interval=None)" if interval else ""
        if privacy is None:
            others += ", or prove nothing (the study: proofs = false; row_caps=None)"
        elif privacy.unit == "label":
            of_rows = most(msgspec.structs.replace(privacy, unit="row"))
            others = f", or protect rows in place of labels (--epsilon-unit row: {of_rows:,} would do)"
        reason = CapacityError(
            f"row caps are proved modulo one prime, and {max_rows:,} pooled rows take more ({most(privacy):,} would do)"
            f": lower the row caps{'' if privacy else ' or --max-rows'}{others}"
        )
    raise reason or CapacityError(f"{max_rows:,} pooled rows take more than {MAX_PLAIN_MODULI} primes; lower max_rows")


def _candidates(backend: BackendName, least: int, small_prime: int, *, prove: bool) -> Iterator[BfvParameters]:
    """Yield ring, moduli and primes of a product from `least`: one prime where that does, or several small ones.

    These are the same on every chain that takes them, the shortest first. Where parties `prove` their counts there is
    one prime, the largest of its length: proofs are the shorter then.
    """
    *chains, large = CHAINS
    primes = primes_above(max(small_prime, least - 1), 1, large.ring_dimension)
    bits = primes[0].bit_length()
    if bits > _LARGE_BITS:
        counts = range(2, 2 if prove else MAX_PLAIN_MODULI + 1)
        several = (primes_above(small_prime, count, large.ring_dimension) for count in counts)
        primes = next((each for each in several if math.prod(each) >= least), ())
    elif prove:
        primes = primes_below(bits, 1, large.ring_dimension)
    if _SMALL_BITS < bits <= _LARGE_BITS:
        chains = [large]
    for chain in chains if primes else []:
        yield BfvParameters(backend, chain.ring_dimension, chain.modulus_bits, chain.special_bits, primes)
