"""Evaluation protocols, one module each, installed as plug-ins of `fhe_auc`."""
