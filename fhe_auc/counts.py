"""The home of `PartyData` for scripts; inside the package it is imported from `fhe_auc.rows.party_data`."""

from fhe_auc.rows.party_data import PartyData

__all__ = ["PartyData"]
