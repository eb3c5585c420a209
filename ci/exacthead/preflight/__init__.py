"""Preflight: refuse what cannot work before anything is built, and say all of it at once."""
