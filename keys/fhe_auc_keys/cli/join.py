"""``fhe-auc join`` and ``fhe-auc members new``: a role is made (`fhe_auc_keys.site.joining_files`), and its process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.cli import output
from fhe_auc.cli.inputs import option, whole_number
from fhe_auc.cli.serve import serve
from fhe_auc.exchange.exchange import make_folder, place_of
from fhe_auc.exchange.remote import open_exchange
from fhe_auc.machines import service
from fhe_auc.question.study import Study
from fhe_auc.report.studies import check_study
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import policy
from fhe_auc_keys.site.joining_files import NewRole
from fhe_auc_keys.store import known_members
from fhe_auc_keys.trust.join_request import REQUEST, comparison, link, request, split_link
from fhe_auc_keys.trust.members import MAX_DAYS, Member, found_consortium
from fhe_auc_keys.trust.public_keys import check_name, printable
from fhe_auc_keys.trust.published import Published

days_option = whole_number("--days", 1, MAX_DAYS, default=365, about="How long the file counts.")
_COMPARED = "The 16 characters that the other side has read out, in place of being asked. May be repeated."
compared_option = option("--compared TEXT", _COMPARED, multiple=True)
_ROLE = "What it does in sessions: site, aggregator or helper."
_FOLDER = "The role's own folder: key store, passphrase, configuration, state. Default: one that is called as it."


def _makes_role(command: Callable[..., tuple[str, dict[str, Any], common.Rows]]) -> Callable[..., common.Report]:
    """Decorate a command that makes a role: it receives ``role``, and returns the exchange, and what it has done.

    Then the role is configured, and its service started; without systemd it serves here, in the foreground.
    """

    @click.argument("name", metavar="NAME")
    @option("--role ROLE", _ROLE, type=click.Choice(("site", "aggregator", "helper")), default="site")
    @option("--data PATH", "A site's rows; it may be written into the configuration later.")
    @option("--folder DIR", _FOLDER, type=common.FOLDER)
    @option("--no-start", "Start no process; `fhe-auc serve CONFIG` does.")
    @wraps(command)
    def with_role(
        *args: Any, name: str, role: str, data: str | None, folder: Path | None, no_start: bool, **options: Any
    ) -> common.Report:
        made = NewRole(name, role, data, folder or Path(common.file_stem(check_name(name))))
        exchange, facts, rows = command(*args, role=made, **options)
        config = made.configured(exchange)
        facts |= {"name": name, "config": config, "folder": made.folder}
        if no_start:
            return common.Report(facts, [*rows, ("start", f"fhe-auc serve {config}", "and keep it running")])
        if unit := service.start(config, name):
            return common.Report(facts, [*rows, ("started", unit, "")])
        here = "there is no systemd that takes units: this command serves, until it is ended; `fhe-auc serve` goes on"
        serves = partial(click.get_current_context().invoke, serve, config=config, once=False)
        return common.Report(facts, [*rows, ("serves", str(config), here)], then=serves)

    return with_role


@common.command(
    "Found a consortium.",
    "fhe-auc members new /srv/exchange north --data /srv/data/rows.csv",
    "fhe-auc members new s3://bucket/auc north",
    name="new",
)
@click.argument("exchange", metavar="EXCHANGE")
@common.reported
@_makes_role
@days_option
def new(exchange: str, role: NewRole, days: int) -> tuple[str, dict[str, Any], common.Rows]:
    """Found a consortium, whose coordinator is NAME; files are exchanged in EXCHANGE, a folder or a URL.

    Makes NAME's own role, too, as `join` does. The link that is printed goes to everybody who takes part: it says where
    the exchange is, and the fingerprint of the first members' file, but gives no access. Done again it goes on where it
    was.
    """
    where = common.absolute(exchange)
    if "://" not in where:
        make_folder(Path(where))
    published = Published(open_exchange(where))
    with role.opened() as (store, identity):
        if known_members.known(store) is None:
            known_members.keep(store, found_consortium(role.name, identity.keys, days=days, at=common.now()))
        known = known_members.stored(store)
        if published.has_another(known):
            raise InputError(f"there is a consortium in {where!r} already: take another exchange, or join that one")
        known_members.renewed(store, published, role.name)
        warn_of(published)
    shown = link(where, known.root)
    rows: common.Rows = [
        ("coordinator", role.name, f"keys and configuration in {str(role.folder)!r}"),
        ("link", shown, "to everybody who takes part: `fhe-auc join LINK NAME`"),
    ]
    return where, {"link": shown}, rows


@common.command(
    "Take part in a consortium.",
    "fhe-auc join s3://bucket/auc#bg7hgxly6duqngrnsj4trhehpwje2avx south --data /srv/data/rows.csv --study study.toml",
    "fhe-auc join '/srv/exchange#bg7hgxly6duqngrnsj4trhehpwje2avx' adder --role aggregator",
)
@click.argument("link", metavar="LINK")
@common.reported
@_makes_role
@option("--study FILE", "A study that came with the link: agree to it here.", type=common.FILE)
@compared_option
def join(
    link: str, role: NewRole, study: Path | None, compared: tuple[str, ...]
) -> tuple[str, dict[str, Any], common.Rows]:
    """Take part as NAME in the consortium of the LINK that its coordinator has sent.

    Makes private keys in a new key store, whose random passphrase lies beside it, and puts a request into the exchange.
    Then 16 characters are shown: call the coordinator by a number that you know, and compare; `members admit` shows the
    same there. They are of your keys and of the consortium's first file, so that nobody in between is another one to
    either side. Once they are the same on both sides, the role's process starts, which takes part as soon as it is in.

    A study is shown, and what it makes is answered without a person once you have agreed to it; else see `pending`.
    Done again it goes on where it was.
    """
    where, root = split_link(link)
    exchange = open_exchange(where := common.absolute(where))
    published = Published(exchange)
    known = published.joined(root)
    warn_of(published)
    with role.opened() as (store, identity):
        line = identity.line
        known = known_members.newest(store, known)  # the exchange may withhold what was seen before
    is_in = known.by_name.get(role.name) == line
    if not is_in:
        exchange.put(place_of(role.name) + REQUEST, request(line))
    compare(known.root, line, f"the coordinator ({', '.join(known.coordinators)})", compared)
    agreed = None if study is None else _agreed(study, role.name)
    with role.opened() as (store, _):
        known_members.keep(store, known_members.newest(store, known))
        if agreed is not None:
            policy.agree(store, agreed)
    state = "is a member" if is_in else "waits to be let in, and goes on by itself"
    return where, {"member": is_in}, [(role.name, state, str(role.config))]


def compare(root: bytes, line: Member, teller: str, given: tuple[str, ...]) -> None:
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


def warn_of(published: Published) -> None:
    """Say what is wrong with the members' files in the exchange."""
    for wrong in published.wrong:
        output.print_warning(printable(wrong))


def _agreed(file: Path, name: str) -> Study:
    """Show a study, and return it; `InputError` where it cannot be, or is not the role's, `KeysError` for a no."""
    study = Study.read(file)
    check_study(study)
    if name not in (*study.sites, study.helper):
        raise InputError(f"{name!r} takes no part in the study", file=str(file))
    click.echo("".join(f"    {label:<18}{text}\n" for _, label, text in study.lines()), err=True)
    nobody = "nobody is there to agree to the study: leave --study out, and see `fhe-auc pending` later"
    if not common.agreed("Answer the sessions that this study makes from now on?", nobody=nobody):
        raise KeysError("the study is not agreed to: join without it, or ask its maker to change it")
    return study
