"""A site's SuperNode that runs one app bundle only, known by its hash.

Whoever may submit runs to a SuperLink decides what its sites run. Flower's own check of bundles needs Flower's servers,
so it is given another judge: the SHA-256 that the site was started with. That hangs on flwr's internals, which is why
its version is pinned exactly.
"""

import argparse
import hashlib
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from logging import ERROR
from typing import Any

from flwr.common.config import get_fab_config, get_metadata_from_config, parse_config_args
from flwr.common.logger import log
from flwr.supercore.constant import TaskType
from flwr.supercore.exit import ExitCode, flwr_exit
from flwr.supernode import cli, fleet_http_connection
from flwr.supernode import start_client_internal as internals

from fhe_auc.base.errors import EvaluationError
from fhe_auc.machines.cleanup import clean_up_after_this_process
from fhe_auc.machines.flower import admission
from fhe_auc.machines.processes import reserved_port
from fhe_auc.machines.site_state import site_storage

_MARK = "FHE_AUC_SUPERNODE"


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
    refusals = admission.SuperLinkRefusals()
    vars(fleet_http_connection).update(FleetHttpClient=admission.client(refusals))
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
