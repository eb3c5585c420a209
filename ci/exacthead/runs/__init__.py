"""Runs: isolated legs, the run folder, and what is said about them (laws 2, 4, 6, 8)."""
