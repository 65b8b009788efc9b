"""Every format that leaves a process is pinned here: framed, signed, sealed and stored things, and files of text.

A test that fails here says that what was written before cannot be read any more, or reads differently. Where that is
meant, `fhe_auc.base.serialise.FORMAT_VERSION` goes up, or the version of that `KeptFormat`, and the line that changed is
written anew; where it is not, the code is wrong. Nothing is random: keys, times and certificates are fixed, so that whole documents can be pinned.
"""

# ruff: noqa: E501 - one format a line, so that a difference shows which one has changed

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fhe_auc.base import serialise
from fhe_auc.base.errors import BackendUnavailableError
from fhe_auc.bfv import BfvParameters
from fhe_auc.ckks import CkksParameters
from fhe_auc.machines import outcomes, site_state
from fhe_auc.metrics import CalibrationMap
from fhe_auc.question import thresholds
from fhe_auc.question.analysis import Analysis, Variable
from fhe_auc.question.fleet import Fleet
from fhe_auc.question.study import Study
from fhe_auc.results import calibration_file
from fhe_auc.rlwe import container
from fhe_auc.rlwe.polynomials import Polynomials
from fhe_auc.session.journal import Journal
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.messages import MESSAGE as MESSAGE_PURPOSE
from fhe_auc.session.messages import Message
from fhe_auc.session.party import Party
from fhe_auc.session.plan import EncodedPlan
from fhe_auc.session.vector_computation import VectorPlan
from fhe_auc.sums import opening, residues
from fhe_auc.sums.sketch import Sketch
from fhe_auc.sums.terms import Factor, Part, Release, Sum, Term
from fhe_auc_keys.bundles import announcement
from fhe_auc_keys.bundles import sealed_bundles as bundles
from fhe_auc_keys.bundles.announcement import announce, open_announcement
from fhe_auc_keys.bundles.roster import Contribution, PartyMaterial, Roster
from fhe_auc_keys.bundles.session_keys import PartySecrets, aggregator_material
from fhe_auc_keys.bundles.session_protection import SessionProtection
from fhe_auc_keys.fleet import device, helper, tables
from fhe_auc_keys.fleet import session as fleet_session
from fhe_auc_keys.fleet.aggregator import BlobFile, BlobList, FleetResult, Opened
from fhe_auc_keys.site import late_opening, made_sessions, policy
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.store import key_store, trusted_authorities
from fhe_auc_keys.store.budget import Entry, Ledger, Limit
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.trust import existing_certificate, group_sealing
from fhe_auc_keys.trust.authority import Authority, Issued
from fhe_auc_keys.trust.certificates import Trust, credential, verify
from fhe_auc_keys.trust.existing_certificate import Statement
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.member_lists import sign_list
from fhe_auc_keys.trust.sealing import PrivateKey
from fhe_auc_keys.trust.signed_documents import sign
from fhe_auc_protocols.blinded_auc.packing import Packing
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from fhe_auc_protocols.blinded_auc.workload import Workload
from fhe_auc_protocols.exact_auc.plan import ExactPlan

PACKAGES = ("fhe_auc", "keys/fhe_auc_keys", "protocols/fhe_auc_protocols", "benchmarks/fhe_auc_benchmarks")
ROOT = Path(__file__).parents[1]

MAGICS = {
    "fheaggk": "aggregator's keys",
    "fheamsg": "message",
    "fheanno": "session announcement",
    "fheansw": "answer kept",
    "fheauth": "authority with its private key",
    "fhebagg": "aggregator bundle",
    "fhebind": "key binding",
    "fhebpar": "party bundle",
    "fheclos": "list of whose submissions count, in a journal",
    "fhecred": "credential",
    "fheentr": "submission in a journal",
    "fhefhlp": "fleet's session",
    "fheflis": "list of a fleet's blobs",
    "fhefmem": "device's memory of its submissions",
    "fhefope": "fleet's opening",
    "fhefres": "fleet's result",
    "fheheld": "session held",
    "fheiden": "identity with its private keys",
    "fhekept": "opened session",
    "fhelate": "late opening",
    "fheledg": "privacy ledger",
    "fhemade": "session made",
    "fhememb": "signed list of a fleet's members",
    "fheopen": "opening of padded sums",
    "fhepoli": "policy",
    "fhereqs": "request for an opening",
    "fherlwe": "context or ciphertext",
    "fherost": "roster",
    "fheseen": "list of opened bundles",
    "fhestat": "party's state",
    "fhestor": "key store header",
    "fhetrus": "list of authorities",
}

