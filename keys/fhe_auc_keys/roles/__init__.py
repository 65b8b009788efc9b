"""Who holds which key in a session: sealed keys, a helper; and a whole consortium played in one process."""
