"""Whom a site believes: members and their keys, what is signed and what is sealed."""
