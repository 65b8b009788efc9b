"""What is asked: the analysis (models, groups, classes), thresholds and their bins, the study, a fleet's members."""
