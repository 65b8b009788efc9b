"""The options that name a key store and say whom to trust, and whom it trusts, in words."""

import functools
import getpass
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import StoreError
from fhe_auc_keys.store import list_places
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.list_places import is_url, with_lists_of
from fhe_auc_keys.store.trusted_authorities import Trusted, read_certificates
from fhe_auc_keys.store.vault import PASSPHRASE_VARIABLE, Vault, certified_identity
from fhe_auc_keys.trust.certificates import Trust
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.public_keys import fingerprint, subject_name

STORE_VARIABLE = "FHE_AUC_STORE"


def ask_hidden(question: str, *, otherwise: str, confirm: bool = False) -> str:
    """Ask on the terminal without echo; `InputError` with the advice `otherwise` where there is no terminal."""
    with warnings.catch_warnings():
        # Without a terminal, getpass warns and goes on to read what was typed in full view.
        warnings.simplefilter("error", getpass.GetPassWarning)
        try:
            answer: str = click.prompt(question, hide_input=True, confirmation_prompt=confirm, err=True)
        except getpass.GetPassWarning:
            raise InputError(f"no terminal to ask for the {question[:1].lower()}{question[1:]}: {otherwise}") from None
    return answer


def key_store(command: Callable[..., Any], *, required: bool = True) -> Callable[..., Any]:
    """Decorate a command: it receives ``vault``, a `Vault`, or None where none is `required`."""

    @click.option(
        "--store",
        metavar="DIR",
        type=click.Path(file_okay=False, path_type=Path),
        envvar=STORE_VARIABLE,
        show_envvar=True,
        required=required,
        help="Key store: a folder that only you can read.",
    )
    @common.file_option(
        "--passphrase-file",
        help=f"Read the passphrase from FILE (mode 600). Without: {PASSPHRASE_VARIABLE}, else it is asked for.",
    )
    @functools.wraps(command)
    def with_store(
        *args: Any, store: Path | None, passphrase_file: Path | None, random_file: Path | None = None, **options: Any
    ) -> Any:
        if passphrase_file is not None and random_file is not None:
            raise click.UsageError("give --passphrase-file, or --random-passphrase, and not both")
        file = passphrase_file or random_file
        vault = None if store is None else Vault(store, file, _ask, _Watched, random=random_file is not None)
        return command(*args, vault=vault, **options)

    return with_store


