"""Values are decoded in threads, as in Flower's; wire formats have tests of their own."""

import subprocess
import sys

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
