"""Replies pulled with a limit: what one site leaves unfinished, or malforms, costs that site's reply and no other.

Flower's grid waits up to two hours for the content of a reply that a site has announced, all others behind it, and ends
the run where the content is not what Flower can read. This hangs on flwr's internals, as
`fhe_auc.machines.flower.supernode`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, inflate_object_from_contents, pull_objects
from flwr.superlink.grid import http_grid

_AT_LEAST_EVERY = 1.0  # seconds between two looks for content


@contextmanager
def limited_replies(deadline: float) -> Iterator[None]:
    """Have Flower's grid wait for the content of replies until `deadline` (monotonic) only.

    A reply whose content is not there by then, or is malformed, comes as an error of the site that it is from.
    """

    def pulled(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        whole = object_ids[-1]  # after all its parts
        try:
            found = pull_objects(
                object_ids,
                pull_object_fn,
                max_time=max(deadline - time.monotonic(), 0.0),
                backoff_cap=_AT_LEAST_EVERY,
            )
            inflate_object_from_contents(whole, found, keep_object_contents=True)
        except httpx.HTTPError:
            raise  # the SuperLink itself
        except Exception:  # of whatever kind: it was made elsewhere
            raise ObjectPullError(whole, "unfinished, or malformed") from None
        return found

    vars(http_grid).update(pull_objects=pulled)
    try:
        yield
    finally:
        vars(http_grid).update(pull_objects=pull_objects)
