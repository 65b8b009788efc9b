"""Plug-ins ``exact`` and ``verified``: the AUC as a fraction of integers, under BFV.

exact       the aggregator follows the protocol; what parties decrypt is the fraction and nothing else
verified    the aggregator may do what it likes: parties get the right fraction, a verified "undefined", or an error
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fhe_auc import bfv
from fhe_auc import thresholds as grids
from fhe_auc.counts import PartyData
from fhe_auc.errors import DeserialisationError, InputError
from fhe_auc.evaluation import Evaluation
from fhe_auc.exact_planner import ExactPlan, plan_exact
from fhe_auc.manifest import Manifest
from fhe_auc.planner import DEFAULT_SMUDGING_BITS, JOINT_KEYS_BACKEND
from fhe_auc.protocol import Delivery, Protocol, Request, Session
from fhe_auc.rlwe.backends import choose_backend
from fhe_auc.rounds import Aggregator, Party
from keys import rehearsal
from keys.errors import WrongContextError
from keys.holder import new_session_keys, party_secrets
from keys.roster import Roster
from protocols.verified.roles import ExactAggregator, ExactParty, VerifiedAggregator, VerifiedParty
from protocols.verified.task import ExactTask

ROUND_SCORES = "round_scores"


class Exact(Protocol[Evaluation]):
    """Plug-in ``exact``."""

    name = "exact"
    summary = "BFV: the AUC as an exact fraction; the aggregator sees ciphertexts only and is trusted to compute it"
    trust = "the aggregator computes what it should and does not collude with a party"
    boundaries = "boundaries-federated"
    options: ClassVar[Mapping[str, str]] = {
        ROUND_SCORES: f"round scores to so many decimals (1 to {grids.MAX_PLACES}), each of which is a threshold: "
        "the AUC is then exactly that of the rounded scores",
    }
    authenticated: ClassVar[bool] = False

    def prepare(self, request: Request) -> Session:
        """Plan, generate keys and name the session."""
        self.check_options(request.options)
        if request.keys not in ("sealed", "joint"):
            raise InputError(f"keys must be 'sealed' or 'joint', got {request.keys!r}")
        joint = request.keys == "joint"
        if request.smudging_bits is not None and not joint:
            raise InputError("smudging_bits is for joint keys only: there are no partial decryptions otherwise")
        if request.min_parties not in (None, len(request.parties)):
            raise InputError("here no party can be left out: min_parties does not apply")
        decimals = request.options.get(ROUND_SCORES)
        if decimals is not None:
            own = grids.decimals(_checked_decimals(decimals))
            if not any(np.array_equal(request.thresholds, each) for each in (own, grids.resolve(None))):
                raise InputError(f"with {ROUND_SCORES} every rounded score is a threshold: give no others")
            request = replace(request, thresholds=own)
        plan = plan_exact(
            thresholds=len(request.thresholds),
            parties=len(request.parties),
            max_rows=request.max_rows,
            ties=decimals is None,
            authenticated=self.authenticated,
            backend=choose_backend(request.backend or (JOINT_KEYS_BACKEND if joint else None)),
            joint_keys=joint,
            smudging_bits=DEFAULT_SMUDGING_BITS if request.smudging_bits is None else request.smudging_bits,
        )
        options = {} if decimals is None else {ROUND_SCORES: decimals}
        if joint:
            return Session(self.manifest(request, plan=plan, options=options), b"", b"")
        keys = new_session_keys(plan.parameters)
        manifest = self.manifest(request, context=keys.fingerprint, plan=plan, options=options)
        return Session(manifest, keys.aggregator, keys.party)

    def rehearse(self, session: Session) -> Delivery:
        """Play authority, key holder and sites in this process; return what each role would be given."""
        return rehearsal.joint(session) if session.manifest.joint_keys else rehearsal.sealed(session)

    def aggregator(self, manifest: Manifest, material: bytes) -> Aggregator:
        """Return the aggregator; `material` is a public context, or with joint keys a `keys.roster.Roster`."""
        self._check(manifest)
        if manifest.joint_keys:
            from keys.joint import JointAggregator  # needs OpenFHE
            from protocols.verified.joint import ExactComputation

            return JointAggregator(manifest, Roster.from_bytes(material), ExactComputation(manifest))
        kind = VerifiedAggregator if self.authenticated else ExactAggregator
        return kind(manifest, bfv.load_public(material))

    def party(self, manifest: Manifest, material: bytes, data: PartyData) -> Party[Evaluation]:
        """Return a party; `material` is `keys.holder.PartySecrets`, or with joint keys `keys.roster.PartyMaterial`."""
        self._check(manifest)
        task = ExactTask(manifest, rounded(data, manifest))
        if manifest.joint_keys:
            from keys.joint import JointParty  # needs OpenFHE
            from protocols.verified.joint import ExactComputation

            return JointParty.from_material(manifest, material, task, ExactComputation(manifest))
        try:
            secrets = party_secrets(material, manifest.context)
        except (WrongContextError, DeserialisationError) as error:
            raise InputError(str(error)) from None
        kind = VerifiedParty if self.authenticated else ExactParty
        return kind(manifest, bfv.load_secret(secrets.context), task, common_secret=secrets.common_secret)

    def attacks(self) -> Mapping[str, str]:
        """Return the red team's strategies."""
        from protocols.verified.red_team.strategies import STRATEGIES

        return {name: attack.description for name, attack in STRATEGIES.items()}

    def cheating_aggregator(self, attack: str, manifest: Manifest, material: bytes, *, rows: int) -> Aggregator:
        """Return an aggregator that plays a strategy of the red team; sealed keys only."""
        if manifest.joint_keys:
            raise InputError("attacks are played with sealed keys only")
        from protocols.verified.red_team.ciphertexts import lying_aggregator

        return lying_aggregator(attack, manifest, bfv.load_public(material))

    def _check(self, manifest: Manifest) -> None:
        plan = manifest.plan
        if not isinstance(plan, ExactPlan) or plan.packing.authenticated != self.authenticated:
            raise InputError(f"the session's manifest is not one for protocol {self.name!r}")
        # Without ties a result claims to be the AUC of all scores: only where each of them is a threshold is it that.
        places = manifest.options.get(ROUND_SCORES)
        own = places is None or np.array_equal(manifest.thresholds, grids.decimals(_checked_decimals(places)))
        if plan.packing.ties != (places is None) or not own:
            raise InputError(f"the session's manifest does not fit its {ROUND_SCORES}, {places}")


class Verified(Exact):
    """Plug-in ``verified``."""

    name = "verified"
    summary = "BFV with one-time authenticators: parties get the exact AUC, or an error; a liar passes below 2^-38"
    trust = "the aggregator blinds the result and does not collude with a party; what it computes is proved"
    authenticated = True


def rounded(data: PartyData, manifest: Manifest) -> PartyData:
    """Return a party's rows with scores rounded as the session says.

    Raises
    ------
    InputError
        A score does not lie between 0 and 1, where scores are rounded.
    """
    decimals = manifest.options.get(ROUND_SCORES)
    if decimals is None:
        return data
    outside = (data.y_score < 0) | (data.y_score > 1)
    if outside.any():
        row = int(outside.argmax())
        score = float(data.y_score[row])
        raise InputError(
            f"party {data.name!r}, row {row}: score is {score!r}; to be rounded, scores must lie in [0, 1]"
        )
    return PartyData.from_arrays(data.name, data.y_true, np.round(data.y_score, _checked_decimals(decimals)))


def _checked_decimals(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= grids.MAX_PLACES:
        raise InputError(f"{ROUND_SCORES} must be a whole number from 1 to {grids.MAX_PLACES}, got {value!r}")
    return int(value)
