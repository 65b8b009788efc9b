"""docs/guide/flower.md and flare.md, executed over TLS; then keys.md, each role in an exchange of its own.

Every command runs as it stands there, but for names of machines and folders, ports, and how often letters go.
Other versions of Flower and FLARE: `scripts/try_carriers.sh`.
"""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from fhe_auc.machines.processes import QUIET, reserved_port
from tests.support.guides import GUIDES, SITES, TERMINALS, Step, Walk, steps
from tests.support.processes import wait_for
from tests.support.tls import make_certificate

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(1800)]

PATIENCE = 600.0  # seconds
ALL = TERMINALS["all"]
ROWS = GUIDES.parents[1] / "examples" / "three_sites"
PROJECT = """
api_version: 3
name: study
participants:
  - {{name: localhost, type: server, org: study, fed_learn_port: {port}}}
  - {{name: site-1, type: client, org: north}}
  - {{name: site-2, type: client, org: south}}
  - {{name: site-3, type: client, org: west}}
  - {{name: admin@example.org, type: admin, org: study, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
  - {{path: nvflare.lighter.impl.static_file.StaticFileBuilder, args: {{config_folder: config}}}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""
"""As FLARE's own sample, with three sites: all talk over TLS, in which each has a certificate."""


class Carried(Walk):
    """A walk whose roles have an exchange, a home and a workspace each, between which a platform carries."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for site in SITES:
            shutil.copy(ROWS / f"{site}.csv", folder)
        for name in ALL:
            (folder / "homes" / name).mkdir(parents=True)
        variables = " ".join(f"{name}={value}" for name, value in QUIET.items())
        self.take(Step(ALL, f"export HOME=$PWD/homes/$ME {variables}; unset FLWR_HOME"))

    def exchange(self, name: str) -> Path:
        return self.folder / "homes" / name / "exchange"

    def type(self, step: Step, *changes: tuple[str, str]) -> dict[str, str]:
        """Take a step in everybody's home, with these texts changed, of which each stands there."""
        commands = step.commands
        for old, new in (("/srv/fhe-auc/", "$HOME/"), *changes):
            assert old in commands or old == "/srv/fhe-auc/", (old, commands)
            commands = commands.replace(old, new)
        return self.take(replace(step, commands=f"cd $HOME\n{commands}\ncd {self.folder}"))

    def all_have(self, *patterns: str) -> None:
        """Wait until the same of these files are in all exchanges."""

        def names(where: str) -> set[str]:
            here = self.exchange(where)
            return {str(path.relative_to(here)) for pattern in patterns for path in here.glob(pattern)}

        told = lambda: {name: names(name) for name in ALL}  # noqa: E731
        wait_for(
            lambda: len({frozenset(names(name)) for name in ALL}) == 1, PATIENCE, told=lambda: (told(), self._logs())
        )

    def _logs(self) -> str:
        return "".join(f"{path}: {path.read_text()[-3000:]}\n" for path in self.folder.glob("homes/*/*.log"))

    def check(self) -> None:
        """Walk through keys.md, and see that each site has the fraction that files give."""
        for step in steps("keys.md"):
            for old, new in (
                ("members new exchange", "members new $HOME/exchange"),
                ('"$(cat link)"', '"$HOME/exchange#$(cut -d "#" -f 2 link)"'),
                ("--members exchange/", "--members homes/server/exchange/"),
            ):
                step.commands = step.commands.replace(old, new)
            self.all_have("*/request", "*/members/*")
            self.take(step)
        for site in SITES:
            (written,) = (self.folder / site / "results").glob("*.json")
            assert json.loads(written.read_text())["evaluation"]["fraction"] == "83/108"


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Carried]:
    walk = Carried(tmp_path)
    try:
        yield walk
    finally:
        walk.stop()


@pytest.fixture
def ports() -> Iterator[list[int]]:
    with ExitStack() as held:
        yield [held.enter_context(reserved_port()) for _ in ALL]


def test_flower_s_guide_gives_each_site_the_fraction_of_all_rows(walk: Carried, ports: list[int]) -> None:
    pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")
    folder, superlink, settings, keys, register, node, run = steps("flower.md")
    here = f"127.0.0.1:{ports[-1]}"
    walk.type(folder, ("-o fhe-auc -g flower ", ""))
    homes = walk.folder / "homes"
    make_certificate(homes / "server")
    for name in ALL:
        shutil.copy(homes / "server" / "tls.pem", homes / name / "ca.pem")
    background = "> flower.log 2>&1 &"
    walk.type(superlink, ("0.0.0.0 --port 9092", f"127.0.0.1 --port {ports[-1]}"), ("tls.key", f"tls.key {background}"))
    walk.type(settings, ("link.example.org:9092", here))
    listens = f"until (exec 3<> /dev/tcp/{here.replace(':', '/')}) 2> /dev/null; do sleep 1; done"
    walk.take(Step(("server",), listens))
    walk.type(keys)
    nodes = []
    for site in SITES:
        shutil.copy(homes / site / f"{site}.pub", homes / "server")
        told = walk.type(register, ("north.pub", f"{site}.pub"))["server"]
        nodes.append(f"{site}:{json.loads(told)['node-id']}")
    listen = " ".join(f"[{site}]={port}" for site, port in zip(SITES, ports, strict=False))
    own_port = f"{here} --port ${{ports[$ME]}}"
    node.commands = f"declare -A ports=({listen})\n{node.commands}"
    walk.type(node, ("link.example.org:9092", own_port), ('"\n', f'" {background}\n'))
    shown = re.search(r"north:\d+, south:\d+", run.commands)[0]
    walk.type(run, (shown, ", ".join(nodes)), ("\nEND", "\nevery = 10\nEND"))
    walk.check()


def test_flare_s_guide_gives_each_site_the_fraction_of_all_rows(walk: Carried, ports: list[int]) -> None:
    """All have the kits that `nvflare provision` makes, and are started by the scripts in these."""
    pytest.importorskip("nvflare", minversion="2.9", reason="the extra fhe-auc[flare] is not installed")
    allow, client, server, submit = steps("flare.md")
    (walk.folder / "project.yml").write_text(PROJECT.format(port=ports[0]))
    walk.take(Step(("server",), "nvflare provision -p project.yml -w provisioned --force"))
    kits, homes = walk.folder / "provisioned" / "study" / "prod_00", walk.folder / "homes"
    clients = {"north": "site-1", "south": "site-2", "west": "site-3"}
    for name, kit in {"server": "localhost", **clients}.items():
        shutil.copytree(kits / kit, homes / name, dirs_exist_ok=True)
        walk.exchange(name).mkdir()
    shutil.copytree(kits / "admin@example.org", homes / "server" / "admin@example.org")
    walk.type(allow, ("> local/resources.json", f"| sed s=/tmp/nvflare={homes}/server/jobs= > local/resources.json"))
    for site, name in clients.items():
        names = (("site-1", name), ("north", site))
        walk.type(replace(client, terminals=(site,)), *names)
    walk.type(server, ('south = "site-2"', 'south = "site-2"\nwest = "site-3"'), ("hours = 8", "every = 2"))
    walk.take(Step(ALL, "$HOME/startup/start.sh > $HOME/flare.log 2>&1"))
    connected = "nvflare --format json system status --startup-kit $HOME/admin@example.org"
    walk.take(Step(("server",), connected, until="(?=.*site-1)(?=.*site-2).*site-3"))
    walk.type(submit)
    walk.check()
