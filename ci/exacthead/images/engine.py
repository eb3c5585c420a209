"""The container engine: all that is asked of it, through the docker SDK for Python.

Podman serves the same interface from ``podman system service``; whatever differs is here.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.images.oci import ENVIRONMENT
from exacthead.images.reach import reach
from exacthead.images.streams import check_progress

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Iterator, Mapping

# Every container of ours bears this label; one without it is never changed.
OURS = "exacthead.owner"
_ROOM = "see `docker system df`; ./noxw -s images -- --gc GB makes room"


@dataclass(frozen=True)
class ImageFacts:
    """What the engine says of an image.

    Attributes:
        id: the digest of its configuration.
        layers: the digests of its layers, bottom first.
        labels: for people.
        tags: its names.
        digests: ``repository@sha256:...`` of the registries that it came from or went to.
        size: bytes.
        created: as its configuration says.
    """

    id: str
    layers: tuple[str, ...]
    labels: Mapping[str, str]
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    created: str


@dataclass(frozen=True)
class Ended:
    """How a container ended; ``code`` is None where the engine does not say."""

    code: int | None
    out_of_memory: bool
    error: str


class Engine:
    """One engine, reached and asked what it is.

    Raises:
        HarnessError: none answers; every place that was tried is named.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        # Slow to import, and most commands need no engine.
        import docker

        self._errors = docker.errors
        self.host, self._ask, self.version = reach(environ)
        parts = [str(part.get("Name", "")) for part in self.version.get("Components") or ()]
        self.kind = "podman" if any("podman" in part.lower() for part in parts) else "docker"

    def close(self) -> None:
        """Close the connections to it."""
        self._ask.close()

    @property
    def takes_parts(self) -> bool:
        """Whether it loads an archive without the layers that it has already."""
        return self.kind == "docker"

    @property
    def architecture(self) -> str:
        """Of the machine that it runs on, as Go names it."""
        return str(self.version.get("Arch") or "")

    @property
    def local(self) -> bool:
        """Whether it runs on this machine, so that its containers see this machine's files."""
        return self.host.startswith("unix://")

    def image(self, reference: str) -> ImageFacts | None:
        """What an id, a tag or a ``repository@sha256:...`` means to the engine now."""
        try:
            said = self._ask.inspect_image(reference)
        except self._errors.ImageNotFound:
            return None
        except self._errors.APIError as error:
            raise self._failure(f"the image {reference!r}", error) from error
        return ImageFacts(
            id=said["Id"] if said["Id"].startswith("sha256:") else f"sha256:{said['Id']}",
            layers=tuple(said["RootFS"].get("Layers") or ()),
            labels=said["Config"].get("Labels") or {},
            tags=tuple(said.get("RepoTags") or ()),
            digests=tuple(said.get("RepoDigests") or ()),
            size=int(said.get("Size") or 0),
            created=str(said.get("Created")),
        )

    def our_images(self) -> list[ImageFacts]:
        """Every image that says of itself that it is one of ours."""
        listed = self._ask.images(filters={"label": ENVIRONMENT}, all=False)
        found = (self.image(each["Id"]) for each in listed)
        return [image for image in found if image is not None]

    def load(self, archive: Iterable[bytes], asked: str) -> None:
        """Load an archive.

        Raises:
            HarnessError: the engine refused it, or could not keep it, also where it says so only
                at the end.
        """
        with self._asking(asked):
            # The SDK's own call stops at the first line of progress.
            url = self._ask._url("/images/load")  # noqa: SLF001
            answer = self._ask._post(  # noqa: SLF001
                url, data=iter(archive), params={"quiet": True}, stream=True,
                headers={"Content-Type": "application/x-tar"},
            )  # fmt: skip
            self._ask._raise_for_status(answer)  # noqa: SLF001
            check_progress(answer.iter_content(None), asked, _ROOM)

    def save(self, image: str) -> Iterator[bytes]:
        """An image as ``docker save`` writes it."""
        with self._asking(f"save image {image}"):
            yield from self._ask.get_image(image, chunk_size=1 << 20)

    def tag(self, image: str, name: str) -> None:
        """Give an image a name, ``repository:tag``."""
        repository, _, tag = name.rpartition(":")
        with self._asking(f"name image {image} {name!r}"):
            self._ask.tag(image, repository, tag, force=True)

    def remove_image(self, reference: str) -> bool:
        """Take a name away, or an image that has none; False where it is in use."""
        try:
            self._ask.remove_image(reference, noprune=False)
        except self._errors.ImageNotFound:
            return False
        except self._errors.APIError as error:
            if error.status_code == 409:  # noqa: PLR2004 - HTTP's word for a conflict
                return False
            raise self._failure(f"remove image {reference}", error) from error
        return True

    def push(self, name: str, todo: str) -> str:
        """Push ``repository:tag``; returns the digest that the registry knows it by."""
        repository, _, tag = name.rpartition(":")
        asked = f"push {name}"
        with self._asking(asked, todo):
            messages = check_progress(self._ask.push(repository, tag, stream=True), asked, todo)
        digests = [str(each["aux"]["Digest"]) for each in messages if "Digest" in _aux(each)]
        if not digests:
            raise HarnessError(asked, "the engine named no digest", todo)
        return digests[-1]

    def pull(self, reference: str, todo: str) -> None:
        """Pull a ``repository@sha256:...``."""
        repository, _, digest = reference.partition("@")
        asked = f"pull {reference}"
        with self._asking(asked, todo):
            # The SDK takes a digest for a tag, and puts the sign between them itself.
            check_progress(self._ask.pull(repository, digest, stream=True), asked, todo)

    def create(self, image: str, **settings: Any) -> str:
        """Create a container; ``settings`` as the engine's API names them. Returns its id."""
        body = {"Image": image, **settings}
        with self._asking(f"a container of {image}"):
            return str(self._ask.create_container_from_config(body)["Id"])

    def start(self, container: str) -> None:
        """Start a container."""
        with self._asking(f"start container {container[:12]}"):
            self._ask.start(container)

    def attach(self, container: str) -> tuple[socket.socket, Callable[[], None]]:
        """A socket to the standard streams of a container that has not been started yet.

        Beside it comes what closes it, which must be kept for as long as it is used.
        """
        parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        with self._asking(f"the streams of container {container[:12]}"):
            found = self._ask.attach_socket(container, parameters)
        # The SDK wraps what it opened in an answer, and closes it when nobody has that any more.
        return getattr(found, "_sock", found), found._response.close  # noqa: SLF001

    def inspect(self, container: str) -> dict[str, Any]:
        """What the engine says of a container."""
        with self._asking(f"container {container[:12]}"):
            return dict(self._ask.inspect_container(container))

    def wait(self, container: str, timeout_s: float) -> Ended:
        """How a container ended, once it has.

        Raises:
            HarnessError: it did not within ``timeout_s``.
        """
        with self._asking(f"the end of container {container[:12]}"):
            said = self._ask.wait(container, timeout=timeout_s)
            state = self._ask.inspect_container(container)["State"]
        code = said.get("StatusCode")
        problem = (said.get("Error") or {}).get("Message") or state.get("Error") or ""
        return Ended(
            code=code if isinstance(code, int) else None,
            out_of_memory=bool(state.get("OOMKilled")),
            error=str(problem),
        )

    def kill(self, container: str) -> None:
        """End all of a container at once; one that has ended is fine."""
        try:
            self._ask.kill(container)
        except self._errors.APIError as error:
            if error.status_code not in {404, 409}:
                raise self._failure(f"end container {container[:12]}", error) from error

    def remove(self, container: str) -> None:
        """Remove a container of ours, running or not; one that is gone is fine.

        Raises:
            HarnessError: it is not ours.
        """
        try:
            labels = self._ask.inspect_container(container)["Config"].get("Labels") or {}
            if OURS not in labels:
                raise HarnessError(
                    f"remove container {container[:12]}",
                    "it is not ours",
                    "leave it, or remove it by hand",
                )
            self._ask.remove_container(container, force=True, v=True)
        except self._errors.APIError as error:
            if error.status_code not in {404, 409}:
                raise self._failure(f"remove container {container[:12]}", error) from error

    def our_containers(self) -> dict[str, Mapping[str, str]]:
        """The labels of every container of ours, running or not, by its id."""
        with self._asking("the containers of ours"):
            listed = self._ask.containers(all=True, filters={"label": OURS})
        return {each["Id"]: each["Labels"] for each in listed}

    @contextmanager
    def _asking(self, asked: str, todo: str = _ROOM) -> Iterator[None]:
        import requests

        try:
            yield
        except self._errors.APIError as error:
            raise self._failure(asked, error, todo) from error
        except (requests.RequestException, self._errors.DockerException, OSError) as error:
            raise HarnessError(
                asked, f"the engine at {self.host}: {error}", "see whether it still runs"
            ) from error

    @staticmethod
    def _failure(asked: str, error: Any, todo: str = _ROOM) -> HarnessError:
        return HarnessError(asked, str(error.explanation or error), todo)


def _aux(message: Mapping[str, Any]) -> Mapping[str, Any]:
    found = message.get("aux")
    return found if isinstance(found, dict) else {}
