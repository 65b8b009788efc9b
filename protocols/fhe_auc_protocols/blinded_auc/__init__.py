"""The AUC under CKKS, blinded: `semi_honest`, and `malicious` for an aggregator that may lie."""
