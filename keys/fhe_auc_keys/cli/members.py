"""``fhe-auc members …``: who is in a consortium, and who changes that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.files import read_config
from fhe_auc.cli import output
from fhe_auc.cli.inputs import option, whole_number
from fhe_auc.cli.settings import CommandGroup
from fhe_auc.exchange.exchange import place_of
from fhe_auc.exchange.remote import open_exchange
from fhe_auc_keys.cli import common
from fhe_auc_keys.cli.join import compare, compared_option, days_option, new, warn_of
from fhe_auc_keys.cli.join import join as join
from fhe_auc_keys.errors import KeysError, UnsignedError
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore
from fhe_auc_keys.store.vault import Vault, own_identity
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.join_request import MAX_REQUEST, REQUEST, link, requested
from fhe_auc_keys.trust.members import Change, Member, Members, countersign
from fhe_auc_keys.trust.public_keys import printable
from fhe_auc_keys.trust.published import Published

_HELP = """Who is in a consortium: one signed file, of names and public keys.

\b
coordinator   members new      founds the consortium; prints the link by which others join
everybody     join             makes keys, and asks to be let in
coordinator   members admit    lets in who has asked, after a comparison by telephone
coordinator   members remove   leaves somebody out
coordinator   members renew    makes the file count for another year; changes who coordinates, names a fleet
coordinator   members sign     signs what another coordinator has changed
everybody     members show     shows who is in, and who waits

The coordinator is one of the members. A change counts for everybody once their process has seen the new file, which
lies in the exchange.
"""
_FLEET = (
    "Name the fleet whose Ed25519 keys are here, in place of others: Parquet files with a column key of 32 bytes, "
    "ascending from file to file."
)


@click.group(cls=CommandGroup, help=_HELP, short_help="Say who is in a consortium.")
def members() -> None:
    """Say who is in a consortium."""


@dataclass(frozen=True)
class _Own:
    """What a command works with that somebody's configuration names."""

    store: KeyStore
    identity: Identity
    members: Members
    published: Published
    where: str  # the exchange, as the configuration has it

    def publish(self, data: bytes) -> common.Report:
        """Sign a next members' file and put it into the exchange; say whether it counts already."""
        signed, me = countersign(data, self.identity.keys), self.identity.name
        now = self.members.newer(signed, signed=False)
        if me not in (*self.members.coordinators, *now.coordinators):
            raise KeysError(f"{me!r} is no coordinator: {', '.join(self.members.coordinators)} may change who is in")
        self.published.publish(self.members, signed, me)
        lacking = ""
        try:
            known_members.keep(self.store, self.members.newer(signed))
        except UnsignedError as error:
            lacking = f"{error}: another coordinator signs it, by `fhe-auc members sign CONFIG`"
        rows: common.Rows = [
            ("members", f"version {now.version}", ", ".join(now.by_name)),
            ("counts", "not yet" if lacking else f"until {common.moment(now.ends)}", lacking),
        ]
        return common.Report({"version": now.version, "members": list(now.by_name), "signed": not lacking}, rows)

    def changed(self, change: Change, days: int) -> common.Report:
        """Make and publish the next version; `KeysError` where one waits for signatures."""
        if waiting := self.published.waiting(self.members):
            files = ", ".join(each.file for each in waiting)
            raise KeysError(
                f"version {self.members.version + 1} of the members' file waits for signatures (fhe-auc members sign): "
                f"have it signed, or remove {files} from the exchange"
            )
        return self.publish(self.members.next_version(change, days=days, at=common.now()))

    def requests(self) -> Iterator[Member]:
        """Yield all requests in the exchange that are genuine, and news."""
        exchange = self.published.exchange
        for place in sorted(exchange.list("")):
            if not place.endswith("/"):
                continue
            try:
                line = requested(exchange.read(place + REQUEST, MAX_REQUEST))
            except FileNotFoundError:
                continue
            except (FheAucError, OSError) as error:
                output.print_warning(printable(f"{place}{REQUEST} is passed over: {error}"))
                continue
            if place_of(line.name) == place and self.members.by_name.get(line.name) != line:
                yield line


