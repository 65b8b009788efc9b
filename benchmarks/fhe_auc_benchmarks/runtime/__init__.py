"""``fhe-auc benchmark``: what every way of aggregating costs, measured in one run on one machine."""
