"""Values are decoded in threads, as in Flower's, and what is kept is migrated; wire formats have tests of their own."""

import subprocess
import sys

import msgspec
import pytest

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import KeptFormat
from tests.support.wire import flipped

_THREADS = """
import sys, threading, msgspec
from fhe_auc.base.serialise import decode, encode

sys.setswitchinterval(1e-6)
for _ in range(100):
    class Inner(msgspec.Struct, array_like=True):
        number: int
        def __post_init__(self):
            sum(range(50))
    class Outer(msgspec.Struct, array_like=True):
        some: tuple[Inner, ...]
        named: dict[str, Inner]
    data, together = encode([[[1]] * 5, {"one": [2]}]), threading.Barrier(4)
    def read():
        together.wait()
        assert decode(data, Outer, "") == Outer((Inner(1),) * 5, {"one": Inner(2)})
    threads = [threading.Thread(target=read) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


def test_threads_may_decode_a_type_for_the_first_time_together() -> None:
    """Without the lock a signal has ended the process in five runs of five."""
    subprocess.run([sys.executable, "-c", _THREADS], check=True)


class One(msgspec.Struct):
    limit: float


class Two(msgspec.Struct):
    limits: dict[str, float]


class Three(msgspec.Struct):
    limits: dict[str, tuple[float, float]]


OLD = KeptFormat(b"fhetest", One, "thing")
STEPS = {
    3: (One, lambda old: Two({"rows": old.limit})),
    4: (Two, lambda old: Three({name: (limit, 0.0) for name, limit in old.limits.items()})),
}
NEW = KeptFormat(b"fhetest", Three, "thing", version=5, older=STEPS)


def test_an_older_version_is_migrated_step_by_step_and_others_are_refused_with_what_to_do() -> None:
    assert NEW.unframe(OLD.frame(One(4.0))) == Three({"rows": (4.0, 0.0)})
    assert NEW.unframe(NEW.frame(Three({}))) == Three({})
    framed = OLD.frame(One(4.0))
    for position in range(len(framed)):  # what is cut off or altered is damaged, and of no other version
        for bad in (framed[:position], flipped(framed, position)):
            with pytest.raises(DeserialisationError) as caught:
                OLD.unframe(bad)
            assert caught.value.field == ("format" if position < 7 else "checksum")
    with pytest.raises(DeserialisationError, match=r"version 5, from a newer .* up to 3: install the newer one"):
        OLD.unframe(NEW.frame(Three({})))
