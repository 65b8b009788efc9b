"""The sessions that a study takes, one after the other, and what is asked in each.

Who makes a session, and a site that answers it unasked, take this from the same functions: the one makes what
`next_session` says, the other asks whether a session is that, and nothing else (`differing`). Sessions of one turn are
numbered from 1 on (`Manifest.step`); a first one that finds thresholds serves all turns.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import msgspec
import numpy as np

from fhe_auc.base.errors import EvaluationError, FheAucError, InputError, UnknownProtocolError
from fhe_auc.question import thresholds as grids
from fhe_auc.question.analysis import PLAIN
from fhe_auc.question.study import Study
from fhe_auc.report.steps import next_step
from fhe_auc.results.asked import NOISY_COUNTS, Asked, ReportAsked, counts_by
from fhe_auc.results.evaluation import CensoringCurve, Outcome, QuantileThresholds
from fhe_auc.session import registry
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import ONE_TIME_PADS, backend_of
from fhe_auc.session.protocol import DEFAULT_MAX_ROWS, DEFAULT_MIN_ROWS, Request

_HISTOGRAMS = "histogram-"


@dataclass(frozen=True)
class Session:
    """One session of a study: its number there, and what is asked; `once`: its result serves all turns."""

    step: int
    protocol: str
    request: Request
    once: bool = False

    def named(self, manifest: Manifest, turn: int) -> Manifest:
        """Return the manifest of such a session as one of its study."""
        return msgspec.structs.replace(manifest, step=self.step, turn=0 if self.once else turn)


def asked_of(study: Study) -> Asked:
    """Return the question that a study's sessions answer together; raise `InputError` where it cannot be."""
    plugin = registry.evaluating(study.protocol)
    analysis = study.analysis()
    if not plugin.several and (not analysis.is_plain or analysis.cluster or analysis.heterogeneity):
        raise InputError(
            f"protocol {plugin.name!r} answers for one model over all rows: score-columns, by, classes, cluster and "
            "heterogeneity are for exact and verified"
        )
    options, report = _options(study), None
    if study.report:
        counts = _counts(study)
        report = ReportAsked(
            protocol=counts,
            options=options if counts in (study.protocol, NOISY_COUNTS) else {},
            threshold=study.decisions,
            cost_ratio=study.cost_ratio or None,
            alert_rate=study.alert_rate or None,
            min_cell=study.min_cell,
            title=study.title,
            bootstrap=study.bootstrap,
        )
    return Asked(
        analysis=analysis,
        thresholds=thresholds_of(study),
        interval=study.interval or None,
        protocol=study.protocol,
        options=options,
        report=report,
    )


def thresholds_of(study: Study) -> str | tuple[float, ...]:
    """Return the thresholds that a study names, or those of its protocol."""
    if study.score_values:
        return f"{grids.VALUES}:{study.score_values}"
    if study.thresholds:
        return study.thresholds
    asked, private = study.analysis(), study.report and "epsilon" in _options(study)
    options = registry.load(_counts(study) if private else study.protocol).options
    return options.thresholds_for(several=asked.coarse, compared=asked.compared)


def _options(study: Study) -> dict[str, bool | int | float | str]:
    return {**study.options, **({"epsilon": study.epsilon} if study.epsilon else {})}


def _counts(study: Study) -> str:
    """Return the protocol of a report's counts; raise `InputError` where the study's own adds noise to an AUC alone."""
    if study.protocol.startswith(_HISTOGRAMS):
        return study.protocol
    private = registry.evaluating(study.protocol).options.known.get("epsilon")
    if private is not None and private.required:
        raise InputError(
            f"report: protocol {study.protocol!r} is for an AUC alone. Leave protocol out: with an epsilon a report's "
            f"counts have the noise of {NOISY_COUNTS}"
        )
    return counts_by(_options(study))


