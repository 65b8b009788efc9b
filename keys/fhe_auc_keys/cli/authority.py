"""``fhe-auc keys ca-init``, ``issue``, ``revoke``: at the consortium's authority."""

from pathlib import Path
from typing import Any

import click
from cryptography import x509

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_from_others
from fhe_auc.cli.inputs import whole_number
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.trust import key_store
from fhe_auc_keys.errors import KeysError, StoreError
from fhe_auc_keys.site.invitation import Offer, invite
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.trusted_authorities import read_list
from fhe_auc_keys.store.vault import OWN, Vault
from fhe_auc_keys.trust.authority import Authority, requested_name
from fhe_auc_keys.trust.public_keys import MAX_DAYS, check_name, fingerprint, subject_name

_CERTIFICATE, _LIST, _INVITATION = "ca.pem", "ca.crl", "ca.invitation"


@common.command(
    "Make the consortium's authority.",
    'fhe-auc keys ca-init "Heart Study" --store keystore',
    'fhe-auc keys ca-init "Heart Study" --store keystore --invitation invitation.toml',
    'fhe-auc keys ca-init "Heart Study" --store keystore --out public --force    writes the files anew',
    name="ca-init",
)
@click.argument("name", metavar="NAME")
@key_store
@common.file_option(
    "--invitation", "offered", help="What else sites and others need to know (TOML), for ca.invitation."
)
@common.folder_option
@common.force_option
@common.reported
def ca_init(name: str, vault: Vault, offered: Path | None, folder: Path, force: bool) -> common.Report:
    """Make the consortium's authority, called NAME.

    Its private key goes into a new key store, best on a machine that does nothing else. Written for publication:
    ca.pem, the authority's certificate, and ca.crl, its revocation list, which everybody needs anew each month. For an
    authority that is there already only the files are written.

    With --invitation also ca.invitation, by which everybody takes part (`join`): it holds both files, and what is in
    the TOML file, which may have: exchange, a text that says where files are exchanged; notes, a list of lines;
    revocation-lists, a list of places (URLs, folders) where newer ones are; a table [study], as for `session`; a table
    [policy], as for `policy`, which sites may take. An invitation counts as long as its revocation list, 30 days.
    """
    check_name(name)
    offer = None if offered is None else Offer.read(offered)
    certificate, revocations, invitation = folder / _CERTIFICATE, folder / _LIST, folder / _INVITATION
    for path in (certificate, revocations, *([] if offer is None else [invitation])):
        common.check_out_file(path, force=force)
    with vault.open_or_make() as store:
        if OWN in store.names("identity"):
            raise StoreError("this key store is a party's; an authority needs one of its own: take another --store")
        if OWN in store.names("authority"):
            authority = stored(store)
            known = subject_name(authority.certificate.subject)
            if known != name:
                raise StoreError(f"this key store has the authority {known!r}; for {name!r} take another --store")
        else:
            authority = Authority.create(name, at=common.now())
        found = _fresh_list(authority, store)
    common.write(certificate, authority.certificate_pem(), force=force)
    common.write(revocations, found, force=force)
    if offer is not None:
        common.write(invitation, invite(authority, found, offer), force=force)
    own, ends = fingerprint(authority.certificate), authority.certificate.not_valid_after_utc
    until = x509.load_pem_x509_crl(found).next_update_utc
    files = {"certificate": certificate, "revocation_list": revocations}
    files |= {} if offer is None else {"invitation": invitation}
    facts = {"authority": name, **files, "fingerprint": own, "not_after": ends, "next_update": until}
    rows: common.Rows = [
        ("authority", name, f"valid until {common.moment(ends)}; private key in {str(vault.directory)!r}"),
        ("publish", certificate, "the authority's certificate"),
        ("publish", revocations, f"revocation list, accepted until {common.moment(until)}"),
        *([] if offer is None else [("publish", invitation, "to everybody who takes part, for `join`")]),
        ("fingerprint", own, "of the certificate: read it to every site by telephone"),
    ]
    return common.Report(facts, rows)


