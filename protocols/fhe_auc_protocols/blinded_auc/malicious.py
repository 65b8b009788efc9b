"""AUC with an aggregator that may lie: the right AUC, or an error.  [FHE] §IV-D, corrected.

The circuit, rounds and keys are those of `semi_honest`. Parties encrypt masked shares of their counts (`masked_shares`)
in two runs of two executions each, under a mask that vanishes only in the sum over all parties
(`fhe_auc.session.ckks_computation`). They compare which result they were given (`fhe_auc_keys.roles.sealed`),
and accept it by `result_check.accept`. What this is worth against which attack: docs/security/ckks.md.
"""

from collections.abc import Sequence

from fhe_auc.base.errors import InputError
from fhe_auc.base.python_options import number
from fhe_auc.ckks import Slots
from fhe_auc.results.evaluation import Evaluation
from fhe_auc.rows.party_data import PartyData
from fhe_auc.session.ckks_computation import Sums
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.protocol import Request
from fhe_auc_protocols import options as options_of
from fhe_auc_protocols.blinded_auc.blinded_plan import CLASSES, AucPlan, least_tolerance
from fhe_auc_protocols.blinded_auc.blinded_protocol import BlindedAuc, BlindedTask
from fhe_auc_protocols.blinded_auc.encrypted_trapezoid import packed
from fhe_auc_protocols.blinded_auc.masked_shares import Run, runs
from fhe_auc_protocols.blinded_auc.result_check import accept
from fhe_auc_protocols.result_warnings import ALL_DIGITS

_LOOSE = 2.0  # times the planned tolerance: one from here on is worth a warning


class MaliciousTask(BlindedTask):
    """Splits a party's counts into shares, and accepts a result only if all executions agree.

    Raises `InputError`: the manifest's plan is not one for masked shares of all parties; or the party alone has more
    rows than the session may have.
    """

    def __init__(self, manifest: Manifest, data: PartyData) -> None:
        super().__init__(manifest, data)
        if not self.plan.split or manifest.min_parties != len(manifest.parties):
            raise InputError("the session's manifest is not one for masked shares of all parties")

    def encode(self, common_secret: bytes) -> list[Slots]:
        """Return the values of both runs, block by block."""
        counts = self.counts()
        return packed(self.plan, [run.vectors(counts) for run in self.runs(common_secret)])

    def read_result(self, decrypted: Sums, counted: Sequence[str], common_secret: bytes) -> Evaluation:
        """Return AUC and binning error; errors as `fhe_auc_protocols.blinded_auc.result_check.accept`."""
        accepted = accept(decrypted, self.plan, self.runs(common_secret))
        settings = {"executions": self.plan.runs * CLASSES, "tolerance": self.plan.tolerance}
        warnings = ALL_DIGITS, *_loose(self.plan)
        return self.evaluation(accepted, len(counted), *warnings, verified=True, settings=settings)

    def runs(self, common_secret: bytes) -> list[Run]:
        """Return the secrets of both runs, the same for every party of the session."""
        return runs(common_secret, self._manifest.digest, self.plan)


class Malicious(BlindedAuc):
    """Plug-in ``malicious``."""

    task = MaliciousTask
    name = "malicious"
    summary = "CKKS, counts split into masked shares, executed four times: parties get the right AUC or an error"
    trust = "the aggregator does not collude with a party or the key holder; that it computes what it should is checked"
    options = options_of.MALICIOUS
    split = True

    def tolerance(self, request: Request) -> float | None:
        """Return the option ``tolerance``, None for the planned one; `InputError` where it is no number."""
        if request.min_parties not in (None, request.size):
            raise InputError("min_parties does not apply: with malicious no party can be left out")
        tolerance = request.options.get("tolerance")
        return None if tolerance is None else number(tolerance, "tolerance")


def _loose(plan: AucPlan) -> tuple[str, ...]:
    """Return a warning where runs may differ by far more than they honestly do."""
    times = plan.tolerance / least_tolerance(plan)
    if times < _LOOSE:
        return ()
    return (
        f"the tolerance is {times:,.0f} times the planned one: a lying aggregator passes more often, and "
        f"may change the AUC by {plan.tolerance:g} unnoticed",
    )
