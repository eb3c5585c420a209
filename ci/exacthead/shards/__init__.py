"""Shards: which tests run together, estimated from what they took before."""
