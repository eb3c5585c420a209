"""Unit suites: tests run in processes that may die, results that survive it."""
