"""Protocols on the same rows: how far off, at what cost, for what privacy (``fhe-auc compare-protocols``)."""
