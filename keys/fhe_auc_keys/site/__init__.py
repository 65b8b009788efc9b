"""A site's sessions: made, taken in by agreed studies, played out of the key store, closed, checked."""
