"""What a session's maker hands out: the announcement, sealed bundles, and what they hold."""
