"""The dashboard: the history of all runs as a folder of static pages."""