_EXACT = "{analysis: Analysis, thresholds: int, interval: bool, average_precision: bool, authenticated: bool, parties: int, max_rows: int, joint_keys: bool, parameters: BfvParameters, kept: int, flooding_bits: int, smudging_bits: int, privacy: Privacy | None, helpers: int}"  # all with the fields of the first
LAYOUTS = {
    "aggregator.BlobFile": "[name: str, rows: int, digest: bytes]",
    "aggregator.BlobList": "[session: bytes, files: tuple[BlobFile, ...]]",
    "aggregator.FleetResult": "[session: bytes, opening: bytes, ciphertext: bytes]",
    "aggregator.Opened": "[session: bytes, blobs: bytes, verdicts: bytes, context: bytes, opening: bytes]",
    "analysis.Analysis": "{models: tuple[str, ...], by: tuple[Variable, ...], classes: tuple[str, ...], cross_groups: bool, heterogeneity: bool, min_cell: int}",
    "analysis.Variable": "{name: str, levels: tuple[str, ...]}",
    "announcement._Body": "[manifest: bytes, credentials: tuple[bytes, ...], not_before: int, not_after: int]",
    "authority.Issued": "[serial: str, name: str, signing_key: bytes, encryption_key: bytes, not_after: int, revoked: int]",
    "authority._StoredAuthority": "[key: bytes, certificate: bytes, register: tuple[Issued, ...], list_number: int]",
    "budget.Entry": "[data_set: str, protocol: str, epsilon: float, delta: float, unit: str, rows: int, at: int, refused: str, acknowledged: str]",
    "budget.Ledger": "[limits: dict[str, Limit], entries: dict[str, Entry]]",
    "budget.Limit": "[epsilon: float, delta: float | None]",
    "budget._Limited": "{data_set: str, epsilon: float, delta: float | None}",
    "budget._Line": "{event: str, time: datetime, session: str, outcome: str, by: str, spent: _Spent | None, limit: _Limited | None, ledger: Any}",
    "budget._Spent": "{data_set: str, protocol: str, epsilon: float, delta: float, unit: str, rows: int, refused: str}",
    "calibration_file._Content": "{format: Literal['fhe-auc calibration map'], version: Literal[1], "
    "method: Literal['bbq'], edges: list[_Share], probabilities: Annotated[list[_Share], msgspec.Meta(min_length=1)]}",
    "certificates._Credential": "[chain: tuple[bytes, ...], binding: bytes]",
    "computation.Result": "[counted: tuple[str, ...], content: bytes]",
    "container._Container": "[kind: str, fingerprint: bytes, payload: bytes]",
    "context.PublicKeys": "[parameters: P, public_key: bytes, relinearisation_key: bytes]",
    "context.SecretKey": "[parameters: P, public_keys_digest: bytes, secret_key: bytes]",
    "context.StoredPublic": "[parameters: P, public_key: bytes, relinearisation_key: bytes, rotation_keys: bytes]",
    "device._DeviceAnswer": "[session: bytes, rows: tuple[bytes, ...], members: int]",
    "device._Memory": "[salt: bytes, answers: tuple[_DeviceAnswer, ...]]",
    "existing_certificate.Statement": "{name: str, signing_key: bytes, encryption_key: bytes, certificate: bytes, not_before: int, not_after: int}",
    "existing_certificate._Binding": "[statement: bytes, certified: bytes, possession: bytes]",
    "fleet.Fleet": "{known_by: Literal['certificates'], members: int, root: bytes, row_cap: int, listed: bytes}",
    "group_sealing._Sealed": "[keys: dict[str, bytes], ciphertext: bytes]",
    "helper._HelperState": "[blobs: bytes, answer: bytes, material: bytes, members: bytes, response_keys: bytes, result: bytes, content_key: bytes]",
    "helper_roles.HelpedParty": "[identity: bytes, helpers: tuple[bytes], common_secret: bytes]",
    "helper_roles.HelpedSubmission": "[parts: tuple[bytes, ...], blobs: tuple[bytes], signature: bytes]",
    "helper_roles.HelperMaterial": "[identity: bytes, roster: Roster, helpers: Roster]",
    "helper_roles.Response": "[sealed: bytes, parts: tuple[bytes, ...]]",
    "helper_roles._Blobs": "[party: str, blobs: tuple[bytes], signature: bytes]",
    "helper_roles._Given": "[counted: tuple[str, ...], responses: tuple[Response]]",
    "helper_roles._OpeningUnderKey": "[left_out: tuple[str, ...], context: bytes, opening: bytes]",
    "helper_vectors._PadsOpened": "[left_out: tuple[str, ...], opening: bytes]",
    "identity._StoredIdentity": "[name: str, signing: bytes, encryption: tuple[bytes, bytes], credential: bytes]",
    "joint_keys._Share": "[secret: bytes, ephemeral: bytes, encrypted: tuple[int, ...]]",
    "joint_roles._Saved": "[share: bytes | None, state: _State]",
    "joint_roles._State": "[key_parts: tuple[bytes, ...], commitments: tuple[bytes, ...], secret_part: bytes, common_secret: bytes, result: bytes, partial: bytes, key_bytes: int]",
    "joint_vectors._MaskingState": "[private_key: bytes, secret_part: bytes, contribution: bytes, common_secret: bytes]",
    "key_store._StoreHeader": "[log2_cost: int, salt: bytes, tag: bytes]",
    "late_opening._Held": "[announcement: bytes, not_after: int, context: bytes, seeds: tuple[bytes, ...], request: bytes, opening: bytes]",
    "late_opening._OpeningBody": "[request: _Request, sealed: bytes]",
    "late_opening._Request": "[session: bytes, manifest: bytes, counted: tuple[str, ...]]",
    "local_randomisation.Tally": "[parties: int, reports: list[int], ones: list[list[int]]]",
    "made_sessions._Made": "[announcement: bytes, request: dict[str, Any], lifetime: int, successor: bytes]",
    "manifest.Manifest": "{protocol: str, session: bytes, parties: tuple[str, ...], grid: bytes, min_parties: int, keys: Keys, context: bytes, certificates: tuple[bytes, ...], aggregator: bytes, study: Study | None, plan: EncodedPlan | None, options: dict[str, bool | int | float | str], fleet: Fleet | None, common_secret: bytes, before: bytes}",
    "measure.Measurement": "{contender: str, parties: int, thresholds: int, runs: int, cpu: dict[str, float], wall: dict[str, float], before_bytes: int, upload_bytes: int, download_bytes: int, auc: float, exact_auc: float}",
    "member_lists._Listed": "[not_after: int, signature: bytes]",
    "message_sizes.ExactSizes": "{analysis: Analysis, thresholds: int, interval: bool, average_precision: bool, authenticated: bool, parties: int, max_rows: int, joint_keys: bool, parameters: BfvParameters, kept: int, flooding_bits: int, smudging_bits: int, privacy: Privacy | None, helpers: int}",
    "messages.Message": "[protocol: str, session: bytes, round: int, sender: str, manifest: bytes, payload: bytes, submissions: tuple[tuple[str, bytes], ...], signature: bytes]",
    "opening._Stored": "[release: bytes, ciphertexts: tuple[bytes, ...]]",
    "packing.Packing": "{slots: int, classes: int, bins: int, blocks: int, x_bits: int}",
    "parameters.BfvParameters": "{backend: BackendName, ring_dimension: int, modulus_bits: tuple[int, ...], special_bits: int, plain_moduli: tuple[int, ...]}",
    "parameters.Chain": "{ring_dimension: int, modulus_bits: tuple[int, ...], special_bits: int}",
    "parameters.CkksParameters": "{backend: BackendName, ring_dimension: int, modulus_bits: tuple[int, ...], special_bits: int, log2_scale: float, rotations: tuple[int, ...]}",
    "parameters.ExactParameters": "{analysis: Analysis, thresholds: int, interval: bool, average_precision: bool, authenticated: bool, parties: int, max_rows: int, joint_keys: bool, parameters: BfvParameters, kept: int, flooding_bits: int, smudging_bits: int, privacy: Privacy | None, helpers: int}",
    "parameters.RingParameters": "{backend: BackendName, ring_dimension: int, modulus_bits: tuple[int, ...], special_bits: int}",
    "party._PartyState": "[manifest: bytes, party: str, round: int, ended: bool, sent: bytes, bytes_sent: int, bytes_received: int, seconds: dict[str, float], own: bytes]",
    "plan.AucPlan": "{workload: Workload, parameters: CkksParameters, packing: Packing, blinding_bits: int, flooding_bits: int, smudging_bits: int, tolerance: float}",
    "plan.EncodedPlan": "[kind: str, content: bytes]",
    "plan.ExactPlan": "{analysis: Analysis, thresholds: int, interval: bool, average_precision: bool, authenticated: bool, parties: int, max_rows: int, joint_keys: bool, parameters: BfvParameters, kept: int, flooding_bits: int, smudging_bits: int, privacy: Privacy | None, helpers: int}",
    "policy.Policy": "{holder: str, protocols: tuple[str, ...], model: str, outcome: str, min_parties: int, max_thresholds: int, cohort: str, period: str, keys: tuple[Keys, ...], helpers: tuple[str, ...], max_days: int, max_row_cap: int | None, score_columns: tuple[str, ...], groups: tuple[str, ...], options: dict[str, Value | tuple[Value, ...]]}",
    "private_auc.Privacy": "{epsilon: float, unit: Unit, rows: tuple[int, ...], models: int, shares: int}",
    "protocol.NoisyCounts": "[parties: int, tp: list[int], fp: list[int], fn: list[int], tn: list[int]]",
    "roster.Contribution": "[parts: tuple[bytes, ...], signature: bytes]",
    "roster.Excerpt": "[parts: tuple[tuple[int, bytes], ...], digests: tuple[bytes, ...], signature: bytes]",
    "roster.Member": "[name: str, signing_key: bytes, encryption_key: bytes]",
    "roster.PartyMaterial": "[roster: Roster, identity: bytes]",
    "roster.Roster": "[members: tuple[Member, ...]]",
    "sealed_bundles.Kept": "[announcement: bytes, not_after: int, material: bytes, closed: bool, has_result: bool]",
    "sealed_bundles._AggregatorBody": "[announcement: bytes, sealed: bytes]",
    "sealed_bundles._BundleHeader": "[bundle_id: bytes, session: bytes, recipient: bytes, context: bytes, holder: bytes, not_after: int]",
    "sealed_bundles._PartyBody": "[announcement: bytes, header: bytes, sealed: bytes]",
    "session_keys.PartySecrets": "[context: bytes, common_secret: bytes, seed: bytes]",
    "session_keys._WithOpening": "[context: bytes, opening: bytes]",
    "sessions.Tallies": "[parties: int, positives: tuple[int, ...], negatives: tuple[int, ...]]",
    "signed_documents._Signed": "[credential: bytes, body: bytes, signature: bytes]",
    "site_state._Answered": "[message: bytes, submission: bytes, rows: bytes, party: bytes, question: bytes, size: int, rows_above: tuple[int, ...], submitted: bool, ended: bool, outcome: str, spent: dict[str, Any], noted: bool, found: bytes]",
    "sketch.Sketch": "{vectors: tuple[tuple[str, int], ...]}",
    "study.Study": "{model: str, outcome: str, cohort: str, period: str, row_caps: dict[str, int]}",
    "terms.Factor": "{parts: tuple[Part, ...], constants: tuple[int, ...], each: int, times: int}",
    "terms.Part": "{vector: str, over: Over, weight: int}",
    "terms.Release": "{sketch: Sketch, sums: tuple[Sum, ...]}",
    "terms.Sum": "{name: str, terms: tuple[Term, ...]}",
    "terms.Term": "{factors: tuple[Factor, ...]}",
    "trusted_authorities._StoredAuthorities": "[authorities: tuple[bytes, ...], intermediates: tuple[bytes, ...], lists: tuple[bytes, ...], places: tuple[str, ...]]",
    "two_party.EncryptedRecord": "[public_key: bytes, ciphertext: bytes]",
    "unencrypted_protocol.ClearSums": "[parties: int]",
    "vector_computation.VectorPlan": "{keys: Keys, thresholds: int, entries: int, parties: int, max_total: int}",
    "workload.Workload": "{thresholds: int, parties: int, classes: int, max_rows: int, min_rows: int, splits: int, joint_keys: bool}",
}

