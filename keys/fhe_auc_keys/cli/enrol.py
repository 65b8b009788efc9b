"""``fhe-auc keys enrol``, ``join``: at a site, from its first key to the renewal of its certificate."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_from_others
from fhe_auc.cli import output
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.site.invitation import open_invitation
from fhe_auc_keys.site.policy import Policy
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.list_places import is_url
from fhe_auc_keys.store.trusted_authorities import Trusted, read_certificates
from fhe_auc_keys.store.vault import OWN, Vault, identity_of
from fhe_auc_keys.trust.certificates import verify
from fhe_auc_keys.trust.existing_certificate import CertifiedKey
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import MALFORMED, MAX_DAYS, check_name, fingerprint, subject_name


@common.command(
    "Make the keys of a site, and take in its certificate.",
    "fhe-auc keys enrol north --store keystore",
    "        makes the keys; north.csr goes to the authority",
    "fhe-auc keys enrol north --certificate north.pem --authority ca.pem --revocation-list ca.crl",
    "        takes in what came back; north.credential goes to the key holder",
    "fhe-auc keys enrol north --revocation-list ca.crl",
    "        takes in the next revocation list",
    "fhe-auc keys enrol north --revocation-list https://study.example.org/ca.crl",
    "        and from then on `session` and `open` fetch the next ones there",
    "fhe-auc keys enrol north.example --chain chain.pem --key key.pem \\",
    "                   --authority realca.pem --revocation-list realca.crl",
    "        with a certificate that the site has already",
)
@click.argument("name", metavar="NAME")
@trust.new_key_store
@common.file_option("--certificate", help="The certificate that the consortium's authority issued.")
@common.file_option(
    "--chain",
    help="A certificate that the site has already (PEM, with intermediate ones behind it), for the name NAME.",
)
@common.file_option("--key", help="Its private key (PEM); used once, and not kept.")
@trust.authority_option
@trust.list_option
@common.fingerprint_option
@common.folder_option
@common.force_option
@common.reported
def enrol(
    name: str,
    vault: Vault,
    certificate: Path | None,
    chain: Path | None,
    key: Path | None,
    authorities: tuple[Path, ...],
    lists: tuple[str, ...],
    fingerprints: tuple[bytes, ...],
    folder: Path,
    force: bool,
) -> common.Report:
    """Make the keys of the site NAME, get them certified, and say whom to trust.

    First without a certificate: makes a key store with fresh private keys, which never leave it, and writes the
    certificate request NAME.csr. Then with --certificate (or, for a certificate that the site has already, with
    --chain and --key): checks it and writes NAME.credential, which the key holder needs. Both files are public.

    An authority that is new is trusted only once its fingerprint has been compared by telephone. A store keeps the
    private keys when a certificate is renewed.

    A URL or a folder given with --revocation-list is remembered, in place of those before: `session` and
    `open` look there for newer lists, and go on with a warning where there is none.
    """
    if (chain is None) is not (key is None) or (chain is not None and certificate is not None):
        raise click.UsageError("give --certificate alone, or --chain together with --key")

    def trusting(store: KeyStore) -> Trusted:
        trusted = Trusted.stored(store)
        if chain is not None:
            trusted = replace(trusted, intermediates=tuple(read_certificates(chain)[1:]))
        trusted = trust.extended(trusted, authorities, lists, fingerprints)
        places = [place if is_url(place) else str(Path(place).absolute()) for place in lists]
        if standing := tuple(place for place in places if is_url(place) or Path(place).is_dir()):
            trusted = replace(trusted, places=standing)  # where new lists appear by themselves
        return trusted

    bind = None if chain is None or key is None else partial(_bound, chain=chain, key=key)
    asks = not (authorities or lists)
    return common.Report(
        *_take_part(vault, name, folder, trusting, certificate=certificate, bind=bind, asks=asks, force=force)
    )


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
    type=common.FINGERPRINT,
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
    told: bytes | None,
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
    policy = None
    if certificate is None:
        if name is None:
            raise click.UsageError("give NAME, or --certificate")
        if not vault.exists():
            common.check_out_file(folder / f"{common.file_stem(check_name(name))}.csr", force=force)
        with common.about(file):
            found.accepted(Trusted(), at=common.now())
        own, authority = fingerprint(found.certificate), subject_name(found.certificate.subject)
        what, option = f"authority {authority!r} ({file})", "--authority-fingerprint"
        common.confirm(what, own, () if told is None else (told,), teller="the authority", option=option)
        click.echo("".join(f"{label:<24} {text}\n" for label, text, _ in describe.invitation_rows(found)), err=True)
        policy = _agreed(found.offer.policy, takes_policy)

    def trusting(store: KeyStore) -> Trusted:
        if certificate is None:
            with common.about(file):
                return found.accepted(Trusted.stored(store), at=common.now())
        trusted = trust.renewed(store, ())
        if found.certificate not in trusted.authorities:
            raise KeysError(f"{file}: of an authority that is not trusted here: run `join` without --certificate first")
        return trusted.with_list(found.revocation_list) if trusted.wants(found.revocation_list) else trusted

    facts, rows = _take_part(vault, name, folder, trusting, certificate=certificate, policy=policy, force=force)
    return common.Report(facts if certificate is not None else {**facts, "policy": policy is not None}, rows)


def _take_part(
    vault: Vault,
    name: str | None,
    folder: Path,
    trusting: Callable[[KeyStore], Trusted],
    *,
    certificate: Path | None,
    bind: Callable[[Identity], Identity] | None = None,
    asks: bool = True,
    policy: Policy | None = None,
    force: bool,
) -> tuple[dict[str, Any], common.Rows]:
    """Keep a site's private keys, made where there are none, and whom it trusts; return facts and rows that say so.

    Its credential is written where its `certificate` has come, or `bind` makes another one vouch for its keys; else its
    request, for keys that are new, or where it `asks`. `name` None is the store's.
    """
    certifying = certificate is not None or bind is not None

    def free(name: str) -> Path:
        target = folder / f"{common.file_stem(check_name(name))}.{'credential' if certifying else 'csr'}"
        if certifying or not vault.exists():
            common.check_out_file(target, force=force)
        return target

    if name is not None:
        free(name)
    if certificate is not None and not vault.exists():
        raise StoreError(f"no key store in {str(vault.directory)!r}, so no keys that {str(certificate)!r} could be for")
    with vault.open_or_make() as store:
        identity, is_new = identity_of(store, name)
        target, trusted = free(identity.name), trusting(store)
        if certificate is not None:
            with common.about(certificate):
                identity = identity.certified(read_from_others(certificate))
        elif bind is not None:
            identity = bind(identity)
        peer = verify(identity.credential, trusted.trust, at=common.now()) if certifying else None
        trusted.keep(store)
        store.put("identity", OWN, identity.to_bytes(), replace=True)
        if policy is not None:
            policy.keep(store)

    facts: dict[str, Any] = {"name": identity.name, **trust.as_dict(trusted)}
    rows: common.Rows = []
    if peer is not None:
        common.write(target, identity.credential, force=force)
        facts |= {"credential": target, "fingerprint": peer.fingerprint, "not_after": peer.not_after}
        rows = [
            ("certified", peer.name, f"valid until {common.moment(peer.not_after)}, serial {peer.serial:x}"),
            ("fingerprint", peer.fingerprint, "of the certificate and keys"),
            ("send", target, "public; to the key holder of each session"),
        ]
    elif is_new or asks:
        common.write(target, request := identity.request(), force=force)
        asked = fingerprint(x509.load_pem_x509_csr(request))
        facts |= {"request": target, "request_fingerprint": asked}
        rows = [
            ("site", identity.name, f"private keys in {str(vault.directory)!r}"),
            ("send", target, "certificate request, public; to the authority"),
            ("fingerprint", asked, "of the request: read it to the authority by telephone"),
        ]
    elif identity.credential:
        try:  # a new revocation list, or time, may have ended the site's own certificate
            verify(identity.credential, trusted.trust, at=common.now())
        except KeysError as error:
            output.print_warning(str(error))
    if policy is not None:
        kept = "opens what is within it without asking anybody: `fhe-auc keys policy` shows it"
        rows.insert(1, ("policy", "set", kept))
    rows[1:1] = trust.rows(trusted)
    return facts, rows


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


def _bound(identity: Identity, chain: Path, key: Path) -> Identity:
    """Return the identity vouched for by the site's own certificate, for as long as that is valid."""
    days_left = (read_certificates(chain)[0].not_valid_after_utc - common.now()).days
    days = max(1, min(days_left, MAX_DAYS))
    with common.about(chain):
        return identity.bound(chain.read_bytes(), _private_key(key), days=days, at=common.now())


def _private_key(path: Path) -> CertifiedKey:
    data = path.read_bytes()
    try:
        try:
            key = load_pem_private_key(data, None)
        except TypeError:  # it is encrypted
            password = trust.ask_hidden(f"Password of {str(path)!r}", otherwise="run this command in a terminal")
            key = load_pem_private_key(data, password.encode())
    except MALFORMED:
        raise InputError(f"{str(path)!r} is no private key in PEM, or the password is wrong", file=str(path)) from None
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise InputError(f"the private key in {str(path)!r} is neither ECDSA nor RSA", file=str(path))
    return key
