"""The AUC under CKKS, blinded: `semi_honest`, and `malicious` for an aggregator that may lie.

Beside both roles (`fhe_auc_keys.sealed_roles`), this is all that there is to `semi-honest`, in the order of a session:

    workload, plan       what the parameters carry and hide; a plan checks itself, so that `planner` need not be trusted
    semi_honest          what a party encodes, whom one has to trust, who learns what
    packing              where values sit in the slots
    encrypted_trapezoid  what the aggregator computes; it does nothing else with a submission but add it
    blinding             its secret multiplier, and the blur of limited digits
    result_check         what a party checks in the decrypted result before it shows a number
    error_bound          how far that number may be off
    protocol             what is common with `malicious`, which has `split_shares` besides
"""
