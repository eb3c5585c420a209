"""Exacthead: prove that a training stack takes one correct step at the exact head of its repository.

One direction of flow, each stage reading files that the one before wrote:
harness.toml + head -> plan -> preflight -> workers -> shards and legs -> results -> report -> reproduce.
"""

__version__ = "0.1.0"
