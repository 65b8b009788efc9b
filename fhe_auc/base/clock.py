"""The time as an argument, so that a test can play days in a moment."""

import math
import time
from dataclasses import dataclass
from datetime import datetime, timezone


class Clock:
    """The system's clock."""

    def now(self) -> datetime:
        """Return the time of day, UTC: for what people read, and for what ends."""
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        """Return seconds since some moment, which nobody sets back: for pauses and time limits."""
        return time.monotonic()

    @property
    def ahead(self) -> float:
        """Seconds by which `now` is ahead of `monotonic`: they change with a clock that is set, and hardly else."""
        return self.now().timestamp() - self.monotonic()

    def told(self) -> str:
        """Return the time of day as a status has it, to the second."""
        return self.now().isoformat(timespec="seconds")


SYSTEM = Clock()

_RETRY = 5.0, 1800.0  # seconds until what has failed is tried again: at first, and doubled each time, at most


@dataclass
class Retry:
    """When something that has failed is to be tried again: after a pause that grows."""

    clock: Clock = SYSTEM
    _at: float = math.inf  # monotonic
    _tries: int = 0

    def plan(self, *, wanted: bool, now: bool = False) -> None:
        """Try again after a while, longer each time, or `now`; or not, as all is well."""
        pause = 0.0 if now else min(_RETRY[0] * 2.0 ** min(self._tries, 20), _RETRY[1])
        self._at, self._tries = (self.clock.monotonic() + pause, self._tries + 1) if wanted else (math.inf, 0)

    @property
    def wanted(self) -> bool:
        """Whether something has failed."""
        return self._at < math.inf

    @property
    def due(self) -> bool:
        """Whether the pause is over."""
        return self.clock.monotonic() >= self._at
