"""Score histograms and quantile thresholds: two things to read off counts of rows, and three ways to count.

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023.

                                  score histogram, AUC         quantile thresholds, no AUC
                                  `score_histogram`            `quantile_thresholds`
    exact, encrypted
    `exact_counts`                histogram-federated          boundaries-federated
    encrypted with shares of
    noise, `distributed_noise`    histogram-distributed-dp     boundaries-distributed-dp
    every row randomised,
    `local_randomisation`         histogram-local-dp           boundaries-local-dp

A third readout of exact counts has the rows of groups in few bins, for a report (counts-federated); a
fourth one has replicates of them, for bootstrap intervals (replicates-federated).
`protocols` puts each pair together; `readout` says what a way of counting and a readout know of each other.
"""
