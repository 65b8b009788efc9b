"""The metrics of a classifier from its score histogram: two counts a bin are all they need.

Names and conventions are scikit-learn's, with a `Histogram` where scikit-learn takes rows. Where the bins leave a
metric undecided, it comes as an `Estimate`: the value, and the range that the rows' own value cannot leave. Without the
rows that it needs, a metric raises `UndefinedMetricError`, or `UndefinedAucError` where it needs both labels; one that
takes scores for probabilities raises `InputError` where the edges leave [0, 1].

[FCE] Cormode, Markov, "Federated Calibration and Evaluation of Binary Classifiers", PVLDB 16(11) 2023, arXiv
2210.12526.
"""
