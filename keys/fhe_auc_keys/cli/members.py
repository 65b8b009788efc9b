"""``fhe-auc members …`` and ``fhe-auc join``: who is in a consortium, and how somebody gets in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, NamedTuple

import click

from fhe_auc.base.errors import FheAucError, InputError
from fhe_auc.base.exchange import Exchange, make_folder, place_of
from fhe_auc.base.files import read_config
from fhe_auc.base.remote import open_exchange
from fhe_auc.cli import output
from fhe_auc.cli.inputs import whole_number
from fhe_auc.cli.serve import serve
from fhe_auc.machines import service
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import KeysError, UnsignedError
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.key_store import KeyStore, is_in
from fhe_auc_keys.store.known_members import file_of
from fhe_auc_keys.store.vault import OWN, Vault, create_with_random_passphrase
from fhe_auc_keys.trust.identity import Identity
from fhe_auc_keys.trust.members import (
    MAX_BYTES,
    MAX_DAYS,
    MAX_REQUEST,
    REQUEST,
    Change,
    Line,
    Members,
    comparison,
    countersign,
    found,
    link,
    request,
    requested,
    split_link,
)
from fhe_auc_keys.trust.public_keys import check_name, printable

CONFIG = "config.toml"
_ROLES = ("site", "aggregator", "helper")
_HELP = """Who is in a consortium: one signed file, of names and public keys.

\b
coordinator   members new      founds the consortium; prints the link by which others join
everybody     join             makes keys, and asks to be let in
coordinator   members admit    lets in who has asked, after a comparison by telephone
coordinator   members remove   leaves somebody out
coordinator   members renew    makes the file count for another year; changes who coordinates
coordinator   members sign     signs what another coordinator has changed
everybody     members show     shows who is in, and who waits

The coordinator is one of the members. A change counts for everybody once their process has seen the new file, which
lies in the exchange.
"""


@click.group(cls=common.InOrder, help=_HELP, short_help="Say who is in a consortium.")
def members() -> None:
    """Say who is in a consortium."""


_days_option = whole_number("--days", 1, MAX_DAYS, default=365, about="How long the file counts.")
_folder_option = click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The role's own folder: key store, passphrase, configuration, state. Default: one that is called as it.",
)
_compared_option = click.option(
    "--compared",
    metavar="TEXT",
    multiple=True,
    help="The 16 characters that the other side has read out, in place of being asked. May be repeated.",
)


def _role_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command that makes a role: it receives ``role``, ``data``, ``folder`` and ``starts``."""
    for option in (
        click.option(
            "--no-start",
            "starts",
            is_flag=True,
            flag_value=False,
            default=True,
            help="Start no process; `fhe-auc serve CONFIG` does.",
        ),
        _folder_option,
        click.option("--data", metavar="PATH", help="A site's rows; it may be written into the configuration later."),
        click.option("--role", type=click.Choice(_ROLES), default="site", help="What it does in sessions."),
    ):
        command = option(command)
    return command


class _Coordinated(NamedTuple):
    """What a command works with that somebody's configuration names."""

    store: KeyStore
    identity: Identity
    members: Members
    exchange: Exchange
    where: str  # the exchange, as the configuration has it

    def publish(self, data: bytes) -> common.Report:
        """Sign a next members' file and put it into the exchange; say whether it counts already."""
        signed = countersign(data, self.identity.keys)
        now, me = self.members.proposed(signed), self.identity.name
        if me not in (*self.members.coordinators, *now.coordinators):
            raise KeysError(f"{me!r} is no coordinator: {', '.join(self.members.coordinators)} may change who is in")
        self.exchange.put(file_of(now.version), signed)
        lacking = ""
        try:
            known_members.keep(self.store, self.members.newer(signed))
        except UnsignedError as error:
            lacking = f"{error}: another coordinator signs it, by `fhe-auc members sign CONFIG`"
        names = ", ".join(member.name for member in now.members)
        rows: common.Rows = [
            ("members", f"version {now.version}", names),
            ("counts", "not yet" if lacking else f"until {common.moment(now.ends)}", lacking),
        ]
        facts = {"version": now.version, "members": [member.name for member in now.members], "signed": not lacking}
        return common.Report(facts, rows)

    def changed(self, change: Change, days: int) -> common.Report:
        """Make and publish the next version; `KeysError` where one waits for signatures."""
        if self.waiting() is not None:
            raise KeysError(
                f"version {self.members.version + 1} of the members' file waits for signatures (fhe-auc members sign): "
                f"have it signed, or remove {file_of(self.members.version + 1)} from the exchange"
            )
        return self.publish(self.members.next_version(change, days=days, at=common.now()))

    def waiting(self) -> bytes | None:
        """Return the next version where it is there, and lacks signatures."""
        try:
            return self.exchange.read(file_of(self.members.version + 1), MAX_BYTES)
        except FileNotFoundError:
            return None

    def requests(self) -> Iterator[Line]:
        """Yield all requests in the exchange that are genuine, and news."""
        for place in sorted(self.exchange.list("")):
            if not place.endswith("/"):
                continue
            try:
                line = requested(self.exchange.read(place + REQUEST, MAX_REQUEST))
            except FileNotFoundError:
                continue
            except (FheAucError, OSError) as error:
                output.print_warning(printable(f"{place}{REQUEST} is passed over: {error}"))
                continue
            known = self.members.by_name.get(line.name)
            if place_of(line.name) == place and (known is None or known != line.member):
                yield line


