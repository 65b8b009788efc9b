"""A SuperLink of which other machines reach the fleet API alone, and which outlives a restart.

Flower serves all its interfaces at one address. Of these, nodes need the fleet API, where each request is signed with
the node's key. Whoever reaches the others may start runs, which can bring code, register nodes, and take over what the
SuperLink's own programs are to do, all without a password: those are for this machine.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from flwr.supercore.utils import get_flwr_home
from flwr.superlink import extensions
from flwr.superlink.cli import flower_superlink
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fhe_auc.base.errors import InputError

_FLEET = "/v1/fleet/"
_HERE = ("127.0.0.1", "::1")
_HOSTS = (*_HERE, "0.0.0.0", "::", "localhost")  # noqa: S104 - what Flower's own programs reach at one of `_HERE`


def run(arguments: Sequence[str]) -> None:
    """Run ``flower-superlink`` with its arguments in this process.

    Without ``--database`` its nodes and runs are kept in a file in FLWR_HOME, so that they are there after a restart;
    what it writes, only this user can read. It installs no dependencies of apps. Raises `InputError` for a ``--host``
    at which its own programs would count as another machine's.
    """
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--host", default=_HERE[0])
    parser.add_argument("--database")
    given = parser.parse_known_args(arguments)[0]
    if given.host not in _HOSTS:
        raise InputError(f"--host is 0.0.0.0 (or ::) for nodes on other machines, or 127.0.0.1, not {given.host!r}")
    os.umask(0o077)
    home = get_flwr_home()
    home.mkdir(parents=True, exist_ok=True)
    vars(extensions).update(get_middleware=lambda: (Middleware(FleetAlone),))
    chosen = ["--disable-runtime-dependency-installation"]
    if given.database is None:
        chosen += ["--database", str(home / "superlink.db")]
    sys.argv = ["flower-superlink", *chosen, *arguments]
    flower_superlink()


class FleetAlone:
    """Lets requests to the fleet API through, and others if they were sent to 127.0.0.1 or ::1 of this machine.

    It goes by the address at which the connection has come in, which no header can change.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, or answer 403."""
        here = (scope.get("server") or ("",))[0] in _HERE
        if scope["type"] == "lifespan" or here or scope["path"].startswith(_FLEET):
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse("only from the SuperLink's own machine", 403)(scope, receive, send)
