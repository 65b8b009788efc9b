"""The parties' common secret, from which masked shares and masks are derived, stays with the parties."""

import base64
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fhe_auc.session.ckks_computation import pad_key
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.blinded_auc.masked_shares import Stream
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from tests.support.malicious_sessions import backends, engine, sites
from tests.support.reachable import reachable


def needles(manifest: Manifest, common_secret: bytes) -> dict[str, bytes]:
    """The common secret, and every key derived from it."""
    found = {"the common secret": common_secret}
    chosen = manifest.decoded_plan(AucPlan)
    for number in range(chosen.runs):
        found[f"key of run {number}"] = Stream(common_secret, manifest.digest, "run", number).key
    for index, block in itertools.product(range(len(manifest.parties)), range(chosen.blocks)):
        found[f"key of mask {index}, {block}"] = pad_key(common_secret, manifest, index, block)
    return found


def forms(needle: bytes) -> list[bytes]:
    """Halves of it (in case a copy is torn), also as text."""
    return [needle[:16], needle[16:], needle[:15].hex().encode(), base64.b64encode(needle[:15]), needle[::-1][:16]]


def held_by(root: Any) -> Iterator[bytes]:
    """Everything that the object holds, as bytes."""
    for item in reachable(root):
        if isinstance(item, (bytes, bytearray)):
            yield bytes(item)
        elif isinstance(item, str):
            yield item.encode(errors="surrogatepass")
        elif isinstance(item, np.ndarray):
            yield item.tobytes()
        elif isinstance(item, int):
            yield item.to_bytes((item.bit_length() + 8) // 8, "little", signed=True)
        elif hasattr(item, "to_bytes"):
            yield item.to_bytes()


class TestTheSecretStaysWithTheParties:
    @backends
    def test_no_message_and_nothing_the_aggregator_holds_has_it(self, backend):
        found = engine(backend)
        roles = found.roles(sites(3))
        roles.run()
        (secret,) = {role._side._common_secret for role in roles.parties}
        places = [*roles.messages, roles.manifest.to_bytes(), found.session.aggregator_material]
        places += held_by(roles.aggregator)
        assert any(roles.manifest.digest in place for place in places)  # the search finds what is there
        assert any(secret in place for place in held_by(roles.parties[0]))
        assert sum(map(len, places)) > 10**6
        for name, needle in needles(roles.manifest, secret).items():
            for form in forms(needle):
                assert not any(form in place for place in places), name
