"""Read manifests from the gate's control route; every call has a deadline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import aiohttp
from nemo_gym.token_id_capture.staging.records import RolloutManifest
from pydantic import ValidationError

from posttrain.capture.gate.errors import (
    LateGateError,
    MalformedManifestError,
    UnauthorizedGateError,
    UnreachableGateError,
)
from posttrain.environment.call import SEE_LOG, session

if TYPE_CHECKING:
    from posttrain.capture.gate.bearer import Bearer

ROUTE = "/training-token-capture/control/rollouts/{}/manifest"
_HTTP_OK, _HTTP_UNAUTHORIZED = 200, 401
_EXCERPT_BYTES = 300


class ManifestClient:
    """A client of one gate. Belongs to the event loop of its first call; close it there.

    Args:
        url: the gate's base address.
        bearer: the run's secret.
        deadline_s: seconds that one call may take, connection included.
    """

    def __init__(self, url: str, bearer: Bearer, deadline_s: float) -> None:
        self._url = url.rstrip("/")
        self._bearer = bearer
        self._deadline_s = deadline_s
        self._session: aiohttp.ClientSession | None = None

    async def manifest(self, rollout_id: str) -> RolloutManifest:
        """What the ledger knows of a rollout: its committed calls and its failed ones, in order.

        A rollout that the ledger has never met has an empty manifest.

        Raises:
            UnauthorizedGateError: the bearer is not the gate's.
            UnreachableGateError: no connection, or it broke.
            LateGateError: no whole answer within the deadline.
            MalformedManifestError: another status, or no manifest of this rollout.
        """
        asked = f"the manifest of rollout {rollout_id}"
        url = self._url + ROUTE.format(rollout_id)
        try:
            async with asyncio.timeout(self._deadline_s):
                status, content = await self._get(url)
        except TimeoutError:
            found = f"no answer from {url} within {self._deadline_s:g} s"
            raise LateGateError(asked, found, SEE_LOG) from None
        except (aiohttp.ClientError, OSError) as error:
            found = f"no answer from {url}: {type(error).__name__}: {error}"
            raise UnreachableGateError(asked, found, SEE_LOG) from error
        said = f"{url} answered {status}: {content[:_EXCERPT_BYTES].decode(errors='replace')}"
        if status == _HTTP_UNAUTHORIZED:
            raise UnauthorizedGateError(asked, said, "read only the gate of this very run")
        if status != _HTTP_OK:
            raise MalformedManifestError(asked, said, SEE_LOG)
        try:
            manifest = RolloutManifest.model_validate_json(content)
        except ValidationError as error:
            raise MalformedManifestError(asked, f"{said}; {error}", SEE_LOG) from error
        if manifest.rollout_id != rollout_id:
            raise MalformedManifestError(asked, f"that of {manifest.rollout_id}", SEE_LOG)
        return manifest

    async def close(self) -> None:
        """Close the connections; another call opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _get(self, url: str) -> tuple[int, bytes]:
        if self._session is None:
            self._session = session()
        async with self._session.get(url, headers=self._bearer.header) as reply:
            return reply.status, await reply.read()
