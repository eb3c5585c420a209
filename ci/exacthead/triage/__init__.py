"""Triage: what known failures, earlier runs and the base head say about a run's faults."""
