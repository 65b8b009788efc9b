"""``fhe-auc keys show``: what a file is, in plain words, and how much of it has been verified."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import click
from cryptography import x509

from fhe_auc.base.errors import FheAucError
from fhe_auc.base.files import read_from_others
from fhe_auc.cli import output
from fhe_auc.rlwe.ciphertexts import MAGIC
from fhe_auc_keys.bundles.announcement import KIND as ANNOUNCEMENT_KIND
from fhe_auc_keys.bundles.announcement import open_announcement
from fhe_auc_keys.bundles.sealed_bundles import AGGREGATOR_KIND, PARTY_KIND, Kept, announced_in_bundle
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.errors import KeysError, TamperedError, UnfitCertificateError, VersionError
from fhe_auc_keys.site import key_erasure, made_sessions, policy
from fhe_auc_keys.site.invitation import MAGIC as INVITATION_MAGIC
from fhe_auc_keys.site.invitation import open_invitation
from fhe_auc_keys.site.session_files import announcement_beside
from fhe_auc_keys.store.key_store import KeyStore, session_ids
from fhe_auc_keys.store.trusted_authorities import Trusted
from fhe_auc_keys.store.vault import OWN
from fhe_auc_keys.trust.authority import Authority
from fhe_auc_keys.trust.certificates import MAGIC as CREDENTIAL_MAGIC
from fhe_auc_keys.trust.certificates import claimed, credential, verify
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import (
    MALFORMED,
    certified_keys,
    extension,
    fingerprint,
    printable,
    subject_name,
    whole_bytes,
)
from fhe_auc_keys.trust.revocation import is_of, newer_list
from fhe_auc_keys.trust.signed_documents import Kind, claimed_signer

_DOCUMENTS = {
    ANNOUNCEMENT_KIND: "session announcement: public, for everybody in the session",
    AGGREGATOR_KIND: "aggregator's bundle: sealed, only the aggregator can open it",
    PARTY_KIND: "party's bundle: sealed, only the party that it is for can open it",
}


@dataclass
class _Description:
    """What is said about a file."""

    what: str
    rows: common.Rows = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)  # the same for JSON
    verified: str = ""  # what has been verified; empty: nothing
    wrong: str = ""  # why it must not be used; empty: nothing was found wrong
    unverified: str = "only what the file claims; give --store, or --authority and --revocation-list"

    @property
    def verdict(self) -> tuple[Any, ...]:
        """The last row."""
        if self.wrong:
            return "verified", output.styled("REFUSED", "bold red"), self.wrong
        if self.verified:
            return "verified", output.styled("yes", "bold green"), self.verified
        return "verified", output.styled("no", "bold yellow"), self.unverified


@common.command(
    "Tell what a file is, and how much of it is verified.",
    "fhe-auc keys show north.csr                          what does the file claim to be?",
    "fhe-auc keys show north.bundle --store keystore      and is it true?",
    "fhe-auc keys show *.credential --authority ca.pem --revocation-list ca.crl",
    "fhe-auc keys show --store keystore --json            what is in this key store?",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=common.FILE)
@trust.trust_options
@common.reported
def show(files: tuple[Path, ...], options: trust.TrustOptions) -> common.Report:
    """Tell what each FILE is, or without one what is in the key store; never a secret.

    Without --store, and without --authority and --revocation-list, a file's own claims are shown. With them, they are
    verified against the authorities trusted there. Exit status 1: something is wrong with a file. Whether all is well
    in the key store is what `check` finds out.
    """
    if not files:
        if options.vault is None:
            raise click.UsageError("name a file, or a key store with --store")
        with options.vault.open() as store:
            return _stored(store)
    trusted = options.trusted()
    described = {path: _described(path, trusted) for path in files}
    for each in described.values():
        if each.verified and options.authorities:
            genuine = ", ".join(map(str, options.authorities))
            each.verified += f"; provided that {genuine} is genuine: nobody was asked to compare"
    facts = {"files": [_as_dict(path, each) for path, each in described.items()]}
    tables: list[common.Rows] = [
        [("file", output.styled(str(path), "bold"), each.what), *each.rows, each.verdict]
        for path, each in described.items()
    ]
    return common.Report(facts, *tables, failed=any(each.wrong for each in described.values()))


def _as_dict(path: Path, described: _Description) -> dict[str, Any]:
    return {
        "file": path,
        "what": described.what,
        "verified": bool(described.verified and not described.wrong),
        "verdict": described.wrong or described.verified or None,
        "details": described.facts,
    }


def _described(path: Path, trusted: Trusted | None) -> _Description:
    data = read_from_others(path)
    readers: dict[bytes, tuple[str, Callable[[bytes, Trusted | None], _Description]]] = {
        b"-----BEGIN CERTIFICATE REQUEST": ("certificate request", _request),
        b"-----BEGIN X509 CRL": ("revocation list", _revocation_list),
        b"-----BEGIN CERTIFICATE": ("certificate", _certificate),
        CREDENTIAL_MAGIC: ("credential", _credential),
        INVITATION_MAGIC: ("invitation", _invitation),
        **{kind.magic: (kind.name, partial(_document, kind, path)) for kind in _DOCUMENTS},
    }
    for beginning, (what, read) in readers.items():
        if data.startswith(beginning):
            try:
                return read(data, trusted)
            except FheAucError as error:
                return _Description(what, wrong=printable(str(error)))
            except MALFORMED as error:
                return _Description(what, wrong=f"malformed: {type(error).__name__}")
    if b"PRIVATE KEY-----" in data[:200]:
        return _Description("a private key, of which nothing is shown", unverified="send it to nobody")
    if data.startswith(b"SQLite format 3"):
        return _Description("a key store, perhaps", unverified="see what is in it with --store")
    if data.startswith(MAGIC):
        return _Description("encryption keys or a ciphertext, taken out of a bundle", unverified="it is not signed")
    return _Description("nothing that these commands write", wrong="unknown, or damaged at its beginning")


def _invitation(data: bytes, trusted: Trusted | None) -> _Description:
    found = open_invitation(data)
    own, name = fingerprint(found.certificate), subject_name(found.certificate.subject)
    rows = [*describe.invitation_rows(found), ("fingerprint", own, "SHA-256 of the authority's certificate")]
    described = _Description("invitation: public, for `join`", rows, {"authority": name, "fingerprint": own})
    if trusted is None:
        described.unverified = "that it is the authority's, only its fingerprint tells, by telephone"
    elif found.certificate in trusted.authorities:
        described.verified = f"signed by {name!r}, which is trusted here"
    else:
        described.wrong = "of an authority that is not trusted here"
    return described


def _request(data: bytes, trusted: Trusted | None) -> _Description:
    request = x509.load_pem_x509_csr(data)
    name, _, _ = certified_keys(request)
    if not (request.is_signature_valid and whole_bytes(request)):
        raise TamperedError("it bears no genuine signature of its own key")
    own = fingerprint(request)
    return _Description(
        "certificate request: public, for the authority",
        [("for", name, "as it claims"), ("fingerprint", own, "SHA-256 of the request")],
        {"name": name, "fingerprint": own},
        unverified="no more than that its keys are its author's: who that is, only a telephone call tells",
    )


def _revocation_list(data: bytes, trusted: Trusted | None) -> _Description:
    found = x509.load_pem_x509_crl(data)
    name, revoked, ends = subject_name(found.issuer), len(list(found)), found.next_update_utc
    described = _Description(
        "revocation list: public, for everybody",
        [
            ("of", name, f"{revoked} certificates revoked"),
            ("from", found.last_update_utc, f"accepted until {common.moment(ends)}"),
        ],
        {"authority": name, "revoked": revoked, "last_update": found.last_update_utc, "next_update": ends},
    )
    if trusted is None:
        return described
    issuer = next((each for each in trusted.known() if is_of(found, each)), None)
    if issuer is None:
        described.wrong = "not of an authority that is trusted here"
    elif ends is None or ends <= common.now():
        described.wrong = "outdated: ask the authority for the next one"
    else:
        newer_list(found, None, issuer)
        described.verified = f"signed by {name!r}, and current"
    return described


def _certificate(data: bytes, trusted: Trusted | None) -> _Description:
    first = x509.load_pem_x509_certificates(data)[0]
    rows, facts = _certified(first)
    constraints = extension(first, x509.BasicConstraints)
    if constraints is not None and constraints.ca:
        described = _Description("certificate of an authority: public, for everybody", rows, facts)
        if trusted is not None and first in trusted.authorities:
            described.verified = "it is among the authorities that are trusted here"
        elif trusted is not None:
            described.wrong = "not among the authorities that are trusted here"
        return described
    try:
        certified_keys(first)
    except UnfitCertificateError:
        return _Description("certificate without keys of ours: for `enrol` with --chain and --key", rows, facts)
    described = _Description("certificate of a party: public, for that party", rows, facts)
    return _judged(described, credential(data), trusted)


def _credential(data: bytes, trusted: Trusted | None) -> _Description:
    leaf, bound = claimed(data)
    rows, facts = _certified(leaf, of=" of the certificate")
    described = _Description("credential: public, for the key holder", rows, {**facts, "keys_bound": bool(bound)})
    if bound:
        described.rows.append(("keys", "bound", "the site's own certificate vouches for them"))
    return _judged(described, data, trusted)


def _judged(described: _Description, shown: bytes, trusted: Trusted | None) -> _Description:
    """Add the verdict on a credential."""
    if trusted is not None:
        try:
            peer = verify(shown, trusted.trust, at=common.now())
            described.verified = f"{peer.name!r}, by an authority trusted here; not revoked, and current"
        except KeysError as error:
            described.wrong = str(error)
    return described


def _document(kind: Kind, path: Path, data: bytes, trusted: Trusted | None) -> _Description:
    """Describe a signed document; what is inside is shown only once the signature is verified."""
    what = _DOCUMENTS[kind]
    signer = claimed_signer(kind, data)
    leaf, _ = claimed(signer)
    if trusted is None:
        name = subject_name(leaf.subject)
        return _Description(what, [("signed by", name, "as it claims")], {"signed_by": name})
    at = common.now()
    holder = verify(signer, trusted.trust, at=at).name
    recipient = b""
    if kind == ANNOUNCEMENT_KIND:
        announced = open_announcement(data, trusted.trust, holder=holder, at=at)
    else:
        beside = announcement_beside(path, data)
        announced, recipient = announced_in_bundle(kind, data, trusted.trust, holder=holder, at=at, beside=beside)
    rows, facts = describe.announcement_rows(announced), {"signed_by": holder}
    for name, certificate in announced.fingerprints.items():
        if certificate == recipient:
            rows.insert(0, ("sealed to", name, "nobody else can open it"))
            facts["sealed_to"] = name
    role = "key holder" if announced.manifest.keys == "sealed" else "convener"
    verified = (
        f"signed by {holder!r}, certified, not revoked; that {holder!r} is the {role} agreed on is for you to know"
    )
    return _Description(what, rows, {**facts, **describe.announcement_as_dict(announced)}, verified)


def _certified(certificate: x509.Certificate, of: str = "") -> tuple[common.Rows, dict[str, Any]]:
    """Return what a certificate says, for a table and for JSON."""
    told = {
        "name": subject_name(certificate.subject),
        "issuer": subject_name(certificate.issuer),
        "serial": f"{certificate.serial_number:x}",
        "fingerprint": fingerprint(certificate),
        "not_before": certificate.not_valid_before_utc,
        "not_after": certificate.not_valid_after_utc,
    }
    rows: common.Rows = [
        ("for", told["name"], f"issued by {told['issuer']!r}"),
        ("serial", told["serial"], _validity(certificate)),
        ("fingerprint", told["fingerprint"], f"SHA-256{of}"),
    ]
    return rows, told


def _validity(certificate: x509.Certificate) -> str:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"valid from {common.moment(begins)} until {common.moment(ends)}"


def _stored(store: KeyStore) -> common.Report:
    trusted, place = Trusted.stored(store), store.directory
    rows: common.Rows = [("key store", output.styled(str(place), "bold"), "passphrase is right")]
    facts: dict[str, Any] = {"store": place, "site": None, "authority": None}
    if OWN in store.names("authority"):
        authority = Authority.from_bytes(store.get("authority", OWN))
        facts["authority"] = _authority_rows(authority, rows)
    if OWN in store.names("identity"):
        identity = Identity.from_bytes(store.get("identity", OWN))
        described = _credential(identity.credential, trusted) if identity.credential else _Description("")
        rows += [("site", identity.name, "its private keys are here"), *described.rows[1:]]
        state = described.wrong or described.verified or "not certified yet: send the request to the authority"
        rows.append(("certified", "yes" if described.verified and not described.wrong else "NO", state))
        facts["site"] = {"name": identity.name, "certified": bool(described.verified), "state": state}
    if policy.is_in(store):
        rows.append(("policy", "set", "`fhe-auc keys policy` shows what is opened without asking anybody"))
    seen = key_erasure.noted_ends(store)
    sessions = {each: _session(store, each, seen.get(each.hex())) for each in session_ids(store, "bundle")}
    rows += [*trust.rows(trusted), *_made_rows(store)]
    rows += [("session", each, _in_words(**found)) for each, found in sessions.items()]
    states = {each.hex(): found for each, found in sessions.items()}
    return common.Report({**facts, **trust.as_dict(trusted), "sessions": states}, rows)


def _made_rows(store: KeyStore) -> Iterator[tuple[Any, ...]]:
    for session in session_ids(store, "made"):
        try:
            other = made_sessions.successor(store, session)
            if not other:
                made_sessions.made(store, session)
        except VersionError:
            became = "by another version of fhe-auc: `session` with its credentials makes a new one"
        except KeysError:
            became = "DAMAGED: see `fhe-auc keys check`"
        else:
            became = (
                f"replaced by {other.hex()}" if other else "`session --repeat` repeats it, `session --from` replaces it"
            )
        yield "made", session, became


def _session(store: KeyStore, session: bytes, seen: datetime | None) -> dict[str, Any]:
    """Return what has become of a session: its state in a word, until when it can go on, and if its result is here.

    ``end_seen``: when its end was first `seen`.
    """
    found: dict[str, Any] = {"state": "damaged", "until": None, "has_result": False}
    try:
        ends = key_erasure.end(store, session)
        found |= {"until": ends, "has_result": Kept.stored(store, session).has_result, "end_seen": seen}
        closed = key_erasure.is_closed(store, session)
        state = "closed" if closed else "ended" if common.now() > ends else "opened"
        if state == "opened" and not key_erasure.is_of_this_version(store, session):
            state = "of another version"
    except KeysError:
        return {**found, "end_seen": seen}
    return {**found, "state": state}


def _in_words(state: str, until: datetime | None, has_result: bool, end_seen: datetime | None) -> str:
    """Say the same in words."""
    ends = common.moment(until)
    looked = "which nobody has noted yet" if end_seen is None else f"first seen on {common.moment(end_seen)}"
    later = f"{key_erasure.APART.days} days after that was seen"
    return {
        "damaged": "DAMAGED: see `fhe-auc keys check`",
        "closed": f"closed{', with its result' if has_result else ''}; its keys are destroyed",
        "ended": f"ended on {ends}, {looked}: `fhe-auc serve` destroys its keys {later}",
        "of another version": "of another version of fhe-auc: it does not go on here; make a new session, and "
        "close this one (`fhe-auc keys close SESSION --lose-result`)",
        "opened": f"opened; what it needs is here, until {ends}",
    }[state]


def _authority_rows(authority: Authority, rows: common.Rows) -> dict[str, Any]:
    """Add to `rows` what an authority is and has issued; return the same for JSON."""
    certificate = authority.certificate
    name, own = subject_name(certificate.subject), fingerprint(certificate)
    rows += [
        ("authority", name, f"its private key is here; {_validity(certificate)}"),
        ("fingerprint", own, "SHA-256 of its certificate"),
    ]
    issued = []
    for line in authority.register:
        ends = datetime.fromtimestamp(line.not_after, timezone.utc)
        state = "REVOKED" if line.revoked else f"valid until {common.moment(ends)}"
        rows.append(("issued", line.serial, f"{line.name}: {state}"))
        issued.append({"name": line.name, "serial": line.serial, "not_after": ends, "revoked": bool(line.revoked)})
    return {"name": name, "fingerprint": own, "issued": issued}
