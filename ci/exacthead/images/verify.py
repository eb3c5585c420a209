"""Verify: whether an image is that of a commit, told from git and from its content alone.

What a tag or a label says decides nothing. The digest of the last layer is recomputed from git; the
whole configuration is composed anew from the layers and must have the image's id, so that no
variable, entry point or further layer can hide in it. An environment counts when it was built or
imported here under its key, with the Pythons that were found in it then, or when the image was
named by its content.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from exacthead.errors import HarnessError
from exacthead.images import head_layer
from exacthead.images.environment import SYSTEM, Claimed, Environment
from exacthead.images.head import compose
from exacthead.images.interpreters import described, read_interpreters
from exacthead.images.layer import Layer
from exacthead.images.oci import ENVIRONMENT, PYTHONS, REVISION, SOURCE, WORKERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from exacthead.config import Harness
    from exacthead.images.cache import Cache
    from exacthead.images.engine import Engine, ImageFacts
    from exacthead.images.snapshot import Snapshot

_DIGEST = re.compile(r"([^@\s]+@)?sha256:[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-f]{12,64}")
_BUILD = "build the head's image: ./noxw -s images, or leave out --image"


@dataclass(frozen=True)
class Verified:
    """An image that is what it must be.

    Attributes:
        id: by which it is run.
        environment: what is in it besides the head.
        notes: what every report must say of it.
    """

    id: str
    environment: Environment
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verifier:
    """Verifies images of one repository."""

    harness: Harness
    engine: Engine
    cache: Cache

    def verify(self, reference: str, made_from: Snapshot, *, flavour: str = "cpu") -> Verified:
        """Check that ``reference`` is the image of a commit.

        Args:
            reference: an id, a tag, or ``repository@sha256:...``.
            made_from: the commit that it must be of.
            flavour: of its workers.

        Raises:
            HarnessError: it is not; with what it should have and what it has.
        """
        facts = self.engine.image(reference)
        if facts is None:
            raise HarnessError(
                f"image {reference!r}",
                "the engine has no such image",
                f"pull it, import it, or {_BUILD}",
            )
        self._check_head(reference, facts, made_from)
        self._check_whole(reference, facts, made_from)
        environment, notes = self._environment(reference, facts, flavour)
        return Verified(facts.id, environment, notes)

    def _check_head(self, reference: str, facts: ImageFacts, made_from: Snapshot) -> None:
        expected = head_layer.diff_id(made_from)
        found = facts.layers[-1] if facts.layers else "no layer at all"
        if found == expected:
            return
        said = facts.labels.get(REVISION, "nothing")
        words = f"{found}; its label says {said!r}, which counts for nothing"
        if expected in facts.layers:
            words = f"{found}, which lies over {expected}: something was added to the image"
        raise HarnessError(
            f"image {reference!r} with the head layer {expected} of {made_from}",
            f"its last layer is {words}",
            f"{_BUILD}; to use an image of another commit, name that commit: --reuse COMMIT",
        )

    def _check_whole(self, reference: str, facts: ImageFacts, made_from: Snapshot) -> None:
        ours = (ENVIRONMENT, WORKERS, PYTHONS)
        labels = {name: facts.labels[name] for name in ours if name in facts.labels}
        layers = tuple(Layer(diff_id, 0, None, "") for diff_id in facts.layers)
        composed = compose(made_from, layers, labels, facts.labels.get(SOURCE, ""))
        if composed.id != facts.id:
            raise HarnessError(
                f"image {reference!r} with id {composed.id}, which its layers make",
                f"it has id {facts.id}: its configuration was changed",
                _BUILD,
            )

    def _environment(
        self, reference: str, facts: ImageFacts, flavour: str
    ) -> tuple[Environment, tuple[str, ...]]:
        key = facts.labels.get(ENVIRONMENT, "")
        layers = facts.layers[:-1]
        known = self.cache.read("environment", key) if key else None
        if known:
            expected = tuple(layer.diff_id for layer in known[0])
            if expected != layers:
                raise HarnessError(
                    f"image {reference!r} with environment {key[:12]} of layers {expected}",
                    f"it has {layers}",
                    _BUILD,
                )
        elif not by_content(reference, facts):
            raise HarnessError(
                f"image {reference!r} with an environment that is known here",
                f"{key[:12] or 'none'} was neither built nor imported here, and a tag can move",
                f"name the image by its content: {facts.id}",
            )
        pythons = _read(facts.labels, PYTHONS)
        if known and not self._are_known(pythons, layers):
            raise HarnessError(
                f"image {reference!r} with the Pythons that were found in environment {key[:12]}",
                f"its label says {json.dumps(pythons, sort_keys=True)}",
                _BUILD,
            )
        claimed = Claimed(
            key,
            tuple(Layer(diff_id, 0, None, "") for diff_id in layers),
            pythons,
            _read(facts.labels, WORKERS),
        )
        environment = claimed.checked(self.harness, flavour)
        notes = () if known else (f"environment {key[:12]} of the image was not built here",)
        return environment, notes

    def _are_known(self, pythons: Mapping[str, Any], layers: tuple[str, ...]) -> bool:
        """Whether these were found in the system packages that an environment lies on.

        A label names the program that a container begins with, and is not told from git.
        """
        systems = (self.cache.look(*each) for each in self.cache.records() if each[0] == SYSTEM)
        for system in systems:
            below = tuple(layer.diff_id for layer in system[0]) if system else ()
            if system and layers[: len(below)] == below:
                found = read_interpreters(system[1]["interpreters"])
                if described(found) == pythons:
                    return True
        return False


def by_content(reference: str, facts: ImageFacts) -> bool:
    """Whether a reference says what the image is: an id, its beginning, or ``...@sha256:...``."""
    if _DIGEST.fullmatch(reference):
        return True
    # A tag may look like the beginning of an id.
    names = {name.rpartition(":")[0] for name in facts.tags}
    short = _SHORT.fullmatch(reference) and reference not in names
    return bool(short) and facts.id.removeprefix("sha256:").startswith(reference)


def _read(labels: Mapping[str, str], name: str) -> dict[str, Any]:
    try:
        found = json.loads(labels[name])
        if isinstance(found, dict):
            return found
    except (KeyError, ValueError):
        pass
    raise HarnessError(
        f"an image of this harness, with a label {name}",
        repr(labels.get(name, "none")),
        _BUILD,
    )
