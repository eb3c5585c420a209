"""The report of a run: one model, and what is written from it."""
