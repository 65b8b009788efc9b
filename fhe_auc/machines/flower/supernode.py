"""A site's SuperNode that runs one app bundle only, known by its hash.

Whoever may submit runs to a SuperLink decides what its sites run. Flower's own check of bundles needs Flower's servers,
so it is given another judge: the SHA-256 that the site was started with. That hangs on flwr's internals, which is why
its version is pinned exactly.

What a SuperLink's refusals mean is said here: Flower's SuperNode does not tell, and may end with status 0. Its
connection is given one that watches what comes back. How far a clock is off is told by no single answer: a SuperLink
under load dates answers late, and refuses requests that have waited for long.
"""

import argparse
import hashlib
import os
import secrets
import ssl
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from logging import ERROR, WARNING
from typing import Any

import httpx
from flwr.common.config import get_fab_config, get_metadata_from_config, parse_config_args
from flwr.common.logger import log
from flwr.proto.fleet_pb2 import ActivateNodeRequest, ActivateNodeResponse
from flwr.supercore.constant import TaskType
from flwr.supercore.date import now
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.exit import ExitCode, flwr_exit
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext
from flwr.supernode import cli, fleet_http_connection
from flwr.supernode import start_client_internal as internals
from flwr.supernode.fleet_http_client import FleetHttpClient

from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines.cleanup import clean_up_after_this_process
from fhe_auc.machines.processes import reserved_port
from fhe_auc.machines.site_state import site_storage

_MARK = "FHE_AUC_SUPERNODE"
_AHEAD, _BEHIND = 5, 305  # seconds that a SuperLink lets a node's clock be off
_WARNED = 3  # seconds off from which on the site is told; the SuperLink tells whole seconds
_READINGS = 3  # answers in a row that must agree that a clock is off
_LAPSE = 75.0  # seconds until a SuperLink has noticed the end of a node that did not sign off: 60, and some more
_AGAIN = 5.0
_NOT_NOW = (9, 10)  # OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED


def run(arguments: Sequence[str], *, bundle_sha256: str) -> None:
    """Run ``flower-supernode`` with its arguments in this process; any other bundle is refused, and not run.

    `bundle_sha256` is 64 hexadecimal digits. What it has started ends with this process, however that ends. Raises
    `EvaluationError` where the SuperLink refuses the node, or it fails: why, and what to do.
    """
    pull = internals._pull_and_store_message

    def pull_pinned(
        *, state: Any, get_run: Callable[..., Any], get_fab: Callable[..., Any], trusted_entities: Any, **rest: Any
    ) -> int | None:
        judged: dict[str, Any] = {"sha256": bundle_sha256}

        def noted(*which: Any) -> Any:
            judged["run"] = get_run(*which)
            return judged["run"]

        def marked(*which: Any) -> Any:
            found = get_fab(*which)
            found.verifications["valid_license"] = "judged by its hash"  # or it would not be judged at all
            return found

        state.get_message_processing_duration = lambda message_id: 0.0  # how long an answer took is the site's own
        return pull(state=state, get_run=noted, get_fab=marked, trusted_entities=judged, **rest)

    def is_pinned(bundle: Any, judged: Mapping[str, Any]) -> bool:
        pinned, run = judged["sha256"], judged["run"]
        if not hashlib.sha256(bundle.content).hexdigest() == bundle.hash_str == run.fab_hash == pinned:
            return False
        if run.primary_task_type == TaskType.AGENT_APP:  # which would start another program than flwr-clientapp
            return False
        # By these names Flower looks up what it runs, among all that was ever installed at the site.
        return bool(get_metadata_from_config(get_fab_config(bundle.content)) == (run.fab_id, run.fab_version))

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--node-config")
    parser.add_argument("--port")
    given = parser.parse_known_args(arguments)[0]
    config = parse_config_args([given.node_config] if given.node_config else None)
    site_storage().shield(config)  # this process starts one for each run
    vars(internals).update(_pull_and_store_message=pull_pinned, _verify_fab=is_pinned)
    refusals = SuperLinkRefusals()
    vars(fleet_http_connection).update(FleetHttpClient=client(refusals))
    mark = secrets.token_hex(16)
    ender = clean_up_after_this_process(f"{_MARK}={mark}")
    os.environ[_MARK] = mark
    with reserved_port() as port:
        own = [] if given.port else ["--port", str(port)]  # its own interface is for processes on this machine
        sys.argv = ["flower-supernode", *own, *arguments]
        failed = ""
        try:
            try:
                cli.flower_supernode()
            except Exception as error:
                log(ERROR, "The SuperNode has failed", exc_info=error)
                failed = f"the SuperNode has failed ({type(error).__name__}: {error}); start it again"
            # It returns where the connection has broken for good, with a thread that would not let this process end.
            flwr_exit(ExitCode.SUPERNODE_CONNECTION_ERROR, failed or "The connection to the SuperLink has ended.")
        except SystemExit:
            if reason := refusals.reason or failed:
                raise EvaluationError(reason) from None
            raise
        finally:
            ender.communicate()
            del os.environ[_MARK]


