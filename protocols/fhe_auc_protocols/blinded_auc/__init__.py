"""The AUC under CKKS, blinded: `semi_honest`, and `malicious` for an aggregator that may lie.

What is special to `semi-honest` is this package and its two roles (`fhe_auc_keys.roles.sealed_roles`). In the order of
a session:

    ckks_parameter_choice  the smallest parameters that are precise and secure enough for a `workload`
    plan                   what they carry and hide; a plan checks itself, so that whoever chose it need not be trusted
    semi_honest            what a party encodes, whom one has to trust, who learns what
    packing                where values sit in the slots
    encrypted_trapezoid    what the aggregator computes; it does nothing else with a submission but add it
    blinding               its secret multiplier
    result_check           what a party checks in the decrypted result before it shows a number
    error_bound            how far that number may be off
    protocol               what is common with `malicious`, which has `split_shares` besides

All encrypted protocols share: the envelope and the policy on missing parties (`fhe_auc.session`), who gets which
key (`fhe_auc_keys.bundles.session_keys`, `roles.encrypted_protocol`), encryption and decryption
(`fhe_auc.session.ckks_computation`), and the noise that the aggregator adds (`fhe_auc.ckks.flooding`).
"""
