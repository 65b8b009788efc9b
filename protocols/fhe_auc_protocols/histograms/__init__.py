"""Score histograms and quantile thresholds: three ways of counting, two things read off the counts."""