def next_session(study: Study, sites: Sequence[str], outcomes: Sequence[Outcome]) -> Session | None:
    """Return the session that follows those with these outcomes, in their order; None: they are all.

    `sites` are those of the study that take part. Raises `InputError` for a study that cannot be, `EvaluationError`
    where outcomes tell that nothing can follow.
    """
    if len(sites) < (least := max(2, study.min_parties)):
        raise InputError(f"sites: {len(sites)} of the study's take part, and it takes {least} at least")
    asked = asked_of(study)
    found = next_step(asked, _base(study, sites), outcomes)
    if found is None:
        return None
    if "epsilon" in asked.options and "epsilon" not in found.request.options:
        raise InputError(
            f"epsilon: protocol {found.protocol!r} adds no noise, and a session of it would show exact counts"
        )
    once = not outcomes and finds_thresholds(study)
    return Session(len(outcomes) + 1, found.protocol, found.request, once)


def finds_thresholds(study: Study) -> bool:
    """Whether a first session finds the thresholds; of a study that cannot be, none does."""
    with suppress(FheAucError):
        return grids.quantiles_wanted(thresholds_of(study)) is not None
    return False


def check_study(study: Study) -> None:
    """Raise `InputError` where a session of a study cannot be, with the entry of its file, before anybody is asked."""
    if study.min_parties and not study.helper and registry.load(study.protocol).key_kinds():
        raise InputError(
            "min-parties: without a helper the session's keys are of all sites; name a helper, or leave it out"
        )
    if study.epsilon and study.protocol == "verified" and not (study.report or (study.rows and study.helper)):
        raise InputError(
            "epsilon: with verified, noise is sized for the rows that there are. Give helper, and the number of rows "
            "of each site, exactly: it is public (rows = { north = 770, … }); row-caps above it are no such number"
        )
    stand_ins, nobody = list[Outcome](), Outcome(protocol="", backend="", parties=2, security_bits=0)
    if (bins := grids.quantiles_wanted(thresholds_of(study))) is not None:
        grid = grids.explicit(np.linspace(0, 1, bins or grids.MIN_SIZE, endpoint=False))
        stand_ins.append(QuantileThresholds(**asdict(nobody), grid=grid))
    if (follow_up := study.follow_up) is not None:
        counts = np.zeros(follow_up.shape, np.int64)
        counts[0, 0] = 1
        stand_ins.append(CensoringCurve(**asdict(nobody), counts=counts, beyond=1))
    for known in range(len(stand_ins) + 1):
        if (session := next_session(study, study.sites, stand_ins[:known])) is not None:
            registry.load(session.protocol).manifest_of(session.request)


def differing(manifest: Manifest, session: Session) -> list[str]:
    """Return in what a session is not the one that a study makes, whatever its keys and its id are."""
    try:
        plugin = registry.load(session.protocol)
        plan = plugin.plan_of(manifest)
        backend = None if plan is None else backend_of(plan)
        own_library = session.request.backend is None and backend not in (None, ONE_TIME_PADS)
        request = replace(session.request, backend=backend) if own_library else session.request
        expected = session.named(plugin.manifest_of(request, manifest), manifest.turn)
    except UnknownProtocolError:
        return [f"protocol {session.protocol!r}, which is not installed here"]
    except (FheAucError, EvaluationError):
        return ["its plan"]
    return [name for name in Manifest.__struct_fields__ if getattr(manifest, name) != getattr(expected, name)]


def _base(study: Study, sites: Sequence[str]) -> Request:
    """Return what all sessions of a study have: parties, keys, and bounds on rows."""
    caps = {site: study.caps[site] for site in sites if site in study.caps}
    proves = study.helper and study.proofs and registry.load(study.protocol).proves_inputs
    most = study.max_rows or sum(caps.values()) or DEFAULT_MAX_ROWS
    return Request(
        parties=tuple(sites),
        thresholds=np.empty(0),
        min_parties=study.min_parties or None,
        analysis=PLAIN,
        keys="helper" if study.helper else "sealed",
        max_rows=most,
        min_rows=min(study.min_rows or DEFAULT_MIN_ROWS, most),
        row_caps=caps if caps and proves else None,
    )
