"""AUC under label differential privacy: the state of the art without encryption, as baselines.

[DPAUC] Sun et al., "DPAUC: differentially private AUC computation in federated learning", AAAI 2023, arXiv 2208.12294.

    dpauc-laplace    each party adds Laplace noise to TP, FP, TN and FN at each threshold
    dpauc-gaussian   the same with Gaussian noise
    dpauc-rr         each party flips labels at random and counts; the AUC of all is debiased

    round 1   a party sends its noisy counts, 4m integers; the aggregator adds them up as they arrive
    round 2   the sums go to all parties, who compute the AUC and answer with nothing

The aggregator sees every party's noisy counts and could compute the AUC as well: the budget holds against it, and it
needs no trust in that respect. Who wants a session's links encrypted must see to that. A lying aggregator, or party, is
not noticed. The manifest states the budget: a party must have it from someone it trusts (between machines: who signs
it, and convenes the session), and must look at epsilon, delta and the thresholds in it before it takes part. Privacy
unit, budget and composition: `fhe_auc_protocols.dpauc.budget`; what the AUC is worth: ``fhe-auc compare-protocols``.

Noise comes from OpenDP (`fhe_auc_protocols.opendp_samplers`). Laplace noise on counts is discrete. Gaussian noise is
drawn on floats, for which the calibration is exact, and then rounded, which is post-processing.
"""