AT = datetime(2026, 1, 2, tzinfo=timezone.utc)
SESSION = bytes(range(16))
FINGERPRINT = bytes(range(32))

CKKS = CkksParameters("openfhe", 8192, (52, 51, 51), 60, 39.0, tuple(2**step for step in range(1, 12)))
BFV = BfvParameters("openfhe", 8192, (53, 53, 53, 53), 0, (2199023288321, 2199023566849))
SUMS = BfvParameters("openfhe", 8192, (54, 54, 54), 0, (2199023288321,))
PLANS = {
    "AUC": AucPlan(
        workload=Workload(thresholds=4, parties=2),
        parameters=CKKS,
        packing=Packing(slots=4096, classes=2, bins=4, blocks=1, x_bits=2),
        blinding_bits=29,
        flooding_bits=40,
    ),
    "sum": VectorPlan(keys="sealed", thresholds=4, entries=8, parties=2, max_total=1_000_034),
    "exact": ExactPlan(
        analysis=Analysis(models=("a", "b"), by=(Variable("sex", ("F", "M")),)),
        thresholds=4,
        interval=False,
        average_precision=False,
        authenticated=True,
        parties=2,
        max_rows=1_000_000,
        joint_keys=False,
        parameters=SUMS,
        kept=1,
        flooding_bits=40,
    ),
}

