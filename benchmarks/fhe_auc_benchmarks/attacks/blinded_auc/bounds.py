"""What luck may reach: computed bounds. A stub until the bounds of the new circuit are merged."""

from fhe_auc_benchmarks.attacks.blinded_auc.simulated_trials import TrialSetting


def of_strategy(name: str, of: TrialSetting) -> float | None:
    """Return the bound for a strategy, by its name, or None where there is none."""
    return None
