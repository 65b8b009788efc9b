"""A party's rows: read from files and data frames, checked, kept outside memory where they are many, counted."""
