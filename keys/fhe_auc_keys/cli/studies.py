"""``fhe-auc session make``: the sessions of a study; ``fhe-auc pending``: what waits for a person at a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import read_config, write_atomically
from fhe_auc.cli import output
from fhe_auc.cli.inputs import option
from fhe_auc.cli.serve import CONFIG
from fhe_auc.cli.settings import CommandGroup
from fhe_auc.exchange.remote import open_exchange
from fhe_auc.machines.role_config import ENTRIES
from fhe_auc.machines.serve import DECIDED
from fhe_auc.question.study import Study
from fhe_auc_keys.bundles.announcement import claimed, open_announcement
from fhe_auc_keys.cli import common
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site import making, policy
from fhe_auc_keys.site.key_store_sites import vault_of
from fhe_auc_keys.store import known_members
from fhe_auc_keys.store.vault import Vault, own_identity
from fhe_auc_keys.trust.public_keys import printable
from fhe_auc_keys.trust.published import Published


@click.group(cls=CommandGroup)
def session() -> None:
    """Make the sessions of a study; `fhe-auc serve` answers them, and makes those that follow."""


@common.command(
    "Make a study's sessions, from now on.",
    "fhe-auc session make study.toml north.toml            now, and whenever it is due, by `fhe-auc serve`",
    "fhe-auc session make study.toml north.toml --again    once more, where the last one has failed",
    name="make",
)
@click.argument("study_file", metavar="STUDY", type=common.FILE)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@option("--again", "Make this turn's sessions once more; at each site a person is asked.")
@common.reported
def make(study_file: Path, config: Path, again: bool) -> common.Report:
    """Make the session that STUDY asks for now, as its maker, the site that CONFIG is for.

    STUDY (TOML) says what is evaluated, who takes part, and how often; docs/guide/keys.md has all its entries. What
    cannot work is refused here. Run twice, or after a crash, this makes one session in each hour, day, week or month
    of the study, and says so. Whatever the study asks for next, `fhe-auc serve` makes when it is due: the evaluation
    once thresholds are found, a report's sessions, the next day's. Who is no member any more is left out.
    """
    settings = read_config(config, ENTRIES["site"])
    if not settings.get("results"):
        raise InputError(f"{config}: results is not configured, and a maker is a party")
    study = Study.read(study_file)
    try:
        with vault_of(settings).open() as store, output.progress("Making keys"):
            making.begin(store, study, again=again)
            exchange = open_exchange(str(settings["exchange"]))
            members = known_members.renewed(store, Published(exchange), own_identity(store).name)
            stands = making.make_due(settings, store, exchange, members)
    except InputError as error:
        raise error.within(f"study file {str(study_file)!r}", file=str(study_file)) from None
    _tell_role(settings)
    now = next(each for each in stands if each.study == study)
    if not now.session:
        told = "none is made; the study has ended" if now.ended else "none is made"
    elif now.new:
        told = "is made, and in the exchange"
    else:
        told = "has its result; nothing is due" if now.ended else "is there already"
    told_now = {name: getattr(now, name) for name in ("session", "step", "new", "ended", "wrong")}
    step = f"step {now.step} of " * bool(now.step)
    rows: common.Rows = [(f"session {now.session.hex()}".strip(), told, f"{step}study {study.digest.hex()[:8]}")]
    if now.wrong:
        rows.append(("WRONG", now.wrong, ""))
    facts = {"study": study.digest, **told_now}
    return common.Report(facts, rows, study.lines() if now.new else [], failed=bool(now.wrong))


session.add_command(make)


@common.command(
    "Show what waits for a person, and decide on it.",
    "fhe-auc pending south.toml                    what waits, and why; asks whether you agree",
    "fhe-auc pending south.toml --yes 31c4ce5c     agrees to that session, and to its study from now on",
    "fhe-auc pending south.toml --no 31c4ce5c      refuses the session; or takes back an agreement to a study",
)
@click.argument("config", metavar="CONFIG", type=CONFIG)
@option("--yes ID", "Agree: an id in the list, or how it begins.")
@option("--no ID", "Refuse; also the id of a study that was agreed to.")
@common.reported
def pending(config: Path, yes: str | None, no: str | None) -> common.Report:
    """Show the sessions that wait for a person at the site or helper of CONFIG, and the studies agreed to; or decide.

    A session that an agreed study makes is answered without a person: by its maker, of its sites, exactly as the study
    says, no more often than it says. Any other one waits here, and one of whose levels few are in this site's rows: of
    a level that no other site has, all learn its own AUC. Yes agrees to this session and to its study, whose later
    sessions are answered then; `fhe-auc serve` takes it at its next look. Without --yes and --no you are asked, and
    what you do not agree to waits on.
    """
    if yes is not None and no is not None:
        raise click.UsageError("give --yes or --no")
    settings, decided = read_config(config, None), list[tuple[str, str, str]]()
    vault = vault_of(settings)
    if yes is not None:
        decided.append(("yes", _decided(vault, yes, yes=True), ""))
    elif no is not None:
        decided.append(("no", _decided(vault, no, yes=False), ""))
    with vault.open() as store:
        waiting, studies = policy.waiting(store), policy.agreed(store)
    rows: common.Rows = [*decided]
    facts: dict[str, Any] = {"waiting": {}, "agreed": {}}
    asks = not decided and not click.get_current_context().params.get("as_json")
    for name, each in waiting.items():
        manifest = claimed(each.announcement).manifest
        study = manifest.study
        assert study is not None  # noqa: S101 - it was verified when it was taken in
        why = printable(each.why)
        told: common.Rows = [("waits", name, why), *(("", label, text) for label, _, text in study.lines())]
        if asks and _agreed(told):  # nobody holds the store while somebody thinks
            rows.append(("yes", _decided(vault, name, yes=True, seen=each.announcement), ""))
            continue
        facts["waiting"][name] = {"why": each.why, "step": manifest.step, "study": study.as_dict()}
        rows += [("waits", name, why)] if asks else told
    if any(first in ("yes", "no") for first, *_ in rows):
        _tell_role(settings)
    for known in studies:
        study = known.study
        last = {step: each.session for step, each in known.last.items()}
        facts["agreed"][study.digest.hex()] = {"study": study.as_dict(), "last": last}
        rows.append(("agreed", study.digest.hex()[:16], f"{study.model}, {study.outcome}; made by {study.maker}"))
    return common.Report(facts, rows or [("nothing", "waits", "no study is agreed to")])


def _tell_role(settings: Mapping[str, Any]) -> None:
    """Have the role that serves look at all again."""
    if (state := settings.get("state")) and Path(str(state)).is_dir():
        write_atomically(Path(str(state)) / DECIDED, str(common.now()).encode())


def _agreed(told: common.Rows) -> bool:
    """Show what waits, and ask; where nobody is there, nothing is agreed to."""
    width = max(len(label) for _, label, _ in told) + 2
    click.echo("".join(f"{first:<7}{label:<{width}}{text}\n" for first, label, text in told), err=True)
    return common.agreed("Answer this session, and those that its study makes from now on?")


def _decided(vault: Vault, begins: str, *, yes: bool, seen: bytes = b"") -> str:
    """Decide on the one session that waits whose id begins so, or take back the agreement to a study; return its id.

    Where the person has `seen` its announcement, it has to be that one.
    """
    with vault.open() as store:
        waiting = policy.waiting(store)
        known = [name for name in waiting if name.startswith(begins.lower())]
        if not known and not yes:
            policy.withdraw(store, begins.lower())
            return begins
        if len(known) != 1:
            raise KeysError(f"{len(known)} of the sessions that wait begin with {begins!r}")
        if seen not in (b"", waiting[known[0]].announcement):
            raise KeysError(f"session {known[0]} is another one than was shown: nothing was agreed to")
        at = common.now()
        announced = open_announcement(waiting[known[0]].announcement, known_members.stored(store), at=at)
        policy.decide(store, announced, yes=yes, at=at)
    return known[0]
