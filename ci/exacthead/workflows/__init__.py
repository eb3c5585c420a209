"""Workflows: what CI services are told, generated from harness.toml and from plans."""
