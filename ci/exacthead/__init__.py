"""Exacthead: prove that a stack takes one correct training step at the exact head of its code.

One direction of flow, each stage reading files that the one before wrote: harness.toml + head ->
plan -> preflight -> workers -> shards and legs -> results -> report -> reproduce.
"""

__version__ = "0.1.0"
