"""Take an engine's port before anything slow starts."""

from __future__ import annotations

import errno
import socket

from posttrain.errors import WorkerError
from posttrain.ports import HOST


def bind(port: int) -> socket.socket:
    """Take a port of this machine before anything slow starts; 0 takes a free one.

    Raises:
        WorkerError: naming the port that is in use or not allowed.
    """
    taken = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((HOST, port))
        # Two sockets may bind one port with SO_REUSEADDR until one of them listens.
        taken.listen(128)
    except OSError as error:
        taken.close()
        found = "in use by another process" if error.errno == errno.EADDRINUSE else str(error)
        raise WorkerError(
            f"port {port} of {HOST} for a generation server",
            f"port {port} is {found}",
            "set another port, or 0 for a free one",
        ) from error
    return taken
