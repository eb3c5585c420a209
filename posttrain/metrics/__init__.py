"""Metrics of a run: the ``table`` of names that may be written, and the ``writer``."""

from posttrain.metrics.writer import MetricsWriter

__all__ = ["MetricsWriter"]
