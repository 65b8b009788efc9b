"""``fhe-auc keys open``: of a bundle, or a session without one."""

from pathlib import Path
from typing import Any

import click

from fhe_auc.base.files import read_from_others
from fhe_auc.question import thresholds
from fhe_auc.question.study import Study
from fhe_auc_keys.bundles.sealed_bundles import AGGREGATOR_KIND
from fhe_auc_keys.cli import common, describe, trust
from fhe_auc_keys.errors import KeysError
from fhe_auc_keys.site.session_files import (
    announced_to_party,
    announcement_beside,
    keep_for_party,
    open_for_aggregator,
)
from fhe_auc_keys.store.vault import Vault


@common.command(
    "Open a bundle of keys, or a session that has none.",
    "fhe-auc keys open north.bundle --holder north --store keystore",
    "fhe-auc keys open south.bundle --holder north --study study.toml",
    "fhe-auc keys open north.bundle --holder north --thresholds thresholds.txt",
    "fhe-auc keys open session.convened --holder north",
    "fhe-auc keys open aggregator.bundle --holder north --out aggregator.keys",
    name="open",
)
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--holder",
    metavar="NAME",
    required=True,
    help="The key holder agreed on, or who convenes; others are refused.",
)
@trust.key_store
@click.option(
    "--session",
    "expected",
    metavar="HEX",
    type=common.SESSION_ID,
    help="Id of the session agreed on: no other is taken.",
)
@common.file_option(
    "--thresholds",
    "agreed",
    help="Thresholds agreed on, or found by the session before: a session for others is not taken.",
)
@common.file_option(
    "--study",
    "study_file",
    help="The study agreed to, in place of being asked: a session for another one is not taken.",
)
@common.target_option(help="Aggregator only: where its keys go.")
@common.force_option
@common.reported
def open_bundle(
    file: Path,
    holder: str,
    vault: Vault,
    expected: bytes | None,
    agreed: Path | None,
    study_file: Path | None,
    target: Path | None,
    force: bool,
) -> common.Report:
    """Open a bundle of keys from the key holder.

    A party opens its bundle into its key store, once: signature, keys, recipient and validity are checked
    before anything is kept. A bundle that was opened before is refused. You are asked whether the study is the one that
    your site has agreed to; until then the bundle is not used up.

    The aggregator opens its own with its key store, and gets the keys to compute with in a file (--out), once it is
    sure that there is no secret key in it. No party may have that file.

    A session where nothing is encrypted (session.convened) is opened in the same two ways: everybody's
    keys are looked up here, and what the evaluation needs is kept.
    """
    data = read_from_others(file)
    if data.startswith(AGGREGATOR_KIND.magic) and target is None:
        raise click.UsageError("as the aggregator, give --out, a file for the keys")
    if target is not None:
        if agreed is not None:
            raise click.UsageError("--thresholds is for parties: the aggregator has none to compare with")
        if study_file is not None:
            raise click.UsageError("--study is for parties: the aggregator is only shown it")
        common.check_out_file(target, force=force)
    grid = None if agreed is None else thresholds.resolve(agreed).astype("<f8").tobytes()
    study = None if study_file is None else Study.read(study_file)
    with trust.opened(vault) as (store, identity, members):
        at = common.now()
        given: dict[str, Any] = {"holder": holder, "at": at}
        with common.about(file):
            if target is None:
                given["beside"] = announcement_beside(file, data)
                study = study or _confirmed(announced_to_party(data, members, **given).study)
                given |= {"session": expected, "study": study, "grid": grid}
                announced = keep_for_party(data, identity, members, store, **given)
            else:
                announced, material, _ = open_for_aggregator(data, identity, members, session=expected, **given)
                common.write(target, material, common.PRIVATE, force=force)
    what = "its keys are" if announced.manifest.keys == "sealed" else "what the rounds need is"
    place = target or vault.directory
    kept = ("opened", f"by {identity.name}", f"{what} in {str(place)!r} now")
    facts = {**describe.announcement_as_dict(announced), "opened_by": identity.name, "keys": place}
    return common.Report(facts, [kept, *describe.announcement_rows(announced, reader=identity.name)])


def _confirmed(study: Study) -> Study:
    """Return the study once the user says that the site has agreed to it; raise `KeysError` otherwise."""
    click.echo("".join(f"{label:<10}{text}\n" for label, _, text in study.lines()), err=True)
    if not common.agreed(
        "Is this what your site has agreed to evaluate?", nobody="nobody is there to confirm the study: give --study"
    ):
        raise KeysError("the study is not confirmed; nothing was kept, and the file can be opened again")
    return study
