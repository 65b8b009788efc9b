"""What a session's maker hands out: the announcement, sealed bundles, the roster, and what they hold."""
