"""Whom a site believes: keys and certificates, revocation, what is signed and what is sealed."""
