"""A site's SuperNode that runs one app bundle only, known by its hash.

Whoever may submit runs to a SuperLink decides what its sites run. Flower's own check of bundles needs Flower's servers,
so it is given another judge: the SHA-256 that the site was started with. That hangs on flwr's internals, which is why
its version is pinned exactly, and checked here.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fhe_auc.errors import InputError
from fhe_auc.flower import require_flower
from fhe_auc.site_state import site_storage

FLOWER = "1.30.0"
"""The version whose internals `run` relies on."""


def run(arguments: Sequence[str], *, bundle_sha256: str) -> None:
    """Run ``flower-supernode`` with its arguments in this process; any other bundle is refused, and not run.

    `bundle_sha256` is 64 hexadecimal digits. Raises `InputError` where Flower is missing, or of another version than
    `FLOWER`.
    """
    require_flower()
    import flwr
    from flwr.common.config import get_fab_config, get_metadata_from_config, parse_config_args
    from flwr.supernode import start_client_internal as internals
    from flwr.supernode.cli import flower_supernode

    if flwr.__version__ != FLOWER:
        raise InputError(f"flwr {flwr.__version__} is installed, but sites are checked with {FLOWER} only")
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

        # How long an answer took is the site's own; and a refused run has no such time, without which no reply is sent.
        state.get_message_processing_duration = lambda message_id: 0.0
        return pull(state=state, get_run=noted, get_fab=marked, trusted_entities=judged, **rest)

    def is_pinned(bundle: Any, judged: Mapping[str, Any]) -> bool:
        pinned, run = judged["sha256"], judged["run"]
        if not hashlib.sha256(bundle.content).hexdigest() == bundle.hash_str == run.fab_hash == pinned:
            return False
        # By these names Flower looks up what it runs, among all that was ever installed at the site.
        return bool(get_metadata_from_config(get_fab_config(bundle.content)) == (run.fab_id, run.fab_version))

    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--node-config")
    given = parser.parse_known_args(arguments)[0].node_config
    site_storage().shield(parse_config_args([given] if given else None))  # this process starts one for each run
    vars(internals).update(_pull_and_store_message=pull_pinned, _verify_fab=is_pinned)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()
