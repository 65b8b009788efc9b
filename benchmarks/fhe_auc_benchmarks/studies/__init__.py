"""The measurements behind the documents: each module but `markdown` prints the tables of a page in docs."""