AUTHORITY_CERTIFICATE = b"""-----BEGIN CERTIFICATE-----
MIIBQTCB9KADAgECAgIQATAFBgMrZXAwFjEUMBIGA1UEAwwLSGVhcnQgU3R1ZHkw
HhcNMjUxMjMxMjM1NTAwWhcNMzUxMjMwMDAwMDAwWjAWMRQwEgYDVQQDDAtIZWFy
dCBTdHVkeTAqMAUGAytlcAMhAIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0
D29co2YwZDAfBgNVHSMEGDAWgBSa0Z4PFu73FMuQxvGV285m6UWA+TASBgNVHRMB
Af8ECDAGAQH/AgEAMA4GA1UdDwEB/wQEAwIBBjAdBgNVHQ4EFgQUmtGeDxbu9xTL
kMbxldvOZulFgPkwBQYDK2VwA0EADcH9rfDzFBEz6+bqvxq/G9W6H0YI7XNC4g6s
RU6H77D4zd1A0msqJtoEku1oJmjPhbYjKLrrJHPbVXbFIpfzDw==
-----END CERTIFICATE-----
"""
CERTIFICATES = {
    "north": b"""-----BEGIN CERTIFICATE-----
MIIGMDCCBeKgAwIBAgICEAIwBQYDK2VwMBYxFDASBgNVBAMMC0hlYXJ0IFN0dWR5
MB4XDTI1MTIzMTIzNTUwMFoXDTI3MDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFbm9y
dGgwKjAFBgMrZXADIQCBOXcOqH0XX1ajVGbDTH7My42KkbTuN6Jd9g9bj8mzlKOC
BVgwggVUMB8GA1UdIwQYMBaAFJrRng8W7vcUy5DG8ZXbzmbpRYD5MAwGA1UdEwEB
/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBRpaE5R2lXxblNcqtzAxcWs
F3PDpzCCBPIGFGmB/u2Hw8fB2qmrmqvDhfb4/pZhBIIE2DCCBNQwDQYLKwYBBAGD
5i2ByHoDggTBAKKITZ0zlSUThI3LEFOJn+oXRkjVU2IyxxACg6WkZsmUmFqorkM7
KMhWcrvhDTMQMStlcEdqkJJJvHUrDz6aVZBsCda1QTusgBrpMCBDk5obJTqiqN0n
DmHKHlzJxBi4Ar3To0IIeADSLf6Reb0Dp/WSwREUPAkwYgQJPmATfevYjPIaLnGM
LKmbnT7JXQqnfIT3ODICbbuMdjiYgCc7dIWlfJ5jvfNABuS8EpOUoCknklIlOSJH
EffISPHTkJpHa4CCsxnbjx5cWIVFofKHIjNHG53XkUzYzGTId9XjfykjOCImDVc2
JNxlFkzsd3ZCpzEgr1+qaXmoUEaiXEsbfB0EJVFJM3NRUcihyzRJo517m/PqwpD1
anrUExwaz/4WnUFLRY8Yc5WUwsu8WX3Df1LsUWMHi85FHR8AmtVQCYIyo3kCF23F
AQmQyWhIKS4LuSzLbcwJD3/mVxo7uK2KfIDYA/A6mbjRYbkMInFCi2XyrXIMh7rY
gQGVEUfoL9jgKFRytaoQKC5xC79jDpVIuKRpKlDQG86gaS3bR0t7aAJce6oyYhSQ
pBQmsx3aY+4VOZVgXPCyY6mspIc1dRlBwUWwn1+FXLPwQVEjeRtoz04lFycpZHAU
g4V1D0pqaJhxc8wJLXmRuHciJ6ArtGmjdLv5pB5ma/z6kV0rVDm8sSjcSPy3rtFG
bGv1mSHGeNZqjdjaYjG2gRC3sddgmNbSDQrsfYzXkRTWez5AwOy5iqwZbitGNC+V
G3CYGY6QsE1hmsQIu82ELH+UUm8oBqJZybEjVr8aVZtUH/dxRUbME83ipY5gwLJS
XbkpupS3v2t7It/ItmlIA8JzfPYcNsNRA+n7KxuWaSwCYOugNk6crGblBmcAtxUR
WyGZpwLIkiUkRUAXqJcxoYaiV7KQIq5Gjo95Lw8ilQlnNyOpBqmFrxvDMnZBfHIw
y0ZShI/DCne2RcdFtW2Gebp8PGU8fF/Lhcr8Qmdwyv+iH9RSv4cQrhIWxkPZL/pE
a9pBTmLgTOG6rfEcZLs8uUPYls7nJAfMEJNkUdqlzs7iO9pzHCw3JxEIvagBPufH
CEOXTP4DTp3ho+PTjh9rPZvLLLUDWKSyvheEIy6VEk21FI9AizKZww8mfHXHg+XD
dE06v4IAsl2VyTgoq8zxwryTEbl6PQcBTFeLYk0wj8Wzu12FjfezwPlruaS7vNLK
AFbsf8UmB4CJwTjUWh5GOx7XAIZoVdy3SugkqWfILtwJKhTwe8dEpo0TaG03ioPW
iTpYt7HiUlxJPWURE8IYVAJAesXgKGA4oVv7nOCBBYB4OlFyCt40blVYmXqWS+J8
luD0sbronYJahZmikGR0WGDzwNbKkh8KRMI5zUUGAM1bAniSKtQjvJxpqb4kd6kG
ZjhayKKGwtJZYEYaQ36lIaBGlKO1IfpGtoAzF86gGLWDSmZ8jRzXtI9bOcgqgZ7V
O95mWmGGtzQFFaUHgBxoCH7lIB6Lle7jhANBMGLJk3sSyzSzCovbU9nYzB4cHjog
SnroLZOZFdpSCDpmvN9oxZBl9u+4HJZcFt4JgvfhxHwLTSLTgpf9uzvIXf7dO2vU
f2+ijuFdlp1bsOpTd01Ii9r53xxuASSz7yIwBQYDK2VwA0EAPbtcx+tRQkaEXcJ6
Q2Izjn2BfYGEwoC0RMvcEbsQwHwaH1iWUWpd4muQLkRricA/FhSVJNBzPXyl9WNR
gI9NCQ==
-----END CERTIFICATE-----
""",
    "south": b"""-----BEGIN CERTIFICATE-----
MIIGMDCCBeKgAwIBAgICEAMwBQYDK2VwMBYxFDASBgNVBAMMC0hlYXJ0IFN0dWR5
MB4XDTI1MTIzMTIzNTUwMFoXDTI3MDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFc291
dGgwKjAFBgMrZXADIQDKk6wXBRhwcdZ7g8f/Dv6BCOjsRTBXXXcmh5Mz29q+fKOC
BVgwggVUMB8GA1UdIwQYMBaAFJrRng8W7vcUy5DG8ZXbzmbpRYD5MAwGA1UdEwEB
/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBQZpZfVVh97+kKAfVPJm97G
I/SZnjCCBPIGFGmB/u2Hw8fB2qmrmqvDhfb4/pZhBIIE2DCCBNQwDQYLKwYBBAGD
5i2ByHoDggTBAO2izFl3QL2MQdyQPaWTI7w0O/MCAO94sL+Mp70ojOsrZk4Xpcps
Mc7AXG7xJdUzBKM1W9jgt+ympDBKZcGmOEVMJJdJE0emN5zrJ55nlCJjrjcrGsAJ
ljJZiLPIOgCYHQjTM6+lLVijuSKzmos3W0SDudVDSSeawCtaqMMUlE5KvY7kezbj
oUZcCiCIiIfxvwy7OPjJkUWmTXPzA71zobWzj6MSdjKQVlMLEQP0tsohPEoUkZ+g
hszJubvJw0grEmoci0ZxvK4xTzmwWCaJuKmBVjkMB4gyJ28kCf9KAniaEqistSkz
reeafqjUBNb1oVljogm1kveUC27wReyWX7l4BbN2R9Tzj3vGoTd0aE3QTHQ3hYXR
QVvHS8XcV7QzZmYWz6T3eAPQoJPKaW4cHEpbK11ylSwTtfhKsS0iV5YTYQbaz7d7
Ko/5BVfJpIuTRbXgf43TvYkmKawJPZfDnaA1EV98fB34kbUAxth0aRvVen+WOozx
hesCQmbrHY2wSNRnLsJYhLHRR2qWhKcFQn0gFeelq7nspgWQuMB1OsW4nigKwlSB
TRVLDtVQjNKcab+Sn3kMLfeIP0iwvvTwGPCYvg8QgHjTKKYQM//bmlkVMxx1ajhh
Rf4ziTcWFvvBpJmZBDiyhHJXVq68Uz8HPGO2UDbLPJ6zz25Qjww8FNm3qwY0Un+o
lLl4XVrkNabhFZ+4AbWhZR+SQlnZwHZIDObAYawEjcKAKJvwHqwxwLySXafaVVdb
qSL1dh93rEEMhHyQjq4UrXc7jYCCXeVVPoAig94IF+yXNElsuGE3ysYSMQKXrl9G
SP3bOPPWniWLuny5Oa0xhLGZh+OQn96maYKRqnYGYUWZLGh2dGGhyEsTm2uAPN14
VbCzSZ/1yJBwhxF2PuUFx8gCVkUZCXuJtRMnhiyasepHJSZKLYGlnKEIokz3N3Kp
TMxRg9zWM1U4bcLlCUB0VSwrgOqDOvjnot0xQuQmaxw3IMV3Q5y2onDlzQgXwa3c
NqE7L/tIjt3SkeDkaw2EWVBHH29LdObKsuepIsvSVmSCDL8lYvmoGsv7s74wKckH
pxfsgf9oZ9Hky4RGylYnV63XP8y8fIOptsxDgLErSRPTaUZsx1zlwZJAe+P3MoGZ
aVC4xsAyHzz7Cya6IEKpzHcmzJnInrwHMmbCpjTcFb9Gi6+ZLPXwjdKkxbWQen97
pQC5uLViLN7yJDj7okmHqVPsdEnafV/ihP50nD2oHt6FpWyMSmSpXQREIaH4BvD1
JlQRfOSUMiAsLmxIbLcSa1K7TpsbsEJRJ3S6FP/mIWRAckY4n5ciIiSGZPJlSHHX
Y0nGutLkTKaFg4B0EH/1RiYaNH3YW6ums+h5dUp3BjJnX4DadldyWdfBvwqihaCE
ur4xL/TmfRlKXQHjj6a0ARfbS9HCiP5Qy6PXOIeDzGnJfiHiy1IXQddThxrKq29q
INK3kjJHzJo4zJIKuVHgC0JbNx/EjTa7ElqgFoJEDH+avGhFLq+YWXUwpkQjXVyM
gz6qkW8XRuo0Okiq+b92GVnLdpKqGA68OA5F3SFnt1E83/9SoS0YZU7qUKYUCbHd
0DJemxa3AOcZ6XcsBwALG9d4bpB8ZT0gSV0wBQYDK2VwA0EAd227GPhORvN6hkp8
CAVY8mY/07YwF3RAZ2JQ3m29Ar0XSybeCkvr8dtqKfFTTCMicE6GYRUyzjf4+kdW
RyQwAw==
-----END CERTIFICATE-----
""",
    "adder": b"""-----BEGIN CERTIFICATE-----
MIIGMDCCBeKgAwIBAgICEAQwBQYDK2VwMBYxFDASBgNVBAMMC0hlYXJ0IFN0dWR5
MB4XDTI1MTIzMTIzNTUwMFoXDTI3MDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFYWRk
ZXIwKjAFBgMrZXADIQCKh1//HrOEUVd6zVr+5AVFZWjdfIngkIY6BVe8evSfF6OC
BVgwggVUMB8GA1UdIwQYMBaAFJrRng8W7vcUy5DG8ZXbzmbpRYD5MAwGA1UdEwEB
/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBRzeKXLvR4bOEgOWM/IHbLU
Rv0MWzCCBPIGFGmB/u2Hw8fB2qmrmqvDhfb4/pZhBIIE2DCCBNQwDQYLKwYBBAGD
5i2ByHoDggTBAJJaJwCtBk/3eLTaTPUUV6SCJKUnUSUKjuELJRyBi6/KxvQSHqMk
ivj8qNfkayGbby84GJ20CQ1nggP8HkdIIrJoOPSBr786jyxDz3MAs573MGQ6P3vi
YOGVRJgZY+O1d6D6uC+TJqJaNMxbSOgTUdpyK7F3rvsbmCmycCM8aVW0Gr6lJjnn
ktN2TdOpfkyamKusAbXpucpDyIqmcjtbrmDjHC6rEW4pGKgwwY3TD994LA7IiUFG
qqthxeBZOmkZmfsHNuCrCQqYNeGwZztzkFErMpmREZF7YQw3kQP1O0i2xDKMzSLg
RouGdD9bjgRiWDwIqiSDp8poyAx3VlArXY0DVTBIfAQMRwp3mZ0gNxRINWoDKdFn
P3ICiA8AG17Bx0yhRDzjJYC7rKY6JEsUjumHmjjGbsyacL45zh9rDZiBBZXlX+1R
oR5UHzYBtJH8AH1Hrt6Qjc8sVrjZKmCIpuUYVg4nlWiFOGb6b2izZ5XzeOygbiwI
E57IkNjJmTX6Ke+6F5jsa5Q1qUJkNMz6w050fpeytLMTcRTzBXdETcH3CdVxNSFs
UrRYDUACTUDlzDkLiXiRIhTgyJI1NCVjpXrpzQFGCMQEwLOroThhrc7JV+NYyhTY
hsqkcfX1qhywWvLAZhD0SvNIMuZlaDZQnL+qn23DtXuqM04HVrK8GcWEv4OKxzTT
IH1ZsDSYomXlOTokUtKnTlhlZkK1NDsqgKOqxuzDx/MFbSOYY+mGKw88AJsJRTXM
m56BOEkXSfs0sFdsBxbaFcMbNsvie22FcoKhtXeJcTmROhKxi+zEJExCjI0GjbYC
gtWoemvQnpcCatjZcYY3miAwJ7aToq3oIwbFpdrpswiHuL0EijJGrgsgi6b5TXTl
ZfaTHcuFkk9kuY4rb8DpMNq5bFH4bBUiz/9HOTtgxRQpW8IhB8CzbgYcv0XSg01j
a8t3j3GBRxZEqEsmVB+gUjDXTMfjgr6wurxJp/BaFVKTjyTxBjmgplcxnnW5T5Qg
EmyhKZfhx69QVoLBUNImQYiiv9zmGz/8N29JYtI5jbGUBfcVGgZqTFBsWN+3ol4I
FhpWfxLFGTVXgcJzGZ7IxWPJwlcXRNUypeh6TsOck66EsEfoN5uUfRmmPF9pYnlE
GQLqU2AIPSY3o23As9z1UcH8ie+LoHE5P2iBHDZYpkTKz/wzOkrwv0RSSXS3fTdJ
gMEWMAz2sotrW0v8PxTcgdcpS9M4UGvXscrYryhMMKbTjm8VNOHHjDnFIis5WeGc
p4nFgFBCNW/Dvg38QFgrOfYyE6C2pmSjIDTJRExmrZ9WRHgIDQXbSKUcnhCYgC8M
noI6s5xIZo0kMZLitLBCnuN5UgSLd7QnIXF6bud3R0vDyY8GkMdYlLIUbIZCHyn6
RAngA6W7ZrH5CWcquBhqBAEstHpXdicAPVYzszYJkQBjw8UTMfQEADdoKX2zvTHh
ZVG1L2zUitBFiuzrtKjmOTXXZ0OwTTrIB8N8MWiQWh06Lv0nxWWUsf5yVNLmf3+h
hyNlzd40MDwDq8EglAZigU563+Bpl9ZStAAfxhLCt8/KoAZ8I4qUKFekE75P6ury
BMf9M1j8nAByGIHRdCeBKCJ+xnTzf3/pe20wBQYDK2VwA0EA9BT+L0ZT0j8ozXT5
1isKacPt+ZR1aqZ7r/CL8oPWNeZj6HWI84BD9lSFUiDwLLxjmTSVDuZFEslDIgyT
WWX/CQ==
-----END CERTIFICATE-----
""",
}
REVOCATION_LIST = b"""-----BEGIN X509 CRL-----
MIG9MHECAQEwBQYDK2VwMBYxFDASBgNVBAMMC0hlYXJ0IFN0dWR5Fw0yNTEyMzEy
MzU1MDBaFw0yNjAxMzEwMDAwMDBaoC8wLTAKBgNVHRQEAwIBATAfBgNVHSMEGDAW
gBSa0Z4PFu73FMuQxvGV285m6UWA+TAFBgMrZXADQQDRygLVCUbm9tVyuAvTTn5F
udPjhwuWocL782JiUx2klLTEXwtyNnF6EvoOcpScT7ZELxrZRP8+VyfX/tr1TfgL
-----END X509 CRL-----
"""

