"""What comes out: evaluations, intervals, differences between sites, the report card; as values and as tables."""
