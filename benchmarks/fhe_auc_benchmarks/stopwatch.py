"""Wall-clock time, and CPU time of this process: the second says what a thing costs on a machine that is shared."""

from __future__ import annotations

import time


class Stopwatch:
    """``with Stopwatch() as watch: …``, then ``watch.wall`` and ``watch.cpu``, in seconds."""

    wall = 0.0
    cpu = 0.0

    def __enter__(self) -> Stopwatch:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()
