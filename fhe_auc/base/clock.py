"""The time as an argument, so that a test can play days in a moment."""

import time
from datetime import datetime, timezone


class Clock:
    """The system's clock."""

    def now(self) -> datetime:
        """Return the time of day, UTC: for what people read, and for certificates and budgets."""
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        """Return seconds since some moment, which nobody sets back: for pauses and time limits."""
        return time.monotonic()

    def told(self) -> str:
        """Return the time of day as a status has it, to the second."""
        return self.now().isoformat(timespec="seconds")


SYSTEM = Clock()
