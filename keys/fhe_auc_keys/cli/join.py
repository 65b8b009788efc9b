"""``fhe-auc keys join``: a role takes part by its authority's invitation."""

from pathlib import Path

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_from_others
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.cli.enrol import as_certified, as_requested
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.site.invitation import Invitation, open_invitation
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import OWN, Vault, identity_of
from fhe_auc_keys.trust.certificates import verify
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import check_name, fingerprint, subject_name


@common.command(
    "Take part by the authority's invitation.",
    "fhe-auc keys join ca.invitation north --store keystore",
    "        trusts the authority, and makes the keys; north.csr goes to the authority",
    "fhe-auc keys join ca.invitation --certificate north.pem --store keystore",
    "        takes in what came back; north.credential goes to the key holder",
)
@click.argument("file", metavar="INVITATION", type=common.FILE)
@click.argument("name", metavar="[NAME]", required=False)
@trust.new_key_store
@common.file_option("--certificate", help="The certificate that the authority issued.")
@click.option(
    "--authority-fingerprint",
    "told",
    metavar="HEX",
    callback=lambda ctx, param, value: () if value is None else (common.fingerprint_of(value),),
    help="What the authority has read out by telephone, in place of being asked.",
)
@click.option(
    "--policy/--no-policy",
    "takes_policy",
    default=None,
    help="Take the policy that is proposed, or do not, in place of being asked.",
)
@common.folder_option
@common.force_option
@common.reported
def join(
    file: Path,
    name: str | None,
    vault: Vault,
    certificate: Path | None,
    told: tuple[bytes, ...],
    takes_policy: bool | None,
    folder: Path,
    force: bool,
) -> common.Report:
    """Take part as NAME in the consortium whose authority has written the file INVITATION, `ca-init --invitation`.

    First without a certificate: shows the authority's name and fingerprint. Call it by a number that you know; it reads
    out its fingerprint, and you, in the same call, that of your request. Only then is shown what the invitation says.
    The authority is trusted, its revocation list is kept with the places where newer ones are, private keys are made,
    and NAME.csr is written. A policy that the invitation proposes (what `fhe-auc serve` and `open --policy` open
    unasked) is kept if you say so.

    Then with --certificate: checks it and writes NAME.credential, which the key holder needs. All these files are
    public.
    """
    with common.about(file):
        found = open_invitation(read_from_others(file))
    if certificate is not None:
        return _certified(file, found, name, vault, certificate, folder, force)
    if name is None:
        raise click.UsageError("give NAME, or --certificate")
    target = folder / f"{common.file_stem(check_name(name))}.csr"
    if not vault.exists():
        common.check_free(target, force=force)
    with common.about(file):
        found.accepted(Trusted(), at=common.now())
    own, authority = fingerprint(found.certificate), subject_name(found.certificate.subject)
    common.confirm(
        f"authority {authority!r} ({file})", own, told, teller="the authority", option="--authority-fingerprint"
    )
    click.echo("".join(f"{label:<24} {text}\n" for label, text, _ in describe.invitation_rows(found)), err=True)
    policy = _agreed(found.offer.policy, takes_policy)
    with vault.open_or_make() as store:
        identity, _ = identity_of(store, name)
        with common.about(file):
            trusted = found.accepted(Trusted.stored(store), at=common.now())
        trusted.keep(store, identity)
        if policy is not None:
            policy.keep(store)
    facts, rows = as_requested(identity, target, vault, force=force)
    kept = "opens what is within it without asking anybody: `fhe-auc keys policy` shows it"
    rows[1:1] = [*trust.rows(trusted), *([("policy", "set", kept)] if policy is not None else [])]
    return common.Report({"name": name, **trust.as_dict(trusted), **facts, "policy": policy is not None}, rows)


def _agreed(proposed: Policy | None, takes: bool | None) -> Policy | None:
    """Return the policy that is proposed where somebody takes it."""
    if proposed is None:
        if takes:
            raise InputError("--policy: the invitation proposes none")
        return None
    if takes is None:
        question = "May sessions within this policy be opened here without asking anybody?"
        takes = common.agreed(question, nobody="nobody is there to say if the policy is taken: --policy or --no-policy")
    if takes and proposed.repeats:
        describe.warn_of_repetition(proposed.options)
    return proposed if takes else None


def _certified(
    file: Path, found: Invitation, name: str | None, vault: Vault, certificate: Path, folder: Path, force: bool
) -> common.Report:
    """Take the certificate in."""
    with vault.open() as store:
        if OWN not in store.names("identity"):
            raise StoreError("this key store has no keys that a certificate could be for: run `join` without one first")
        identity, _ = identity_of(store, name or Identity.from_bytes(store.get("identity", OWN)).name)
        target = folder / f"{common.file_stem(identity.name)}.credential"
        common.check_free(target, force=force)
        trusted = trust.renewed(store, ())
        if found.certificate not in trusted.authorities:
            raise KeysError(f"{file}: of an authority that is not trusted here: run `join` without --certificate first")
        if trusted.wants(found.revocation_list):
            trusted = trusted.with_list(found.revocation_list)
        with common.about(certificate):
            identity = identity.certified(read_from_others(certificate))
        peer = verify(identity.credential, trusted.trust, at=common.now())
        trusted.keep(store, identity)
    facts, rows = as_certified(identity, peer, target, force=force)
    rows[1:1] = trust.rows(trusted)
    return common.Report({"name": identity.name, **trust.as_dict(trusted), **facts}, rows)
