"""A site's sessions: opened by hand or by policy, played out of the key store, opened late, closed, checked."""
