"""What Flower's apps take for granted where they run."""

import pytest


@pytest.fixture
def in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Flower tells a process in which an app runs, and reads when a message is made."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail looks and asks again at once."""
    monkeypatch.setattr("fhe_auc.machines.flower.server_app._POLL", 0.01)
    monkeypatch.setattr("fhe_auc.machines.aggregator_role._AFTER_FAILURE", (0.01, 0.1))