TRUST = Trust.from_pem(AUTHORITY_CERTIFICATE, (REVOCATION_LIST,))


def _identity(name: str, seed: int) -> Identity:
    signing = Ed25519PrivateKey.from_private_bytes(bytes([seed] * 32))
    encryption = PrivateKey.from_components(bytes([seed + 1] * 64), bytes([seed + 1] * 32))
    return Identity(name, signing, encryption).certified(CERTIFICATES[name])


NORTH, SOUTH, ADDER = _identity("north", 2), _identity("south", 4), _identity("adder", 6)
PEERS = [verify(each.credential, TRUST, at=AT) for each in (NORTH, SOUTH)]
ROSTER = Roster.of(PEERS)
MESSAGE = Message("semi-honest", SESSION, 2, "north", FINGERPRINT, b"payload", (("south", FINGERPRINT),), bytes(64))
RELEASE = Release(
    Sketch((("p", 2), ("n", 2))),
    (Sum("s", (Term((Factor((Part("p"), Part("n", "below", -2))), Factor(constants=(1, -3)))),)),),
)
STUDY = Study(
    model="sepsis-net 2.1", outcome="sepsis", cohort="adults", period="2025", row_caps={"north": 5000, "south": 70_000}
)
LEDGER = Ledger(
    {"rows": Limit(4.0, 1e-6)},
    {SESSION.hex(): Entry("rows", "verified", 0.5, 0.0, "row", 1_800_000_000, "VerificationError", "Ada Osei")},
)
POLICY = Policy(
    holder="north",
    protocols=("verified",),
    model="sepsis-net 2.1",
    outcome="sepsis",
    min_parties=2,
    max_thresholds=16,
    options={"interval": 0.95, "epsilon": (0.25, 0.5)},
)
CONTRIBUTION = Contribution.sign(NORTH, SESSION, 2, (b"first", b"second"))


def _manifest(plan: str | None = None) -> Manifest:
    return Manifest(
        protocol="semi-honest",
        session=SESSION,
        parties=("north", "south"),
        grid=np.array([0.0, 0.25, 0.5, 0.75]).astype("<f8").tobytes(),
        min_parties=2,
        keys="sealed" if plan else "none",
        context=FINGERPRINT if plan else b"",
        common_secret=bytes(32) if plan else b"",
        plan=EncodedPlan(PLANS[plan].kind, serialise.encode(PLANS[plan])) if plan else None,
        options={"epsilon": 0.5},
    )


class _Scribe(Party):
    """A party that has nothing to send, for the state that all parties have."""

    rounds = 1
    download_limit = 0

    def _answer(self, round_number: int, payload: bytes) -> bytes:
        return b""


def _fleet() -> Fleet:
    known = np.arange(96, dtype=np.uint8).reshape(3, 32)
    return Fleet.of(known, row_cap=20, listed=sign_list(Authority.from_bytes(_authority()), known, at=AT))


def _authority() -> bytes:
    key = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
    issued = Issued("1002", "north", NORTH.signing_key, NORTH.encryption_key, 1_800_000_000)
    return Authority(key, x509.load_pem_x509_certificate(AUTHORITY_CERTIFICATE), (issued,), 1).to_bytes()


def _statement() -> Statement:
    return Statement(
        name="north",
        signing_key=NORTH.signing_key,
        encryption_key=NORTH.encryption_key,
        certificate=FINGERPRINT,
        not_before=1_700_000_000,
        not_after=1_800_000_000,
    )


def _header() -> bytes:
    return serialise.encode(
        bundles._BundleHeader(SESSION, SESSION, FINGERPRINT, FINGERPRINT, FINGERPRINT, 1_800_000_000)
    )


def _binding() -> bytes:
    binding = existing_certificate._Binding(serialise.encode(_statement()), b"certified", b"possession")
    return existing_certificate._FORMAT.frame(binding)


def _announcement() -> bytes:
    shown = [each.credential for each in (NORTH, SOUTH)]
    return announce(
        NORTH,
        _manifest("AUC"),
        shown,
        TRUST,
        aggregator=ADDER.credential,
        study=STUDY,
        lifetime=timedelta(days=3),
        at=AT,
    )


def _trusted() -> bytes:
    stored: dict[str, bytes] = {}
    store = SimpleNamespace(put=lambda kind, name, data, replace: stored.update({f"{kind}/{name}": data}))
    trusted_authorities.Trusted(TRUST.anchors, (), TRUST.revocation_lists).keep(store)
    return stored["trust/own"]


def _file(write: Callable[[Path], None], name: str) -> Callable[[Path], bytes]:
    def written(folder: Path) -> bytes:
        write(folder / name)
        return (folder / name).read_bytes()

    return written


def _journalled(folder: Path, what: str) -> bytes:
    with Journal(folder / "journal") as journal:
        journal.add(1, "north", b"submission")
        journal.close_round(1, ("north",))
    return (folder / "journal" / f"round-1.{what}").read_bytes()


