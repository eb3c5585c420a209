"""Contracts: the checks that a leg's metrics must satisfy, as data (law 5)."""
