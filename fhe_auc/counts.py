"""The home of `PartyData` for scripts; inside the package it is imported from `fhe_auc.rows.counts`."""

from fhe_auc.rows.counts import PartyData

__all__ = ["PartyData"]
