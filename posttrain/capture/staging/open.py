"""The store that settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posttrain.capture.settings import CaptureSettings
    from posttrain.capture.staging.store import Store


def open_store(settings: CaptureSettings) -> Store:
    """Open the place of staged calls, in any process that is told the same settings.

    Raises:
        StackError: it cannot be reached from this process.
    """
    # Only the one that is asked for: a data plane needs Ray.
    if settings.folder is not None:
        from posttrain.capture.staging.files import FileStore

        return FileStore(settings.folder)
    if settings.database is not None:
        from posttrain.capture.staging.sqlite import SqliteStore

        return SqliteStore(settings.database, settings.deadline_s)
    if settings.plane is not None:
        from posttrain.capture.staging.plane import PlaneStore
        from posttrain.dataplane import connect

        return PlaneStore(connect(settings.plane), settings.partition, owned=True)
    raise AssertionError(f"settings that name no place: {settings}")
