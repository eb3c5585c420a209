"""Gym's servers with the gate among them, as the trainer sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from posttrain.capture.gate.bearer import Bearer
from posttrain.capture.gate.client import ManifestClient
from posttrain.environment.configure import MODEL
from posttrain.environment.servers import GymServers

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from posttrain.capture.gate.configure import CapturedServers


class Gate(GymServers):
    """As ``GymServers``, with a bearer that only this process and the servers' know.

    Args:
        python: the ``gym`` worker's interpreter.
        config: the environment to serve, with capture.
        run_dir: as ``GymServers``.
        deadline_s: as ``GymServers``.
        ports: as ``GymServers``.
    """

    def __init__(
        self,
        python: Path,
        config: CapturedServers,
        run_dir: Path,
        deadline_s: float,
        ports: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(python, config, run_dir, deadline_s, ports)
        self.folder = config.folder
        self.bearer = Bearer()

    def manifests(self, deadline_s: float) -> ManifestClient:
        """Who reads its ledger, with so many seconds for each call; only after :meth:`start`."""
        return ManifestClient(self.url(MODEL), self.bearer, deadline_s)

    def recycle(self, limit_mb: float) -> bool:
        """Restart the servers when their process has more than ``limit_mb`` MiB in memory.

        The gate keeps a parsed copy of every rollout's ledger for as long as it lives; the next one
        reads the files. Only for when no rollout is under way (``Admission.paused``): a restart
        ends those.

        Returns:
            Whether they were restarted; they are ready again then, at the same addresses.

        Raises:
            WorkerError: they did not come up again.
        """
        if self.resident_mb <= limit_mb:
            return False
        self.restart()
        self.wait_ready()
        return True

    @property
    def _processes(self) -> dict[str, tuple[str, ...]]:
        others = tuple(name for name in self._config.names if name != MODEL)
        return {"gym-gate": (MODEL,), "gym-servers": others}

    def _environment(self, configuration: str) -> dict[str, str]:
        return super()._environment(configuration) | self.bearer.environment
