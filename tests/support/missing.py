"""What stands for a missing entry in files and tables that people have."""

TEXTS = ("", "NA", "na", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "None", ".", "?", "NaT", r"\N")
TEXTS += (
    ".a",
    ".Z",
    "._",
    "#DIV/0!",
    "#WERT!",
    "#N/D",
    "1.#QNAN",
    "-1.#IND00",
    "-nan(ind)",
    "(null)",
    "\ufeff",
    "\xa0",
)
