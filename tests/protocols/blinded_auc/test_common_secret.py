"""The parties' common secret, from which masked shares and masks are derived, stays with the parties."""

import base64
import itertools
import mmap
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fhe_auc.base.serialise import encode
from fhe_auc.session.ckks_computation import pad_key
from fhe_auc.session.manifest import Manifest
from fhe_auc_protocols.blinded_auc.malicious import MaliciousTask
from fhe_auc_protocols.blinded_auc.masked_shares import Stream
from fhe_auc_protocols.blinded_auc.plan import AucPlan
from tests.support.malicious_sessions import Roles, backends, engine, sites
from tests.support.platforms import needs_linux
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


_AGGREGATOR = """
import re, sys
from fhe_auc.session.manifest import Manifest
from fhe_auc.base.serialise import decode
from fhe_auc_protocols.blinded_auc.malicious import Malicious

shape = tuple[bytes, bytes, list[str], list[bytes], str]
manifest, material, names, submissions, image = decode(sys.stdin.buffer.read(), shape, "")
role = Malicious().aggregator(Manifest.from_bytes(manifest), material)
role.start()
for name, submission in zip(names, submissions, strict=True):
    role.receive(name, submission)
result = role.finish_round()
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory, open(image, "wb") as out:
    for line in maps.readlines():
        start, end, access = re.match(r"(\\w+)-(\\w+) (\\S+)", line).groups()
        if "w" not in access or "[v" in line:
            continue
        try:
            memory.seek(int(start, 16))
            out.write(memory.read(int(end, 16) - int(start, 16)))
        except (OSError, ValueError, OverflowError):
            continue
print(len(result))
"""


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

    @pytest.mark.slow
    @backends
    @needs_linux("a file that shows a process's memory")
    def test_the_memory_of_the_aggregators_process_does_not_have_it(self, backend, run_child, tmp_path):
        parties = sites(3)
        found = engine(backend)
        manifest, secret = found.manifest([data.name for data in parties]), secrets.token_bytes(32)
        roles = Roles(manifest, found.keys, [MaliciousTask(manifest, data) for data in parties], secret)
        opening = roles.aggregator.start()
        submissions = [party.respond(opening) for party in roles.parties]
        image = tmp_path / "image"
        names = [party.name for party in roles.parties]
        material = found.session.aggregator_material
        assert run_child(_AGGREGATOR, data=encode((manifest.to_bytes(), material, names, submissions, str(image))))
        with open(image, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as memory:
            # What it has is found: its session, and the start of a submission.
            assert memory.find(manifest.session) >= 0
            assert memory.find(manifest.digest) >= 0
            for name, needle in needles(manifest, secret).items():
                assert memory.find(needle[:16]) < 0, name
                assert memory.find(needle[16:]) < 0, name
        Path(image).unlink()
