"""What Flower's apps take for granted where they run."""

from __future__ import annotations

import pytest


@pytest.fixture
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower tells a process in which an app runs, and reads when a message is made."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
