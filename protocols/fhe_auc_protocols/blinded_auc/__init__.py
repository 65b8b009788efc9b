"""The AUC under CKKS, blinded: `semi_honest`, and `malicious` for an aggregator that may lie.

protocols/README.md has the steps of a session, docs/security/ckks.md who has which key and who learns what.
"""
