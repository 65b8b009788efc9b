"""Flower itself, by its own commands, over TLS: what a server makes SuperNodes run.

What our app carries over it: `tests/documents/test_carrier_guides.py`.
"""

import json
import os
import socket
from pathlib import Path

import pytest

pytest.importorskip("flwr", minversion="1.41.0", reason="the extra fhe-auc[flower] is not installed")

from fhe_auc.machines.flower import APP
from fhe_auc.machines.processes import Processes, reserved_port
from tests.support.machines import toml
from tests.support.processes import wait_for
from tests.support.tls import make_certificate
from tests.support.users import give, is_root

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("flower"), pytest.mark.timeout(1800)]

PATIENCE = 600.0  # seconds, for a step that takes a few; only a broken test waits for them
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs") if is_root else ()
"""Before a command: root's files are its own, as Python may lie where only root reads, and others' are closed to it."""
SPY = """
import base64, json, os
from flwr.app import ArrayRecord, Array, ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()

@client.query("spy")
def look(message, context):
    read, written = {}, []
    for folder, _, names in os.walk(context.node_config["exchange"] + "/.."):
        for name in names:
            try:
                with open(os.path.join(folder, name), "rb") as file:
                    read[os.path.realpath(file.name)] = base64.b64encode(file.read()).decode()
            except OSError:
                pass
        try:
            with open(os.path.join(folder, "planted"), "wb") as file:
                written.append(os.path.realpath(file.name))
        except OSError:
            pass
    told = json.dumps({"read": read, "written": written, "config": dict(context.node_config), "env": dict(os.environ)})
    return Message(RecordDict({"spy": ConfigRecord({"told": told})}), reply_to=message)

@server.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < context.run_config["nodes"]:
        pass
    asked = [Message(RecordDict({}), node, "query.spy") for node in nodes]
    for reply in grid.send_and_receive(asked):
        with open(context.run_config["out"], "a") as file:
            file.write(reply.content["spy"]["told"] + "\\n")
"""


def spying_app(folder: Path) -> Path:
    """The app that a server has changed: its code is the server's."""
    folder.mkdir()
    (folder / "spy.py").write_text(SPY)
    text = (APP / "pyproject.toml").read_text().replace("fhe_auc.machines.flower.apps", "spy")
    head, _, _ = text.partition("[tool.flwr.app.config]")
    (folder / "pyproject.toml").write_text(f'{head}[tool.flwr.app.config]\nout = ""\nnodes = 0\n')
    return folder


def a_site(folder: Path) -> Path:
    """A site's folder, another user's: rows and passphrase are closed to all, and in the exchange both may write."""
    (folder / "exchange" / folder.name).mkdir(parents=True)
    (folder / "exchange" / folder.name / "request").write_bytes(b"sealed of " + folder.name.encode())
    for secret in ("rows.csv", "passphrase"):
        (folder / secret).write_text("0.123")
        (folder / secret).chmod(0o600)
    folder.parent.chmod(0o755)
    if is_root:
        give(folder, 2001, 2001)
        os.chown(folder / "exchange", 2001, 0)
        (folder / "exchange").chmod(0o1775)
    return folder


def test_what_a_server_makes_a_node_run_reads_the_exchange_alone_and_writes_beside_what_is_the_sites(
    tmp_path: Path,
) -> None:
    site, out = a_site(tmp_path / "north"), tmp_path / "told"
    with Processes() as flower, reserved_port() as port, reserved_port() as node_port:
        make_certificate(flower.folder)
        certificate, key = flower.folder / "tls.pem", flower.folder / "tls.key"
        (flower.folder / "flwr" / "config.toml").write_text(
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
            f'root-certificates = "{certificate}"\n'
        )
        tls = ["--ssl-ca-certfile", certificate, "--ssl-certfile", certificate, "--ssl-keyfile", key]
        flower.start("superlink", ["flower-superlink", *map(str, ("--host", "127.0.0.1", "--port", port, *tls))])
        with socket.socket() as trying:
            wait_for(lambda: trying.connect_ex(("127.0.0.1", port)) == 0, PATIENCE, told=flower.log_end)
        told = f"exchange='{site / 'exchange'}' name='north'"
        command = ["flower-supernode", "--superlink", f"127.0.0.1:{port}", "--root-certificates", certificate]
        command += ["--node-config", told, "--host", "127.0.0.1", "--port", node_port]
        flower.start("node", [*WITHOUT_RIGHTS, *map(str, command)])
        settings = flower.folder / "run.toml"
        settings.write_text(toml({"out": str(out), "nodes": 1}))
        app = spying_app(tmp_path / "spy")
        started = flower.call(
            ["flwr", "run", str(app), "--format", "json", "--run-config", str(settings)], timeout=PATIENCE
        )
        assert "run-id" in started, started
        wait_for(lambda: out.exists() and out.read_text().endswith("\n"), PATIENCE, told=flower.log_end)
    told = json.loads(out.read_text())
    if is_root:  # else the node is the same user
        assert list(told["read"]) == [str(site / "exchange" / "north" / "request")]
        assert told["written"] == [str(site / "exchange" / "planted")]
    assert told["config"].keys() == {"exchange", "name"}
    assert not [text for text in told["env"].values() if "rows.csv" in text or "passphrase" in text]
