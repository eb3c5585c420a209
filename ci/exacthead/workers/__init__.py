"""Spec-aware worker environments: two specs never share one (law 1)."""