VECTORS: dict[str, Callable[[Path], bytes]] = {
    "manifest, nothing encrypted": lambda _: _manifest().to_bytes(),
    "manifest, AUC": lambda _: _manifest("AUC").to_bytes(),
    "manifest, sum": lambda _: _manifest("sum").to_bytes(),
    "manifest, exact": lambda _: _manifest("exact").to_bytes(),
    "digest of a manifest": lambda _: _manifest().digest,
    "message": lambda _: MESSAGE.to_bytes(),
    "state of a party": lambda _: _Scribe(_manifest(), "north").saved(),
    "whose submissions count": lambda folder: _journalled(folder, "closed"),
    "submission in a journal": lambda folder: _journalled(folder, "submissions")[8:],
    "container of a ciphertext": lambda _: container.seal("ciphertext", FINGERPRINT, b"payload"),
    "name of a CKKS context": lambda _: CKKS.fingerprint(FINGERPRINT),
    "name of a BFV context": lambda _: BFV.fingerprint(FINGERPRINT),
    "packed polynomials": lambda _: Polynomials(2, (65537, 257)).pack(np.array([[65536, 1], [256, 2]], np.uint64)),
    "polynomial from a seed": lambda _: Polynomials(4, (65537,)).pack(Polynomials(4, (65537,)).uniform(FINGERPRINT)),
    "release of sums": lambda _: serialise.encode(RELEASE),
    "opening of sums": lambda _: serialise.frame(
        opening._MAGIC, opening._Stored(opening._digest(RELEASE), (b"sealed",))
    ),
    "packed residues": lambda _: residues.pack(np.array([1, 2, 65536], np.uint64), 65537),
    "secrets of a party": lambda _: serialise.encode(PartySecrets(b"context", FINGERPRINT, FINGERPRINT)),
    "aggregator's material with an opening": lambda _: aggregator_material(b"context", b"opening"),
    "request for an opening": lambda _: late_opening.request(ADDER, _manifest(), ("south",)),
    "late opening": lambda _: sign(
        late_opening.OPENING_KIND,
        NORTH,
        late_opening._OpeningBody(late_opening._Request(SESSION, FINGERPRINT, ("south",)), b"seal"),
    ),
    "fleet": lambda _: serialise.encode(_fleet()),
    "device's memory": lambda _: device._FORMAT.frame(
        device._Memory(FINGERPRINT, (device._DeviceAnswer(SESSION, (FINGERPRINT,), 1000),))
    ),
    "fleet's session": lambda _: helper._FORMAT.frame(helper._HelperState(FINGERPRINT, b"answer", b"key")),
    "opened session": lambda _: bundles.Kept(b"announcement", 2**31, b"secrets").to_bytes(),
    "session held": lambda _: late_opening._FORMAT.frame(
        late_opening._Held(b"announcement", 2**31, b"context", (FINGERPRINT,))
    ),
    "session made": lambda _: made_sessions._FORMAT.frame(
        made_sessions._Made(b"announcement", {"keys": "joint"}, 3600)
    ),
    "answer kept": lambda _: site_state._FORMAT.frame(
        site_state._Answered(b"asked", b"sent", FINGERPRINT, b"party", b"", 900, (), True, False, "", {})
    ),
    "signed list of a fleet's members": lambda _: _fleet().listed,
    "list of a fleet's blobs": lambda _: sign(
        fleet_session.LIST, NORTH, BlobList(FINGERPRINT, (BlobFile("blobs-000000.parquet", 2, FINGERPRINT),))
    ),
    "fleet's opening": lambda _: sign(
        fleet_session.OPENING, NORTH, Opened(FINGERPRINT, FINGERPRINT, bytes([0, 3]), b"context", b"opening")
    ),
    "fleet's result": lambda _: sign(fleet_session.RESULT, NORTH, FleetResult(FINGERPRINT, FINGERPRINT, b"ciphertext")),
    "columns of a fleet's files": lambda _: "; ".join(
        ", ".join(f"{each.name} {each.type}" for each in schema)
        for schema in (tables.RECORDS, tables.BLOBS, tables.RESPONSES)
    ).encode(),
    "what a fleet's sketch is sealed for": lambda _: fleet_session.sketch_info(FINGERPRINT, 7),
    "what a fleet's blob is sealed for": lambda _: fleet_session.blob_info(FINGERPRINT, 7, FINGERPRINT),
    "what a fleet's member signs": lambda _: fleet_session.signed_of(b"blob", b"about"),
    "identity": lambda _: NORTH.to_bytes(),
    "credential": lambda _: credential(CERTIFICATES["north"], b"binding"),
    "key binding": lambda _: _binding(),
    "fingerprint of a key binding": lambda _: _statement().fingerprint,
    "authority": lambda _: _authority(),
    "roster": lambda _: ROSTER.to_bytes(),
    "name of a session with its roster": lambda _: ROSTER.binding(_manifest()),
    "material of a party of a joint session": lambda _: serialise.encode(PartyMaterial(ROSTER, b"identity")),
    "contribution": lambda _: serialise.encode(CONTRIBUTION),
    "excerpt": lambda _: serialise.encode(CONTRIBUTION.excerpt(1)),
    "announcement": lambda _: _announcement(),
    "signature of a message": lambda _: SessionProtection(FINGERPRINT, {}, {}, NORTH).sign(
        MESSAGE_PURPOSE, b"statement"
    ),
    "statement of a message": lambda _: MESSAGE.statement,
    "aggregator bundle": lambda _: sign(
        bundles.AGGREGATOR_KIND, NORTH, bundles._AggregatorBody(b"announcement", b"seal")
    ),
    "party bundle": lambda _: sign(bundles.PARTY_KIND, NORTH, bundles._PartyBody(b"announcement", _header(), b"seal")),
    "list of authorities": lambda _: _trusted(),
    "privacy ledger": lambda _: LEDGER.to_bytes(),
    "policy": lambda _: policy._FORMAT.frame(POLICY),
    "list of opened bundles": lambda _: key_store._SEEN_FORMAT.frame((SESSION,)),
    "calibration map": _file(
        lambda path: calibration_file.save(path, CalibrationMap([0, 0.5, 1], [0.1, 0.7])),
        "map.json",
    ),
    "thresholds": _file(lambda path: thresholds.save(path, [0.0, 0.1, 0.5]), "thresholds.txt"),
    "outcome": _file(lambda path: outcomes.write_json(path, {"party": "north", "auc": float("nan")}), "result.json"),
}