def _coordinated(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a command: it receives ``own``, whose key store is open, of a role's configuration."""

    @click.argument("config", metavar="CONFIG", type=common.FILE)
    @wraps(command)
    def with_store(*args: Any, config: Path, **options: Any) -> Any:
        with coordinated(config) as own:
            return command(*args, own=own, **options)

    return with_store


@contextmanager
def coordinated(config: Path) -> Iterator[_Coordinated]:
    """Open the key store that a role's configuration names, with the newest members' file out of its exchange."""
    given = read_config(config, None)
    for name in ("store", "passphrase-file", "exchange"):
        if not isinstance(given.get(name), str):
            raise InputError(f"{config}: {name} is not configured", file=str(config))
    exchange = open_exchange(given["exchange"])
    vault = Vault(config.parent / given["store"], config.parent / given["passphrase-file"])
    with vault.open() as store:
        known = known_members.renewed(store, exchange)
        identity = Identity.from_bytes(store.get("identity", OWN))
        yield _Coordinated(store, identity, known, exchange, given["exchange"])


@common.command(
    "Found a consortium.",
    "fhe-auc members new /srv/exchange north --data /srv/data/rows.csv",
    "fhe-auc members new s3://bucket/auc north",
    name="new",
)
@click.argument("exchange", metavar="EXCHANGE")
@click.argument("name", metavar="NAME")
@_role_options
@_days_option
@common.reported
def new(
    exchange: str, name: str, role: str, data: str | None, folder: Path | None, starts: bool, days: int
) -> common.Report:
    """Found a consortium, whose coordinator is NAME; files are exchanged in EXCHANGE, a folder or a URL.

    Makes NAME's own role, too, as `join` does. The link that is printed goes to everybody who takes part: it says where
    the exchange is, and the fingerprint of the first members' file, but gives no access. Done again it goes on where it
    was.
    """
    where, folder = _where(exchange), folder or Path(common.file_stem(check_name(name)))
    if "://" not in where:
        make_folder(Path(where))
    lies = open_exchange(where)
    with _made(folder) as store:
        identity = _identity(store, name, folder)
        if not store.has("trust", known_members.NAME):
            known_members.keep(store, found(name, identity.keys, days=days, at=common.now()))
        known = known_members.stored(store)
    try:
        there = lies.read(file_of(1), MAX_BYTES)
    except FileNotFoundError:
        lies.put(file_of(1), there := known.files[0])
    if there != known.files[0]:
        raise InputError(f"there is a consortium in {where!r} already: take another exchange, or join that one")
    config = _configured(folder, role, where, data)
    shown = link(where, known.root)
    facts = {"name": name, "link": shown, "config": config, "folder": folder}
    rows: common.Rows = [
        ("coordinator", name, f"keys and configuration in {str(folder)!r}"),
        ("link", shown, "to everybody who takes part: `fhe-auc join LINK NAME`"),
    ]
    row, serves = _started(config, name, starts)
    return common.Report(facts, [*rows, row], then=serves)


@common.command(
    "Take part in a consortium.",
    "fhe-auc join s3://bucket/auc#bg7hgxly6duqngrnsj4trhehpwje2avx south --data /srv/data/rows.csv",
    "fhe-auc join '/srv/exchange#bg7hgxly6duqngrnsj4trhehpwje2avx' adder --role aggregator",
)
@click.argument("link", metavar="LINK")
@click.argument("name", metavar="NAME")
@_role_options
@_compared_option
@common.reported
def join(
    link: str, name: str, role: str, data: str | None, folder: Path | None, starts: bool, compared: tuple[str, ...]
) -> common.Report:
    """Take part as NAME in the consortium of the LINK that its coordinator has sent.

    Makes private keys in a new key store, whose random passphrase lies beside it, and puts a request into the exchange.
    Then 16 characters are shown: call the coordinator by a number that you know, and compare; `members admit` shows the
    same there. They are of your keys and of the consortium's first file, so that nobody in between is another one to
    either side. Once they are the same on both sides, the role's process starts, which takes part as soon as it is in.

    Done again it goes on where it was.
    """
    where, root = split_link(link)
    where = _where(where)
    folder = folder or Path(common.file_stem(check_name(name)))
    lies = open_exchange(where)
    known = known_members.joined(lies, root)
    with _made(folder) as store:
        line = _identity(store, name, folder).line
        known = known_members.newest(store, known)  # the exchange may withhold what was seen before
    if known.by_name.get(name) != line.member:
        lies.put(place_of(name) + REQUEST, request(line))
    _compare(known.root, line, f"the coordinator ({', '.join(known.coordinators)})", compared)
    with _made(folder) as store:
        known_members.keep(store, known_members.newest(store, known))
    config = _configured(folder, role, where, data)
    is_in = known.by_name.get(name) == line.member
    state = "is a member" if is_in else "waits to be let in, and goes on by itself"
    facts = {"name": name, "member": is_in, "config": config, "folder": folder}
    row, serves = _started(config, name, starts)
    return common.Report(facts, [(name, state, str(config)), row], then=serves)


@common.command(
    "Let in who has asked.",
    "fhe-auc members admit north/config.toml           all who wait, one after the other",
    "fhe-auc members admit north/config.toml south",
)
@_coordinated
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_compared_option
@_days_option
@common.reported
def admit(own: _Coordinated, names: tuple[str, ...], compared: tuple[str, ...], days: int) -> common.Report:
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
        _compare(own.members.root, line, repr(line.name), compared)
    return own.changed(Change(admit=lines), days)


@common.command(
    "Leave somebody out.",
    "fhe-auc members remove north/config.toml south",
    "fhe-auc members remove north/config.toml south --stolen      its keys are in wrong hands",
)
@_coordinated
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option(
    "--stolen",
    is_flag=True,
    help="Its keys are in wrong hands: nothing signed with them counts any more, results of before neither.",
)
@_days_option
@common.reported
def remove(own: _Coordinated, names: tuple[str, ...], stolen: bool, days: int) -> common.Report:
    """Leave NAME out of the next members' file: it takes part in no session that is made from then on.

    What it has signed before still counts, unless its keys were stolen.
    """
    return own.changed(Change(remove=names, stolen=stolen), days)


@common.command(
    "Make the file count for another year, or change who coordinates.",
    "fhe-auc members renew north/config.toml",
    "fhe-auc members renew north/config.toml --coordinator north --coordinator south --coordinator west --signatures 2",
)
@_coordinated
@click.option("--coordinator", "coordinators", metavar="NAME", multiple=True, help="All who may sign from now on.")
@click.option("--signatures", type=click.IntRange(1), metavar="N", help="How many of them must sign.")
@_days_option
@common.reported
def renew(own: _Coordinated, coordinators: tuple[str, ...], signatures: int | None, days: int) -> common.Report:
    """Make the next members' file with the same members. New coordinators sign it, too."""
    return own.changed(Change(coordinators=coordinators or None, threshold=signatures), days)


@common.command("Sign what another coordinator has changed.", "fhe-auc members sign south/config.toml")
@_coordinated
@click.option("--yes", is_flag=True, help="In place of being asked: you know what it changes.")
@common.reported
def sign(own: _Coordinated, yes: bool) -> common.Report:
    """Show what the next members' file changes, and sign it, where it still lacks signatures."""
    data = own.waiting()
    if data is None:
        raise InputError("no members' file waits for signatures")
    then = own.members.proposed(data)
    click.echo("".join(f"{each}\n" for each in _differences(own.members, then)), err=True)
    if not yes and not common.agreed("Sign it?", nobody="nobody is there to look at the changes: give --yes"):
        raise KeysError("nothing was signed")
    return own.publish(data)


@common.command("Show who is in, and who waits.", "fhe-auc members show north/config.toml")
@_coordinated
@common.reported
def show(own: _Coordinated) -> common.Report:
    """Show the newest members' file, the link, and whose requests or which next version wait."""
    known = own.members
    waiting = [line.name for line in own.requests()]
    rows: common.Rows = [
        ("members", f"version {known.version}", f"until {common.moment(known.ends)}"),
        ("link", link(own.where, known.root), ""),
        ("signed by", f"{known.threshold} of {len(known.coordinators)}", ", ".join(known.coordinators)),
        *(("member", member.name, member.fingerprint.hex()[:16]) for member in known.members),
        *(("waits", name, "`fhe-auc members admit` lets it in") for name in waiting),
    ]
    if (data := own.waiting()) is not None:
        rows += [("next version", each, "lacks signatures") for each in _differences(known, known.proposed(data))]
    facts = {
        "version": known.version,
        "ends": known.ends,
        "link": link(own.where, known.root),
        "coordinators": known.coordinators,
        "threshold": known.threshold,
        "members": {member.name: member.fingerprint for member in known.members},
        "waiting": waiting,
    }
    return common.Report(facts, rows)


def _differences(now: Members, then: Members) -> list[str]:
    """Say what a next version changes, a line each."""
    told = [f"{member.name}: comes in" for member in then.members if member.name not in now.by_name]
    told += [f"{member.name}: is left out" for member in now.members if member.name not in then.by_name]
    told += [
        f"{name}: gets other keys"
        for name in now.by_name.keys() & then.by_name.keys()
        if now.by_name[name] != then.by_name[name]
    ]
    told += [f"keys {each.hex()[:16]}: count for nothing, as stolen" for each in then.stolen if each not in now.stolen]
    if (now.coordinators, now.threshold) != (then.coordinators, then.threshold):
        told.append(f"from then on {then.threshold} must sign of: {', '.join(then.coordinators)}")
    told += [f"a fleet of {each.number:,}: is listed" for each in then.fleets if each not in now.fleets]
    told += [f"a fleet of {each.number:,}: is listed no more" for each in now.fleets if each not in then.fleets]
    return [*told, f"it counts until {common.moment(then.ends)}"]


def _compare(root: bytes, line: Line, teller: str, given: tuple[str, ...]) -> None:
    """Make sure that the other side sees the same; raise `KeysError` where it does not."""
    shown = comparison(root, line)
    if given:
        if shown.replace(" ", "") not in ["".join(each.lower().split()) for each in given]:
            raise KeysError(f"{teller} has read out something else than {shown!r}: somebody may be in between")
        return
    click.echo(f"\n    {line.name}:   {shown}\n", err=True)
    nobody = "nobody is there to compare: give --compared"
    if not common.agreed(f"Does {teller} read out the same by telephone?", nobody=nobody):
        raise KeysError(f"{line.name!r} is not confirmed: nothing was changed")


def _where(exchange: str) -> str:
    return exchange if "://" in exchange else str(Path(exchange).absolute())


def _identity(store: KeyStore, name: str, folder: Path) -> Identity:
    """Return a store's identity, made where there is none; `InputError` where it is another's."""
    if not store.has("identity", OWN):
        store.put("identity", OWN, Identity.create(name).to_bytes())
    identity = Identity.from_bytes(store.get("identity", OWN))
    if identity.name != name:
        raise InputError(f"{str(folder)!r} is {identity.name!r}'s: give another --folder")
    return identity


def _made(folder: Path) -> KeyStore:
    """Open a role's key store, which is made where there is none."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_in(folder / "store"):
        return Vault(folder / "store", folder / "passphrase").open()
    return create_with_random_passphrase(folder / "store", folder / "passphrase")


def _configured(folder: Path, role: str, where: str, data: str | None) -> Path:
    """Write a role's configuration, unless one is there."""
    config, place = folder / CONFIG, folder.absolute()
    if config.exists():
        return config
    entries = {
        "role": role,
        "exchange": where,
        "store": str(place / "store"),
        "passphrase-file": str(place / "passphrase"),
        "state": str(place / "state"),
    }
    if role == "site":
        entries |= {"results": str(place / "results"), "data": str(Path(data).absolute()) if data else ""}
    text = "".join(f"{name} = {_toml(value)}\n" for name, value in entries.items())
    common.write(config, text.encode(), common.PRIVATE)
    return config


def _toml(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _started(config: Path, name: str, starts: bool) -> tuple[tuple[str, str, str], Callable[[], object] | None]:
    """Start a role's service; return a row that says so, and without systemd what serves here, in the foreground."""
    if not starts:
        return ("start", f"fhe-auc serve {config}", "and keep it running"), None
    if unit := service.start(config, name):
        return ("started", unit, ""), None
    here = "there is no systemd that takes units: this command serves, until it is ended; `fhe-auc serve` goes on"
    return ("serves", str(config), here), partial(click.get_current_context().invoke, serve, config=config, once=False)


for _command in (new, admit, remove, renew, sign, show):
    members.add_command(_command)
