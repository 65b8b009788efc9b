"""A result accepted, or refused: then no number is given, whoever has lied.

Where results are verified, a party knows what the authenticators of its session's sums must be (`fhe_auc.sums.proof`).
In every session the integers must be those of as many rows as there may be: each part checks its own (`read_sums`).
"""

from collections.abc import Sequence

from fhe_auc.base.errors import ResultCheckError, VerificationError
from fhe_auc.question.thresholds import perhaps_found
from fhe_auc.rlwe.modular import Residues
from fhe_auc.session.manifest import Manifest
from fhe_auc.sums.proof import Authenticator, released
from fhe_auc_protocols.exact_auc.exact_plan import ExactPlan
from fhe_auc_protocols.exact_auc.release_part import Reading

# Options of the manifest.
INTERVAL = "interval"  # the level of the confidence interval
PLAIN_INTERVAL = "plain_interval"  # DeLong's interval not on the logit scale
ROUND_SCORES = "round_scores"  # to how many decimals

_NOT_ACCEPTED = (
    "the result fails its check, so no number is given: the aggregator has not computed what it should, a party has "
    "submitted twice or numbers that do not fit together, or a message is damaged"
)


def accepted(
    manifest: Manifest, plan: ExactPlan, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes
) -> Reading:
    """Return what a result's sums say, `decrypted` for each prime, shape (sums,), over the parties that count.

    Raises `VerificationError`, or `ResultCheckError` where results are not verified: they are not those of an honest
    result over the rows of these parties.
    """
    options = manifest.options
    if [len(own) for own in decrypted] != [len(own.sums) for own in plan.computed]:  # only a helper may send such
        wrong = VerificationError if plan.authenticated else ResultCheckError
        raise wrong("the helper has sent too many sums, or too few, so no number is given", check="sums")
    level = options.get(INTERVAL)
    reading = Reading(
        analysis=plan.analysis,
        max_rows=plan.max_rows,
        modulus=plan.modulus,
        parties=plan.parties,
        counted=counted,
        level=None if level is None else float(level),
        plain=bool(options.get(PLAIN_INTERVAL)),
        quantiles=perhaps_found(manifest.thresholds),
    )
    # All is computed whatever fails: when a party answers would otherwise tell the aggregator its verdict.
    fits, refusal = True, None
    if plan.authenticated:
        named = frozenset(counted)
        indices = [index for index, party in enumerate(manifest.parties) if party in named]
        reading.rows = [plan.cap_of(index) for index in indices if plan.caps]
        for tags, own in zip(authenticators(manifest, plan, common_secret), decrypted, strict=True):
            fits &= tags.accepts(own, indices)
        decrypted = [released(release, own) for release, own in zip(plan.releases, decrypted, strict=True)]
    try:
        plan.sums.read_sums(plan.integers(decrypted), reading)
    except ResultCheckError as error:
        refusal = error
    if not fits:
        raise VerificationError(_NOT_ACCEPTED, check="authenticator")
    if refusal is not None:
        if not plan.authenticated:
            raise refusal
        raise VerificationError(str(refusal) if refusal.check == "rows" else _NOT_ACCEPTED, check=refusal.check)
    return reading


def authenticators(manifest: Manifest, plan: ExactPlan, common_secret: bytes) -> list[Authenticator]:
    """Return a session's authenticators for each prime."""
    primes = enumerate(zip(plan.releases, plan.parameters.plain_moduli, strict=True))
    return [Authenticator(own, common_secret, manifest.digest, which, prime) for which, (own, prime) in primes]
