"""The exact protocols: AUC as a fraction of integers, and a lying aggregator caught with a proven probability."""
