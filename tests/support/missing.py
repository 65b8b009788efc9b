"""What stands for a missing entry in files and tables that people have."""

TEXTS = ("", "NA", "na", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "None", ".", "?", "NaT", r"\N")
