"""AUC under label differential privacy: the state of the art without encryption, as baselines.

[DPAUC] Sun et al., "DPAUC: differentially private AUC computation in federated learning", AAAI 2023, arXiv 2208.12294.

    dpauc-laplace    each party adds Laplace noise to TP, FP, TN and FN at each threshold
    dpauc-gaussian   the same with Gaussian noise
    dpauc-rr         each party flips labels at random and counts; the AUC of all is debiased

    round 1   a party sends its noisy counts, 4m integers; the aggregator adds them up as they arrive
    round 2   the sums go to all parties, who compute the AUC and answer with nothing

The aggregator may see every party's noisy counts: the budget holds against it, too. What is promised, and what is not
covered: docs/evidence/noise.md. Gaussian noise is drawn on floats, for which the calibration is exact, and then
rounded, which is post-processing.
"""
