"""Init: what a repository needs to be tested, written from what it says of itself."""