PINNED = {
    "manifest, nothing encrypted": "8fa870726f746f63... 239 bytes, SHA-256 2248c739cdf391fa4a1c5ad8e178c46af136d42e6d68732c480fb57603006927",
    "manifest, AUC": "8fa870726f746f63... 646 bytes, SHA-256 046cbe17e2212dbf22a59a120e51fbe661809b328b2b64e3d9a52619d56961c5",
    "manifest, sum": "8fa870726f746f63... 377 bytes, SHA-256 ca3c82ac6b93e28392108d7c5a31125736dc34f8853600f14e5ab37f34425762",
    "manifest, exact": "8fa870726f746f63... 661 bytes, SHA-256 3a1ddd05c8e09ee4602a92d2f382c922a75afad58d5ed03ae8f3c95f27d38550",
    "digest of a manifest": "7ac10246a9bb652b837d012bcee2ca2f13725e30ebe66de79e61b21297bc512b",
    "message": "666865616d736703... 229 bytes, SHA-256 54c2b5f2175c37745508eb4b92d3ad306e4e7bea6e7460702b388bd4d7e1e83d",
    "state of a party": "6668657374617403... 90 bytes, SHA-256 735f953105dcd9581373e26d9f9eee0b65d92573ab3ca4805903177d34098955",
    "whose submissions count": "666865636c6f730356ef9d21be569a92295045c2aeaf2b86e947b53ba6e04172c07d102250278f9f91a56e6f727468",
    "submission in a journal": "666865656e7472034138e55caf597a3ec1c06629bda14135991123a70fdcd6173062eb1e1e518b5a92a56e6f727468c40a7375626d697373696f6e",
    "container of a ciphertext": "666865726c776503... 95 bytes, SHA-256 76894307929d4cd0a2cc4e3808c5fcd65d3da3644c64ac0064b0624b30026844",
    "name of a CKKS context": "b02b66d1a658db3309f63e2da1730fc84a00860d1de7709c345c7dc76413cb5c",
    "name of a BFV context": "62bc73d271890b44df78cdc7ace41e7e3e309b3087627aed51c67690814b5b6c",
    "packed polynomials": "00000101000000010200",
    "polynomial from a seed": "cedb00f8d90005d800e9d800",
    "release of sums": "82a6736b65746368... 180 bytes, SHA-256 12a4cd97941d4a9ad9eed3e70555859317243d85ae1ef5d67732b8d0c788fb14",
    "opening of sums": "6668656f70656e03... 84 bytes, SHA-256 88339d74ec3c736162a4d0af921ba20a478dfcedd94221a0be6c2109ea19164c",
    "packed residues": "01000400000004",
    "secrets of a party": "93c407636f6e7465... 78 bytes, SHA-256 576717f8f320b719b87ed2eacc9f6088d7c9c108628799b1d750e0b828aa9875",
    "aggregator's material with an opening": "6668656167676b03d27a5f93d5b9e4963d34b23caec0161708f16f5acf50e6c919baccdac25c18b892c407636f6e74657874c4076f70656e696e67",
    "request for an opening": "6668657265717303... 1807 bytes, SHA-256 422eaabb5afc1a8d0114218ca0d2399e2d29166b49319f35c4cdb5bece8e142c",
    "late opening": "6668656c61746503... 1814 bytes, SHA-256 e317e157742f0d998f93266b118c53eec48ec79b94f8f3b7f55c6ff3267d659b",
    "fleet": "85a86b6e6f776e5f... 201 bytes, SHA-256 4835f3caf001f2f34c12ac86bce344efc96fc06f82bfd5e376e97550e24a1873",
    "list of a fleet's blobs": "666865666c697303... 1840 bytes, SHA-256 070e8188e0f2a0183b83ed44c5161dc680c39cf9e93ad9f75435424f6c0ae80b",
    "fleet's opening": "666865666f706503... 1838 bytes, SHA-256 563c2627639310ee1012f25d11fdcd5c144bf6c8c5b0b911b4f9df630381b207",
    "fleet's result": "6668656672657303... 1828 bytes, SHA-256 d940625080239549729755934d71f4ea8d66e30236fc37ba61e9e92c0001dece",
    "columns of a fleet's files": "6d656d6265722075... 171 bytes, SHA-256 4193ca293551198bfb83d1ac674b468b3561d0aa0f154e2552753b290771d607",
    "what a fleet's sketch is sealed for": "93c410666c656574277320736b657463682031c420000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f07",
    "what a fleet's blob is sealed for": "94c40e666c656574... 86 bytes, SHA-256 52031025fff2fa7480a3ee1216ee1adafbceb096af4ff2b366c906ea9d52b89a",
    "signed list of a fleet's members": "6668656d656d6203... 112 bytes, SHA-256 be1a6e52184511691d2bcac06b555968ba1b4d531b85507157636574db9d0b54",
    "device's memory": "666865666d656d03... 133 bytes, SHA-256 249d7d60c71ad9ebaad69b76f2ac22c3ed18075a05fd6d32b0bd73601dfc41a6",
    "what a fleet's member signs": "61626f7574fa2c8cc4f28176bbeed4b736df569a34c79cd3723e9ec42f9674b4d46ac6b8b8",
    "identity": "6668656964656e03... 1820 bytes, SHA-256 28923ce5cae0407cc3de20729dbab911fdba8b887594e8dbd7deacc99e5696dc",
    "credential": "6668656372656403... 1642 bytes, SHA-256 30f5cffef00fb77aaf0cc58b0e83981f241c6803f7909fde75259ca78e63f471",
    "key binding": "66686562696e6403... 1436 bytes, SHA-256 414eb74e45a57201aeccc72ef758ada1387546f84e1d77064f62d331e19e147e",
    "fingerprint of a key binding": "85279456064fb5e404129710ddf96962cfdb78d0dc29a9b4bd979e5632fbeeac",
    "authority": "6668656175746803... 1676 bytes, SHA-256 b43824e69729e2b23545667d96f6abecd4ef5eefbec689a0155d75185f3049cf",
    "roster": "666865726f737403... 2562 bytes, SHA-256 6c46314a585de77af1b2451f3cd6942a5b1b9063c890a78830c62c47cc38bf98",
    "name of a session with its roster": "f988b53b559f05d900da4c1597fe537c891d8739c8e848c638bc1ee6bc23d4e3",
    "material of a party of a joint session": "92919293a56e6f72... 2533 bytes, SHA-256 b2a2808b4bbf20356aa2f6be10594e6cb0c519079902b0d0b6c236dec2796ebd",
    "contribution": "9292c40566697273... 83 bytes, SHA-256 ce5c789f9328e694c9301cb2d9afa4252545a23d17a6df940dcb949e1f549615",
    "excerpt": "93919201c4067365... 147 bytes, SHA-256 22224ff4d1a27126c9edfe7689a3803ef39aba888df1f9b1662dd6b40542eca1",
    "announcement": "666865616e6e6f03... 7515 bytes, SHA-256 00f03450090fde285bab8f30f8f7c0aef7d1a15d80946e73b14ef443c4add901",
    "signature of a message": "5d83916a0c7cc4ee1e51c44d40b085817ec586377e1aee3423eddb56369b9ab804180eb3bea1d20ea63ab57d2652d53af76da3849b696701b5c83b57f5685f07",
    "statement of a message": "9402a56e6f727468... 84 bytes, SHA-256 62cb6797b6b6ad584695c956a09f8c1b1017665ec200f799ffac284739edf8a9",
    "aggregator bundle": "6668656261676703... 1768 bytes, SHA-256 7fad07a21ce7f505194bc3726d87fba7924a765fd6a65f3f69ecbb04844cc5f6",
    "party bundle": "6668656270617203... 1914 bytes, SHA-256 1faa725470950a8ccdc5a2f72df13ccf3cf134b230ea0ce252845bbbd1dfa3e1",
    "list of authorities": "6668657472757303... 567 bytes, SHA-256 5157d02f70ae1923f082afec8d24a1243f99c5177d789bba4d4cbf68fd686a55",
    "policy": "666865706f6c6903... 277 bytes, SHA-256 9aef3c01330c69119a181d6888d6dc607afcfa8e4b88cfe71e4dc53fba2ad4e3",
    "list of opened bundles": "6668657365656e037df226deb3df2a2edfc36c10be3c82aa17667ea5d612f74709f0f22645dba32491c410000102030405060708090a0b0c0d0e0f",
    "privacy ledger": "6668656c65646703... 171 bytes, SHA-256 d82a12ff509af438281ae0fa4e8ba92b152fa6dc6af255658467ba728d72a0eb",
    "calibration map": "7b22666f726d6174... 124 bytes, SHA-256 b5e0b02f5fbb9db134a1f3342adf788ca95e859f314cf63c52db0e1ea9eeebf4",
    "thresholds": "302e300a302e310a302e350a",
    "outcome": "7b227061727479223a20226e6f727468222c2022617563223a206e756c6c7d",
    "fleet's session": "66686566686c7003... 96 bytes, SHA-256 6cbe1d71a82a204ae44f6b7cc0c483ed044489262f8e6393c9dab7f6101f1e90",
    "opened session": "6668656b65707403... 71 bytes, SHA-256 d32f9bba8ac0a80feea8d8781b90ab9969f2167fb5418b7bb3aeb93fd0dfed6c",
    "session held": "66686568656c6403... 108 bytes, SHA-256 115b556dbbedcb109e7b8b4ebc49cf26e476c62a2f2c1a7c9e68c63e23f3f371",
    "session made": "6668656d61646503... 72 bytes, SHA-256 46afbe2f1a74e5e50bedfdf1308bdae0dca5c8fa4687c3a329439aba9b4f8c2b",
    "answer kept": "666865616e737703... 108 bytes, SHA-256 8a8d74ab8c609076a55b4918fef27fc3afbb01509609700ff0578ee977d103c9",
}

STORE = {
    "store.header": "66686573746f7203a2ba0d0f1f6bb1cf39c239e5fe1a0b5bc4ff7f42e83f671efd517961e188dbcf930ac41035e3b4d329e3"
    "dfec64a68643c86edd94c4107ac0f24b55d8ff0183c6bdfaee062692",
    "trust/own": "a879bb68238f520ccaa0590e6b125c33549de12876d319bd42d309e4caabc9fe98ad9c3e",
    "seen/bundles": "7845c36cee70e336ee34cf2d5939e6d75765fb0bfe2e48e6484f8c3d68eaec96a6fc66be7177d0d873035a9d0becce01cdc085bd68fe2d7a2b75dabd8b3303e2b976e3e1e9",
}


def _shown(data: bytes) -> str:
    """Write short bytes as hexadecimal digits; of longer ones the first 8, the length and the SHA-256."""
    if len(data) <= 64:
        return data.hex()
    return f"{data[:8].hex()}... {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"


def _sources() -> dict[str, str]:
    """Return the text of every module of the product, by the module's name."""
    found = {}
    for package in PACKAGES:
        root = ROOT / package
        for path in root.rglob("*.py"):
            found[".".join(path.relative_to(root.parent).with_suffix("").parts)] = path.read_text(encoding="utf-8")
    return found


