"""Who holds which key."""