def new_key_store(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command as `key_store` does that makes one where none is; its passphrase may be a random one."""
    return click.option(
        "--random-passphrase",
        "random_file",
        metavar="FILE",
        type=common.NEW_FILE,
        help="Write a random passphrase of 256 bits to the new FILE, and make the key store with it, which opens at "
        "once. Other commands get it by --passphrase-file.",
    )(key_store(command))


class _Watched(KeyStore):
    """A key store that says, once a command is done with it, which revocation lists end soon."""

    def __exit__(self, *error: object) -> None:
        with suppress(StoreError):  # a damaged store is another matter
            for ending in Trusted.stored(self).ending(at=common.now()):
                output.print_warning(ending)
        super().__exit__(*error)


def _ask(question: str, new: bool) -> str:
    advice = f"set {PASSPHRASE_VARIABLE} or give --passphrase-file"
    return ask_hidden(question, otherwise=advice, confirm=new)


_EXISTING = click.Path(exists=True)


def _places(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return places of revocation lists: URLs, and files and folders that exist."""
    return tuple(each if is_url(each) else str(_EXISTING.convert(each, param, ctx)) for each in values)


authority_option = common.file_option(
    "--authority", "authorities", multiple=True, help="Certificate (PEM) of an authority to trust. May be repeated."
)
"""Decorator: the command receives ``authorities``, a tuple of Path."""

list_option = click.option(
    "--revocation-list",
    "lists",
    metavar="PLACE",
    multiple=True,
    callback=_places,
    help="Newer revocation list of an authority that is trusted: a file, a folder of lists (*.crl) or a URL (https:, "
    "file:). May be repeated.",
)
"""Decorator: the command receives ``lists``, a tuple of str, for `extended` and `renewed`."""


@dataclass(frozen=True)
class TrustOptions:
    """Whom a command that changes nothing is told to trust: the key store's authorities, and others besides."""

    vault: Vault | None
    authorities: tuple[Path, ...]
    lists: tuple[str, ...]

    def trusted(self) -> Trusted | None:
        """Return them, None where nobody is named; nobody is asked to confirm fingerprints. Errors as `extended`."""
        trusted = None
        if self.vault is not None:
            with self.vault.open() as store:
                trusted = Trusted.stored(store)
        if self.authorities or self.lists:
            trusted = trusted or Trusted()
            found = [each for path in self.authorities for each in read_certificates(path)]
            trusted = extended(replace(trusted, authorities=(*trusted.authorities, *found)), (), self.lists, ())
        return trusted


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that changes nothing: it receives ``options``, a `TrustOptions`."""

    @functools.partial(key_store, required=False)
    @authority_option
    @list_option
    @functools.wraps(command)
    def with_trust(
        *args: Any, vault: Vault | None, authorities: tuple[Path, ...], lists: tuple[str, ...], **options: Any
    ) -> Any:
        return command(*args, options=TrustOptions(vault, authorities, lists), **options)

    return with_trust


def extended(
    trusted: Trusted, authorities: Sequence[Path], lists: Sequence[str], fingerprints: Sequence[bytes]
) -> Trusted:
    """Return `trusted` with more authorities, each confirmed by its fingerprint, and with newer revocation lists.

    Errors are those of `confirm` and `Trusted.with_list`, and `InputError` for a file of another kind.
    """
    for path in authorities:
        for each in read_certificates(path):
            if each not in trusted.authorities:
                what = f"authority {subject_name(each.subject)!r} ({path})"
                common.confirm(what, fingerprint(each), fingerprints, teller="the authority")
                trusted = replace(trusted, authorities=(*trusted.authorities, each))
    for place in lists:
        with common.about(place):
            trusted = with_lists_of(trusted, place)
    return trusted


def renewed(store: KeyStore, lists: Sequence[str]) -> Trusted:
    """Return whom a store trusts, with newer lists: these, and those it fetches, or warns that it cannot."""
    before = list_places.renewed(store, output.print_warning)
    trusted = extended(before, (), lists, ())
    if trusted != before:
        trusted.keep(store)
    return trusted


@contextmanager
def opened(vault: Vault, lists: Sequence[str]) -> Iterator[tuple[KeyStore, Identity, Trust]]:
    """Open the key store of a certified role; yield it, the role's identity, and whom it trusts after `renewed`.

    What it need not keep any more of sessions that have ended is erased.
    """
    with vault.open() as store:
        yield store, certified_identity(store), renewed(store, lists).trust


def rows(trusted: Trusted) -> common.Rows:
    """Say for a table whom a site trusts."""
    found: common.Rows = [
        ("trusts", subject_name(each.subject), f"valid until {common.moment(each.not_valid_after_utc)}")
        for each in trusted.authorities
    ]
    for each in trusted.lists:
        counts = f"of {common.moment(each.last_update_utc)}, accepted until {common.moment(each.next_update_utc)}"
        found.append(("revocation list", subject_name(each.issuer), counts))
    fetched = "where commands and `serve` look for newer lists"
    return [*found, *(("lists come from", place, fetched) for place in trusted.places)]


def as_dict(trusted: Trusted) -> dict[str, Any]:
    """Say for JSON whom a site trusts."""
    authorities = [
        {"name": subject_name(each.subject), "fingerprint": fingerprint(each), "not_after": each.not_valid_after_utc}
        for each in trusted.authorities
    ]
    lists = [
        {
            "authority": subject_name(each.issuer),
            "last_update": each.last_update_utc,
            "next_update": each.next_update_utc,
        }
        for each in trusted.lists
    ]
    return {"authorities": authorities, "revocation_lists": lists, "revocation_list_places": trusted.places}