@common.command(
    "Certify the requests of sites.",
    "fhe-auc keys issue post/*.csr --store keystore --out post",
    "fhe-auc keys issue north.csr north --store keystore",
    "fhe-auc keys issue north.csr north --days 90 --fingerprint 5fd0...9c21",
)
@click.argument("requests", metavar="REQUEST... [NAME]", nargs=-1, required=True)
@key_store
@whole_number("--days", 1, MAX_DAYS, default=365, about="Validity.")
@common.fingerprint_option
@common.folder_option
@common.force_option
@common.reported
def issue(
    requests: tuple[str, ...], vault: Vault, days: int, fingerprints: tuple[bytes, ...], folder: Path, force: bool
) -> common.Report:
    """Certify the keys in each file REQUEST as those of the party that it is for; with NAME, of no other than NAME.

    The certificate, NAME.pem, goes back to the site; it is public. Before it is written the request's fingerprint is
    shown: call the site by a number that you know and compare. It covers the name and both keys (for signing, and for
    what is sealed to the site). Renewal: the same request again, and --force.

    Of several requests, those whose NAME.pem is there already are passed over, and one that is refused, or cannot be
    read, which makes the exit status 1, does not keep the others from being certified. What ends in .csr, or is a file,
    is no NAME.
    """
    *several, last = requests
    wanted = None if len(several) != 1 or last.endswith(".csr") or Path(last).is_file() else last
    chosen = [*map(Path, several if wanted is not None else requests)]
    if len(chosen) == 1:
        common.FILE.convert(str(chosen[0]), None, click.get_current_context())

    def certify(store: KeyStore, request: Path) -> tuple[dict[str, Any], common.Rows]:
        """Certify one, once its fingerprint is confirmed; return facts, none where it is passed over, and rows."""
        data, authority = read_from_others(request, plain=len(chosen) > 1), stored(store)
        with common.about(request):
            name = wanted or requested_name(data)
            target = folder / f"{common.file_stem(check_name(name))}.pem"
            if len(chosen) > 1 and not force and target.exists():
                return {}, [("passed over", request, f"{str(target)!r} is there already; --force certifies it again")]
            common.check_out_file(target, force=force)
            pem = authority.issue(data, name, days=days, at=common.now())
        asked = fingerprint(x509.load_pem_x509_csr(data))
        common.confirm(f"the request of {name!r} ({request})", asked, fingerprints, teller=f"the site {name!r}")
        store.put("authority", OWN, authority.to_bytes(), replace=True)
        common.write(target, pem, force=force)
        serial, certificate = authority.register[-1].serial, x509.load_pem_x509_certificate(pem)
        prints = {"fingerprint": fingerprint(certificate), "request_fingerprint": asked}
        until = certificate.not_valid_after_utc
        return {"name": name, "certificate": target, "serial": serial, **prints, "not_after": until}, [
            ("certified", name, f"valid until {common.moment(until)}"),
            ("serial", serial, "to revoke it"),
            ("fingerprint", prints["fingerprint"], "of the certificate"),
            ("send", target, f"public; back to {name!r} (without an invitation, {_CERTIFICATE} and {_LIST} too)"),
        ]

    tables: list[common.Rows] = []
    issued: list[dict[str, Any]] = []
    refused: dict[str, str] = {}
    with vault.open() as store:
        for path in chosen:
            try:
                facts, rows = certify(store, path)
                issued += [facts] if facts else []
            except (KeysError, InputError, OSError) as error:
                if len(chosen) == 1:
                    raise
                refused[str(path)], rows = str(error), [("REFUSED", path, str(error))]
            tables.append(rows)
    told = issued[0] if len(chosen) == 1 else {"issued": issued, "refused": refused}
    return common.Report(told, *tables, failed=bool(refused))


@common.command(
    "Revoke certificates, or write a fresh revocation list.",
    "fhe-auc keys revoke south --store keystore           laptop lost, or left the study",
    "fhe-auc keys revoke 5bd2...01 --store keystore       one certificate, by its serial number",
    "fhe-auc keys revoke --refresh --store keystore       every week or two: lists are accepted for 30 days",
)
@click.argument("serial_or_name", metavar="SERIAL_OR_NAME", required=False)
@click.option("--refresh", is_flag=True, help="Revoke nothing, only write a fresh list.")
@key_store
@common.folder_option
@common.force_option
@common.reported
def revoke(serial_or_name: str | None, refresh: bool, vault: Vault, folder: Path, force: bool) -> common.Report:
    """Revoke one certificate, or all of one party, for good, and write the new list ca.crl.

    It works once the others have the list: send it to every site, to the key holder first. A ca.crl of this authority
    that is there already is replaced.
    """
    if (serial_or_name is None) is not refresh:
        raise click.UsageError("give a name or a serial number, or --refresh, and not both")
    target = folder / _LIST
    with vault.open() as store:
        authority = stored(store)
        common.check_out_file(target, force=force or _is_list_of(authority, target))
        before = authority.register
        for serial in _serials(authority, serial_or_name) if serial_or_name is not None else ():
            authority.revoke(serial, at=common.now())
        found = _fresh_list(authority, store)
    common.write(target, found, force=True)
    until = x509.load_pem_x509_crl(found).next_update_utc
    revoked = [{"name": line.name, "serial": line.serial} for line in authority.register if line not in before]
    rows: common.Rows = [("revoked", each["serial"], f"of {each['name']!r}") for each in revoked]
    if not rows:
        rows = [("revoked", "nothing" if refresh else "nothing new", "" if refresh else "it was revoked before")]
    rows.append(("publish", target, f"to everybody, now; accepted until {common.moment(until)}"))
    return common.Report({"revoked": revoked, "revocation_list": target, "next_update": until}, rows)


def stored(store: KeyStore) -> Authority:
    """Return the authority of a key store; raise `StoreError` where it has none."""
    if OWN not in store.names("authority"):
        raise StoreError("this key store has no authority: name the authority's with --store, or run ca-init")
    return Authority.from_bytes(store.get("authority", OWN))


def _fresh_list(authority: Authority, store: KeyStore) -> bytes:
    """Return the next revocation list; the store remembers its number before anybody sees it."""
    found = authority.revocation_list(at=common.now())
    store.put("authority", OWN, authority.to_bytes(), replace=True)
    return found


def _serials(authority: Authority, wanted: str) -> list[str]:
    """Return the serial numbers meant by a name or a serial number."""
    number = wanted.lower().replace(":", "").lstrip("0")
    found = [line.serial for line in authority.register if line.name == wanted or line.serial == number]
    if not found:
        names = ", ".join(sorted({repr(line.name) for line in authority.register})) or "nobody"
        raise InputError(f"{wanted[:80]!r} is neither a serial number issued here nor a name (certified: {names})")
    return found


def _is_list_of(authority: Authority, path: Path) -> bool:
    try:
        return path.is_file() and read_list(path).issuer == authority.certificate.subject
    except InputError:
        return False
