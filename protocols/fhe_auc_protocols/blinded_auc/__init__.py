"""The AUC under CKKS, blinded: `semi_honest`, and `malicious` for an aggregator that may lie.

In the order of a session:

    ckks_parameter_choice  the smallest parameters that are precise and secure enough for a `Workload`
    plan                   what they carry and hide, and how precise they are; a plan checks itself, whoever chose it
    semi_honest            what a party encodes
    encrypted_trapezoid    where values sit, and what the aggregator computes; it only adds submissions up besides
    blinding               its secret multiplier
    result_check           what a party checks in the decrypted result before it shows a number
    protocol               what is common with `malicious`, which has `masked_shares` besides

docs/security/ckks.md has the whole protocol: who has which key, who learns what.
"""
