"""Sessions between machines: what a site's and the aggregator's role do there, and what carries their messages."""
