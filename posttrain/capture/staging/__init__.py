"""Staged calls: Gym's sink and source over a data plane, files, and SQLite."""

from posttrain.capture.staging.open import open_store
from posttrain.capture.staging.store import Store

__all__ = ["Store", "open_store"]