def _layout(struct: type[msgspec.Struct]) -> str:
    """Say how a struct is encoded: its fields in order, as an array [...] or as a map {...} with its tag."""
    annotations: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        annotations |= inspect.get_annotations(base)
    fields = ", ".join(f"{name}: {annotations[name]}" for name in struct.__struct_fields__)
    config = struct.__struct_config__
    if config.array_like:
        return f"[{fields}]"
    return f"{{{fields}}}" if config.tag is None else f"{{type: {config.tag!r}, {fields}}}"


def _found_layouts() -> dict[str, str]:
    for module, text in _sources().items():
        if "msgspec.Struct" in text or "forbid_unknown_fields" in text:  # or a subclass of one
            try:
                importlib.import_module(module)
            except (ImportError, BackendUnavailableError):
                continue  # needs OpenFHE, which is not everywhere
    found, queue = {}, [msgspec.Struct]
    while queue:
        struct = queue.pop()
        queue += struct.__subclasses__()
        if struct.__module__.startswith("fhe_auc"):
            name = f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"
            assert name not in found, f"two structs are called {name}"
            found[name] = _layout(struct)
    return found


def test_every_magic_stands_in_the_code_once_and_has_bytes_that_are_pinned() -> None:
    found = [magic for text in _sources().values() for magic in re.findall(r"b\"(fhe[a-z]{4})\"", text)]
    pinned = {bytes.fromhex(text[:14]).decode(errors="replace") for text in (*PINNED.values(), *STORE.values())}

    assert sorted(found) == sorted(MAGICS)
    assert set(MAGICS) <= pinned


@pytest.mark.backends("all")
def test_every_struct_that_is_encoded_has_the_fields_that_are_pinned() -> None:
    found = _found_layouts()

    assert {name: LAYOUTS.get(name) for name in found} == found
    assert set(LAYOUTS) == set(found)


def test_the_frame_is_magic_version_digest_and_body() -> None:
    body = b"\x93\x01\xc4\x01\x02\xa1\x33"

    framed = serialise.frame(b"fhetest", (1, b"\x02", "3"))

    assert serialise.FORMAT_VERSION == 3
    assert framed == b"fhetest" + b"\x03" + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize("name", VECTORS)
def test_bytes_are_those_that_are_pinned(name: str, tmp_path: Path) -> None:
    assert _shown(VECTORS[name](tmp_path)) == PINNED.get(name)


def test_what_is_pinned_can_be_read() -> None:
    opened = open_announcement(_announcement(), TRUST, holder="north", at=AT)

    assert opened.study == STUDY
    assert msgspec.structs.replace(opened.manifest, certificates=(), aggregator=b"", study=None) == _manifest("AUC")
    assert announcement.KIND.purpose == b"session announcement 1"


def test_bytes_that_were_sealed_once_can_be_unsealed() -> None:
    sealed = bytes.fromhex(
        "25801a00bf0bbdfbb3fd74df5afa2333e36e91cf884f78dd5474067c64240e4615ae1a736ff703922555d8e6d1f13dfe0df0e6a800e49626"
        "69c8e4652e2c496bb34e49cbcbcbe892a244b54d7b314a50389a7a75bf02a81d06d7848bfe139f587930cbdc9e909083290138224f516cc3"
        "a7567962ae97180e06509b824e2ad57a32d11412ee1cd755159135aac292b82032a8182ff0d3ca11980c23f7d4f9c0c389fe9a5e5b9ede97"
        "c1cda41daf49df6727b7ef18febb5eefd80f90b972fd7686b696779406c7e5724fc828810943cf527c980c41e6b14a34cd4d6d2110617ab5"
        "ce6a4cac70ec3e6c3b27bd45673ea5b2a15c7e5f33b94c9e21ca4b10d1a71b00b976848bc750eea742d35545ed7c413c4d967a38085b0c06"
        "4ec41dd7d58c4975b72cb83cd60cdbed61a241a4160cc5bf15a07e8713d46155780dba465a928c56e1fceabf81773a1788cbc900668face5"
        "8c2343c5af525ab4983c4ca710ba7331feace01fae5b30e27a70932e14f1a6554606d41cbe34314e1c642a91b454bd245c2143e2e4b098b5"
        "fd45c5bb94a6b0e333c6d16a32c9a129c68f9d142f35aa153ee6c1a8b03d85186ba62bfba8b6bf0ad1eeb4f698b37c7770790d5a811870d9"
        "f67e091fead0e69ea6e51837b3fb55917e41b990a192615b8556a0302b17c5fb64f0829e164ac2c6d9afa4df466600b3db21fd59719c4127"
        "9d2887c11c217908ab826b5ef94c5650b2c5685c55bb2ceb1c45dc1083ddcf759457098b4437f16335257807328258d9d9f66fc69f4f9552"
        "6bad4dc82b8f4c5db4e06914a801309701a69ea64d42443c2cbeef9a3257d559f15c40e4e6f366f946284103e7e4768a73d7861dd9f4bdc0"
        "6b99aa27e4ae4c067234a309e2b1827d829d5a24e4f728ec7a564fbd19bf00db4c3d320d4bdcd9d77a5f3a60ef80d90f800d566f6698fdbe"
        "288c70d1ae4263943e31069ef55f8338cf7253e83bcc602342b96be7180f595845d2a4575410754a81e4d9ce1185455ef50e6702cc714b6c"
        "48589e2c49f54993369cd520b1a0defe8c4e63600af6d01a70652a8bdc61657a404dd9f92d9056d11528f77551c7559de302774061ba2ebc"
        "ef8bc57b373d94c34c1d03254bb61295bb5651615d7299f58779fc44dd75ccd0032a17ca8868a8e5aa03908d7eec4f970519f934820345a1"
        "295d5977cccc60b3d2d4a0d16587f9879e7f379702b0a64018e47d338a6e27eb0dc1ac45b109f5370a71188a46ee92c95525daf77f3346a5"
        "6fcd5f68fad1f890e3b8521a29b3ab93335c1cd81e58a2d9a1d41fe5aac9ab2dbc5f82802d7b7efa51540dbd3f41a75a24d043973108d38f"
        "7d6b6c4a32aec49d10bd8d4186d6f0a31577256c20ca019062aac5c428d4047092c47c5e96c9734d6888503ccaed7709f4a040b3e16683ec"
        "878e26a3d3b0d1144dd200e0bc0d87f274ab9fddcff74e7e122eb252995616e358065c024ad30b035d163b68fa938c5cd69272ead921d748"
        "e881795803596366e30e83aadb1cf872c0cc8c77aa5988edd108600a41425b92bf8d9f0d9fa14eaf61f6c71e3453cc1a11e45f47ab284261"
        "421a2a6d0735741ae84ef76bb30243aaaa9ac061dcb0f62b"
    )
    to_all = bytes.fromhex(
        "9282a56e6f727468c450a881637a9a9e5eeb8559768f4f15ff4b6b17d64af2b71b23b93c7570373cf35eecd6a568c9d4ca53a6ce7e091305"
        "27fb842d4db5f68d714b937b779e4b1a4d14b50c83eb58606388921af32174fc5c11a5736f757468c450d1cbfd7b8f2b58d34f1c07aaa233"
        "485949c9f18d28a5e7e9cee58d5083a9da223df8be8c73bbfc983c3120ea5509d8db49e38adb8faecc1927f10cb05c0ad496cbe50f406208"
        "ba93eb8afa06610a777ec438172cc42f69cfd590297052ced051148068da6e215e614633f3ad6aa03c684a1548f6d8886ef1b72ae011f3b9"
        "f57d07767f4951ad04cb4498"
    )
    assert NORTH.unseal(sealed, info=b"info") == b"the text"
    assert group_sealing.unseal_mine(NORTH, to_all, info=b"info", associated=b"associated") == b"the text"


def test_a_key_store_that_was_written_once_can_be_opened(tmp_path: Path) -> None:
    for place, data in STORE.items():
        path = tmp_path / place
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(bytes.fromhex(data))
        path.chmod(0o600)
    tmp_path.chmod(0o700)

    with KeyStore(tmp_path, "four random words") as store:
        assert store.get("trust", "own") == b"the text"
        store.register(SESSION)
