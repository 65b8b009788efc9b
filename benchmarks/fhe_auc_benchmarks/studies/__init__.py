"""The measurements behind the documents: each module prints the tables of a page in docs/evidence."""