def _with_own(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``own``, whose key store is open, of a role's configuration.

    The newest members' file out of its exchange is in that store.
    """

    @click.argument("config", metavar="CONFIG", type=common.FILE)
    @wraps(command)
    def with_store(*args: Any, config: Path, **options: Any) -> Any:
        given = read_config(config, None)
        for name in ("store", "passphrase-file", "exchange"):
            if not isinstance(given.get(name), str):
                raise InputError(f"{config}: {name} is not configured", file=str(config))
        published = Published(open_exchange(given["exchange"]))
        vault = Vault(config.parent / given["store"], config.parent / given["passphrase-file"])
        with vault.open() as store:
            identity = own_identity(store)
            known = known_members.renewed(store, published, identity.name, everywhere=True)
            warn_of(published)
            return command(*args, own=_Own(store, identity, known, published, given["exchange"]), **options)

    return with_store


@common.command(
    "Let in who has asked.",
    "fhe-auc members admit north/config.toml           all who wait, one after the other",
    "fhe-auc members admit north/config.toml south",
)
@_with_own
@click.argument("names", metavar="[NAME]...", nargs=-1)
@compared_option
@days_option
@common.reported
def admit(own: _Own, names: tuple[str, ...], compared: tuple[str, ...], days: int) -> common.Report:
    """Let in those of NAME, or all who wait, and make the next members' file.

    For each 16 characters are shown: compare them by telephone with what `join` shows there, with somebody whom you
    know. Who is a member already, and has made new keys, gets these in place of the old ones.
    """
    waiting = {line.name: line for line in own.requests()}
    if missing := [name for name in names if name not in waiting]:
        raise InputError(f"{missing[0]!r} has not asked to be let in; those who have: {', '.join(waiting) or 'nobody'}")
    if not waiting:
        raise InputError("nobody waits to be let in")
    lines = [waiting[name] for name in names or waiting]
    for line in lines:
        if line.name in own.members.by_name:
            output.print_warning(f"{line.name!r} is a member with other keys, in place of which these come")
        compare(own.members.root, line, repr(line.name), compared)
    return own.changed(Change(admit=lines), days)


@common.command(
    "Leave somebody out.",
    "fhe-auc members remove north/config.toml south",
    "fhe-auc members remove north/config.toml south --stolen      its keys are in wrong hands",
)
@_with_own
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@option("--stolen", "Its keys are in wrong hands: nothing signed with them counts any more, results of before neither.")
@days_option
@common.reported
def remove(own: _Own, names: tuple[str, ...], stolen: bool, days: int) -> common.Report:
    """Leave NAME out of the next members' file: it takes part in no session that is made from then on.

    What it has signed before still counts, unless its keys were stolen.
    """
    return own.changed(Change(remove=names, stolen=stolen), days)


@common.command(
    "Make the file count for another year; change who coordinates, or who is in a fleet.",
    "fhe-auc members renew north/config.toml",
    "fhe-auc members renew north/config.toml --fleet keys",
    "fhe-auc members renew north/config.toml --coordinator north --coordinator south --coordinator west --signatures 2",
)
@_with_own
@option("--coordinator NAME", "All who may sign from now on.", name="coordinators", multiple=True)
@whole_number("--signatures", 1, about="How many of them must sign.")
@option("--fleet FOLDER", _FLEET)
@days_option
@common.reported
def renew(
    own: _Own, coordinators: tuple[str, ...], signatures: int | None, fleet: str | None, days: int
) -> common.Report:
    """Make the next members' file with the same members. New coordinators sign it, too."""
    fleets = None
    if fleet is not None:
        from fhe_auc_keys.fleet.tables import listed  # which loads pyarrow

        fleets = [listed(fleet)]
    return own.changed(Change(coordinators=coordinators or None, threshold=signatures, fleets=fleets), days)


@common.command("Sign what another coordinator has changed.", "fhe-auc members sign south/config.toml")
@_with_own
@option("--yes", "In place of being asked: you know what it changes.")
@common.reported
def sign(own: _Own, yes: bool) -> common.Report:
    """Show what the next members' file changes, and sign it, where it still lacks signatures."""
    waiting = own.published.waiting(own.members)
    if not waiting:
        raise InputError("no members' file waits for signatures")
    if len(waiting) > 1:
        files = " and ".join(each.file for each in waiting)
        raise KeysError(f"{files} are different changes, and one alone can be made: remove the others")
    click.echo("".join(f"{each}\n" for each in _differences(own.members, waiting[0].members)), err=True)
    if not yes and not common.agreed("Sign it?", nobody="nobody is there to look at the changes: give --yes"):
        raise KeysError("nothing was signed")
    return own.publish(waiting[0].data)


@common.command("Show who is in, and who waits.", "fhe-auc members show north/config.toml")
@_with_own
@common.reported
def show(own: _Own) -> common.Report:
    """Show the newest members' file, the link, and whose requests or which next version wait."""
    known = own.members
    waiting = [line.name for line in own.requests()]
    rows: common.Rows = [
        ("members", f"version {known.version}", f"until {common.moment(known.ends)}"),
        ("link", link(own.where, known.root), ""),
        ("signed by", f"{known.threshold} of {len(known.coordinators)}", ", ".join(known.coordinators)),
        *(("member", name, member.fingerprint.hex()[:16]) for name, member in known.by_name.items()),
        *(("waits", name, "`fhe-auc members admit` lets it in") for name in waiting),
    ]
    for each in own.published.waiting(known):
        rows += [("next version", told, f"{each.file} lacks signatures") for told in _differences(known, each.members)]
    facts = {
        "version": known.version,
        "ends": known.ends,
        "link": link(own.where, known.root),
        "coordinators": known.coordinators,
        "threshold": known.threshold,
        "members": {name: member.fingerprint for name, member in known.by_name.items()},
        "waiting": waiting,
    }
    return common.Report(facts, rows)


def _differences(now: Members, then: Members) -> list[str]:
    """Say what a next version changes, a line each."""
    told = [f"{name}: comes in" for name in then.by_name if name not in now.by_name]
    told += [f"{name}: is left out" for name in now.by_name if name not in then.by_name]
    told += [f"{name}: gets other keys" for name, line in then.by_name.items() if now.by_name.get(name, line) != line]
    told += [f"keys {each.hex()[:16]}: count for nothing, as stolen" for each in then.stolen if each not in now.stolen]
    if (now.coordinators, now.threshold) != (then.coordinators, then.threshold):
        told.append(f"from then on {then.threshold} must sign of: {', '.join(then.coordinators)}")
    told += [f"a fleet of {each.number:,}: is listed" for each in then.fleets if each not in now.fleets]
    told += [f"a fleet of {each.number:,}: is listed no more" for each in now.fleets if each not in then.fleets]
    return [*told, f"it counts until {common.moment(then.ends)}"]


for _command in (new, admit, remove, renew, sign, show):
    members.add_command(_command)
