"""Failure classes: what kind of thing went wrong, told by an ordered list of rules."""
