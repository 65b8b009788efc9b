"""One suite for every session: `tests.suite.any_session`."""