class SuperLinkRefusals:
    """Why the SuperLink has refused this node, and how far this machine's clock is off."""

    def __init__(self) -> None:
        self.reason = ""  # the last refusal, in a sentence; "" where there was none
        self._told_clock = False
        self._readings = deque[float](maxlen=_READINGS)  # seconds ahead, by the last answers

    @property
    def _ahead(self) -> float:
        """By how many seconds, at least, this machine's clock is ahead by each of the last answers; 0: they differ."""
        surely = len(self._readings) == _READINGS
        return max(min(self._readings), 0.0) or min(max(self._readings), 0.0) if surely else 0.0

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        """Pass a request on, as Flower's interceptors do, and note what is wrong with its answer."""
        asked = now()
        try:
            response = call_next(context)
        except httpx.ConnectError as error:
            cause: BaseException = error
            while (below := cause.__cause__ or cause.__context__) is not None:
                cause = below
            if isinstance(cause, ssl.SSLEOFError):  # a SuperLink that ends: Flower would give up where it sees "SSL"
                raise httpx.ConnectError("the connection was closed while it was made") from None
            if isinstance(cause, ssl.SSLError):
                self.reason = _untrusted(cause)
            raise
        self._readings.extend(_seconds_ahead(response, asked))
        ahead = self._ahead
        if response.status_code == httpx.codes.UNAUTHORIZED:
            self.reason = _unauthorised(ahead)
        elif response.is_error and response.read() and (found := FlowerError.from_json(response.text)):
            self.reason = _NOT_ADMITTED.get(found.code, "")
        else:
            self.reason = ""
        if abs(ahead) >= _WARNED and not self._told_clock:
            self._told_clock = True
            log(WARNING, "%s; more than %d s ahead, or %d s behind, is refused", _off(ahead), _AHEAD, _BEHIND)
        return response


_NOT_ADMITTED: dict[int, str] = {
    ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED: "the SuperLink does not admit this node: its key is not registered "
    "there (`flwr supernode register`), or another SuperNode runs with the same key",
    ApiErrorCode.FLEET_SUPERNODE_REGISTRATION_DISABLED: "the SuperLink admits nodes with a registered key only, and "
    "this one was given none: --auth-supernode-private-key",
}

_REFUSED = "The SuperLink refuses this node's requests, as it also does under load: asking again %d times"

_NOT_YET = (
    "The SuperLink does not admit this node yet. If a SuperNode with this key was killed, it is a minute until the "
    "SuperLink has noticed; if the key is not registered there, do so. Asking again for %d s"
)


def client(refusals: SuperLinkRefusals) -> type[FleetHttpClient]:
    """Return the class for a SuperNode's connection: it notes refusals, and waits where one will pass."""

    class WatchedClient(FleetHttpClient):
        def __init__(self, base_url: str, *, interceptors: Sequence[Any] = (), **rest: Any) -> None:
            super().__init__(base_url, interceptors=[*interceptors, refusals], **rest)
            self._ending = False

        def _unary_unary(self, **call: Any) -> Any:
            """Make a request; end this process, with status 1, where the SuperLink still does not know the node."""
            for left in reversed(range(_READINGS)):
                try:
                    return super()._unary_unary(**call)
                except httpx.HTTPStatusError as error:
                    if self._ending or error.response.status_code != httpx.codes.UNAUTHORIZED:
                        raise
                if threading.current_thread() is not threading.main_thread():
                    raise httpx.NetworkError(refusals.reason)  # it tries again; the main thread's next request ends it
                if left == _READINGS - 1:
                    log(WARNING, _REFUSED, left)
                time.sleep(_AGAIN if left else 0.0)
            self._ending = True
            flwr_exit(ExitCode.SUPERNODE_CONNECTION_ERROR, refusals.reason)

        def ActivateNode(self, request: ActivateNodeRequest) -> ActivateNodeResponse:
            """Sign on; for a while again where the SuperLink may hold the node to be there already."""
            until = time.monotonic() + _LAPSE
            waits = False
            while True:
                try:
                    return super().ActivateNode(request)
                except httpx.HTTPStatusError:
                    by_code = refusals.reason == _NOT_ADMITTED[ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED]
                    if not by_code or time.monotonic() > until:
                        raise
                if not waits:
                    waits = True
                    log(WARNING, _NOT_YET, _LAPSE)
                time.sleep(_AGAIN)

    return WatchedClient


def _seconds_ahead(response: httpx.Response, asked: datetime) -> list[float]:
    """Return by how much this machine's clock is ahead of the SuperLink's, to a second; nothing if it does not say."""
    if "date" not in response.headers:
        return []
    told = parsedate_to_datetime(response.headers["date"])  # some time between asking and now, or before under load
    return [max((asked - told).total_seconds(), 0.0) or min((now() - told).total_seconds(), 0.0)]


def _off(ahead: float) -> str:
    return f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the SuperLink's"


def _unauthorised(ahead: float) -> str:
    if not -_BEHIND + 2 < ahead < _AHEAD - 2:
        allowed = f"{_AHEAD} s ahead to {_BEHIND} s behind"
        return (
            f"{_off(ahead)}, by {_READINGS} answers, and it takes {allowed}: set the clock (NTP), and start again. If "
            "the clock is right, the SuperLink is under load: start again later"
        )
    return (
        "the SuperLink does not know this node any more: it was unregistered, or the SuperLink has lost its database; "
        "have its key registered again (`flwr supernode register`), and start again. If it is registered, the "
        f"SuperLink is under load, and takes no request that has waited for {_BEHIND} s: start again later"
    )


def _untrusted(error: ssl.SSLError) -> str:
    why = getattr(error, "verify_message", "") or error.reason or type(error).__name__
    if getattr(error, "verify_code", None) in _NOT_NOW:
        return f"the SuperLink's {why}, by this machine's clock: set the clock (NTP), or have the certificate renewed"
    return (
        f"the SuperLink's certificate is not trusted here ({why}): --root-certificates is the authority's that has "
        "issued it, and --superlink a name that is in it"
    )
