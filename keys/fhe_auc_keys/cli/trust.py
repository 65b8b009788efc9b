"""The options that say whom to trust, and whom a key store trusts, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from fhe_auc.cli import output
from fhe_auc_keys.cli import common
from fhe_auc_keys.public_keys import fingerprint, subject_name
from fhe_auc_keys.store import KeyStore
from fhe_auc_keys.trusted_authorities import Trusted, read_certificates, read_list

authority_option = click.option(
    "--authority",
    "authorities",
    metavar="FILE",
    multiple=True,
    type=common.FILE,
    help="Certificate (PEM) of an authority to trust. May be repeated.",
)
"""Decorator: the command receives ``authorities``, a tuple of Path."""

list_option = click.option(
    "--revocation-list",
    "lists",
    metavar="FILE",
    multiple=True,
    type=common.FILE,
    help="Revocation list of an authority that is trusted; an older one is refused. May be repeated.",
)
"""Decorator: the command receives ``lists``, a tuple of Path."""


def extended(
    trusted: Trusted, authorities: Sequence[Path], lists: Sequence[Path], fingerprints: Sequence[bytes]
) -> Trusted:
    """Return `trusted` with more authorities, each confirmed by its fingerprint, and with newer revocation lists.

    Raise `InputError` where a file is of another kind, or nobody is there to confirm a fingerprint;
    `UnknownIssuerError` where that is another one, and further errors as `Trusted.with_list`.
    """
    for path in authorities:
        for each in read_certificates(path):
            if each not in trusted.authorities:
                what = f"authority {subject_name(each.subject)!r} ({path})"
                common.confirm(what, fingerprint(each), fingerprints, teller="the authority")
                trusted = replace(trusted, authorities=(*trusted.authorities, each))
    for path in lists:
        new = read_list(path)
        with common.about(path):
            trusted = trusted.with_list(new)
    return trusted


def renewed(store: KeyStore, lists: Sequence[Path]) -> Trusted:
    """Return whom a store trusts, after taking newer revocation lists into it."""
    trusted = Trusted.stored(store)
    if lists:
        trusted = extended(trusted, (), lists, ())
        trusted.keep(store)
    return trusted


def rows(trusted: Trusted) -> list[tuple[output.Cell, ...]]:
    """Say for a table whom a site trusts."""
    return [
        *(
            ("trusts", subject_name(each.subject), f"valid until {common.moment(each.not_valid_after_utc)}")
            for each in trusted.authorities
        ),
        *(
            (
                "revocation list",
                subject_name(each.issuer),
                f"of {common.moment(each.last_update_utc)}, accepted until {common.moment(each.next_update_utc)}",
            )
            for each in trusted.lists
        ),
    ]


def as_dict(trusted: Trusted) -> dict[str, Any]:
    """Say for JSON whom a site trusts."""
    return {
        "authorities": [
            {
                "name": subject_name(each.subject),
                "fingerprint": fingerprint(each).hex(),
                "not_after": common.moment(each.not_valid_after_utc),
            }
            for each in trusted.authorities
        ],
        "revocation_lists": [
            {
                "authority": subject_name(each.issuer),
                "last_update": common.moment(each.last_update_utc),
                "next_update": common.moment(each.next_update_utc),
            }
            for each in trusted.lists
        ],
    }
