"""``fhe-auc keys enrol``: at a site, from its first key to the renewal of its certificate."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_from_others
from fhe_auc.cli import output
from fhe_auc_keys.cli import common, trust
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.store.list_places import is_url
from fhe_auc_keys.store.trusted_authorities import Trusted, read_certificates
from fhe_auc_keys.store.vault import Vault, identity_of
from fhe_auc_keys.trust.certificates import Peer, verify
from fhe_auc_keys.trust.existing_certificate import CertifiedKey
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import MALFORMED, MAX_DAYS, check_name, fingerprint


@common.command(
    "Make the keys of a site, and take in its certificate.",
    "fhe-auc keys enrol north --store keystore",
    "        makes the keys; north.csr goes to the authority",
    "fhe-auc keys enrol north --certificate north.pem --authority ca.pem --revocation-list ca.crl",
    "        takes in what came back; north.credential goes to the key holder",
    "fhe-auc keys enrol north --revocation-list ca.crl",
    "        takes in the next revocation list",
    "fhe-auc keys enrol north --revocation-list https://study.example.org/ca.crl",
    "        and from then on `session`, `open` and `open-late` fetch the next ones there",
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

    A URL or a folder given with --revocation-list is remembered, in place of those before: `session`, `open` and
    `open-late` look there for newer lists, and go on with a warning where there is none.
    """
    if (chain is None) is not (key is None) or (chain is not None and certificate is not None):
        raise click.UsageError("give --certificate alone, or --chain together with --key")
    stem = common.file_stem(check_name(name))
    certifying = certificate is not None or chain is not None
    target = folder / f"{stem}.{'credential' if certifying else 'csr'}"
    if certifying or not vault.exists():
        common.check_free(target, force=force)
    if certificate is not None and not vault.exists():
        raise StoreError(f"no key store in {str(vault.directory)!r}, so no keys that {str(certificate)!r} could be for")
    with vault.open_or_make() as store:
        identity, is_new = identity_of(store, name)
        trusted = Trusted.stored(store)
        if chain is not None:
            trusted = replace(trusted, intermediates=tuple(read_certificates(chain)[1:]))
        trusted = trust.extended(trusted, authorities, lists, fingerprints)
        places = [place if is_url(place) else str(Path(place).absolute()) for place in lists]
        if standing := tuple(place for place in places if is_url(place) or Path(place).is_dir()):
            trusted = replace(trusted, places=standing)  # where new lists appear by themselves
        if certificate is not None:
            with common.about(certificate):
                identity = identity.certified(read_from_others(certificate))
        elif chain is not None and key is not None:
            identity = _bound(identity, chain, key)
        peer = verify(identity.credential, trusted.trust, at=common.now()) if certifying else None
        trusted.keep(store, identity)

    facts: dict[str, Any] = {}
    rows: common.Rows = []
    if peer is not None:
        facts, rows = as_certified(identity, peer, target, force=force)
    elif is_new or not (authorities or lists):
        facts, rows = as_requested(identity, target, vault, force=force)
    elif identity.credential:
        try:  # a new revocation list, or time, may have ended the site's own certificate
            verify(identity.credential, trusted.trust, at=common.now())
        except KeysError as error:
            output.print_warning(str(error))
    rows[1:1] = trust.rows(trusted)
    return common.Report({"name": name, **trust.as_dict(trusted), **facts}, rows)


def as_requested(identity: Identity, target: Path, vault: Vault, *, force: bool) -> tuple[dict[str, Any], common.Rows]:
    """Write the certificate request; return facts and rows that say so."""
    request = identity.request()
    common.write(target, request, force=force)
    asked = fingerprint(x509.load_pem_x509_csr(request))
    return {"request": target, "request_fingerprint": asked}, [
        ("site", identity.name, f"private keys in {str(vault.directory)!r}"),
        ("send", target, "certificate request, public; to the authority"),
        ("fingerprint", asked, "of the request: read it to the authority by telephone"),
    ]


def as_certified(identity: Identity, peer: Peer, target: Path, *, force: bool) -> tuple[dict[str, Any], common.Rows]:
    """Write the credential; return facts and rows that say so."""
    common.write(target, identity.credential, force=force)
    return {"credential": target, "fingerprint": peer.fingerprint, "not_after": peer.not_after}, [
        ("certified", peer.name, f"valid until {common.moment(peer.not_after)}, serial {peer.serial:x}"),
        ("fingerprint", peer.fingerprint, "of the certificate and keys"),
        ("send", target, "public; to the key holder of each session"),
    ]


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
