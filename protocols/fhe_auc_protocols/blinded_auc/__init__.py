"""The AUC under CKKS, blinded: `semi_honest` for an aggregator that follows the protocol, `malicious` for one that may lie."""
