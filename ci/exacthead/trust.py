"""Trust: code of an outside pull request runs only at a head that a named person has vouched for.

A vouch is the comment ``/ok to test SHA``. The workflow passes it on with its author's name, in
variables or in a file; who may vouch is read from the revision that the pull request wants to
change, never from what it brings along.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.head import read_head

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from rich.console import Console

    from exacthead.config import Harness

COMMAND = "/ok to test"
# What a workflow passes: the outside pull request (none: the code is the repository's own), where
# its branch is now, the trusted revision, and the vouch in words or in a file.
PULL, TIP, BASE = "EXACTHEAD_PULL", "EXACTHEAD_PULL_HEAD", "EXACTHEAD_BASE"
VOUCH, VOUCHED_BY = "EXACTHEAD_VOUCH", "EXACTHEAD_VOUCHED_BY"
VOUCH_FILE = "EXACTHEAD_VOUCH_FILE"

# An object's id in a repository of SHA-1 or of SHA-256.
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SHORT = re.compile(r"[0-9a-fA-F]{1,63}")
_SHOWN = 80


@dataclass(frozen=True)
class Vouch:
    """A commit's full id, and who says that it may run."""

    commit: str
    by: str

    def __str__(self) -> str:
        return f"{self.commit[:12]}, vouched for by {self.by}"


def read_vouch(text: str, by: str) -> Vouch:
    """The vouch in a comment.

    Args:
        text: all of the comment; nothing but the command may be in it.
        by: who wrote it.

    Raises:
        HarnessError: it is no such command, or does not name one commit and no other.
    """
    asked = f"a vouch in {text[:_SHOWN]!r}"
    todo = f"comment `{COMMAND} SHA` alone, with all digits of the commit"
    command, _, commit = text.strip().rpartition(" ")
    if command != COMMAND:
        raise HarnessError(asked, f"no `{COMMAND} SHA`", todo)
    if not _ID.fullmatch(commit):
        words = "no commit's id"
        if _ID.fullmatch(commit.lower()):
            words = "not as git writes ids: in small letters"
        elif _SHORT.fullmatch(commit):
            words = "an abbreviated id: others can be made that begin so"
        raise HarnessError(asked, f"{commit[:_SHOWN]!r} is {words}", todo)
    if not by:
        raise HarnessError(asked, "nobody's name with it", f"pass the author in {VOUCHED_BY}")
    return Vouch(commit, by)


def vouched(vouch: Vouch | None, tip: str, vouchers: tuple[str, ...], pull: str) -> Vouch:
    """The vouch, if one of those who may vouch has vouched for the very head.

    Args:
        vouch: what was said; None when nobody said anything.
        tip: the commit that the pull request's branch is at now.
        vouchers: who may vouch.
        pull: the pull request, for the sentences.

    Raises:
        HarnessError: saying who must do what.
    """
    asked = f"run the code of the outside pull request {pull} at {tip[:_SHOWN]}"
    people = " or ".join(vouchers) or "someone listed in [trust] vouchers of ci/harness.toml"
    todo = f"{people} must look at it and comment: {COMMAND} {tip[:_SHOWN]}"
    if not _ID.fullmatch(tip):
        raise HarnessError(asked, "that is no commit's full id", f"pass it in {TIP}")
    if vouch is None:
        raise HarnessError(asked, "nobody has vouched for it", todo)
    if vouch.by not in vouchers:
        found = f"{vouch.by[:_SHOWN]!r} is none of those who may vouch"
        raise HarnessError(asked, found, todo)
    if vouch.commit != tip:
        found = f"it has moved, or never was there: {vouch.by} vouched for {vouch.commit}"
        raise HarnessError(asked, found, f"{todo}; what is new: git diff {vouch.commit} {tip}")
    return vouch


def check_trust(root: Path, environment: Mapping[str, str] = os.environ) -> Vouch | None:
    """Refuse to run an outside pull request's code unless the checkout is a head vouched for.

    Args:
        root: the checkout whose code would run.
        environment: what the workflow passes.

    Returns:
        The vouch; None where the code is the repository's own.

    Raises:
        HarnessError: it must not run.
    """
    if not environment.get(PULL):
        return None
    vouch = _said_for(root, environment)
    head = read_head(root)
    if head.dirty or head.commit != vouch.commit:
        raise HarnessError(
            f"run the code of the outside pull request {environment[PULL]}",
            f"the checkout is at {head}, not at {vouch}",
            f"check out exactly {vouch.commit}",
        )
    return vouch


def _said_for(root: Path, environment: Mapping[str, str]) -> Vouch:
    """The vouch for the head that the workflow names, if it holds."""
    pull, tip = environment[PULL], environment.get(TIP, "")
    return vouched(_said(root, environment), tip, _vouchers(root, environment), pull)


def _said(root: Path, environment: Mapping[str, str]) -> Vouch | None:
    """What was said, by variable or by file; None when nothing was."""
    text, by = environment.get(VOUCH, ""), environment.get(VOUCHED_BY, "")
    if name := environment.get(VOUCH_FILE):
        asked, todo = f"the vouch in {name}", "write it outside of the checkout: {vouch, by}"
        path = Path(name).resolve()
        if path.is_relative_to(root.resolve()):
            raise HarnessError(asked, "the pull request could have brought it along", todo)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            text, by = str(data["vouch"]), str(data["by"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HarnessError(asked, f"{type(error).__name__}: {error}", todo) from error
    return read_vouch(text, by) if text else None


def _vouchers(root: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Who may vouch, by the trusted revision."""
    base = environment.get(BASE, "")
    asked = "who may vouch for an outside pull request"
    if not _ID.fullmatch(base):
        found = f"{BASE} is {base[:_SHOWN]!r}"
        raise HarnessError(asked, found, "pass the full id of the commit that it goes to")
    declared = git(root, "show", f"{base}:ci/harness.toml")
    try:
        names = tomllib.loads(declared).get("trust", {}).get("vouchers", [])
    except tomllib.TOMLDecodeError as error:
        todo = "mend ci/harness.toml there"
        raise HarnessError(asked, f"at {base[:12]}: {error}", todo) from error
    return tuple(str(name) for name in names)


def trust(harness: Harness, arguments: Namespace, console: Console) -> int:
    """Say which commit may run, in a checkout of the trusted revision, before its code is there."""
    del arguments
    environment = os.environ
    if environment.get(PULL):
        vouch = _said_for(harness.root, environment)
        commit, said = vouch.commit, str(vouch)
    else:
        commit = environment.get(TIP) or git(harness.root, "rev-parse", "HEAD")
        said = f"{commit[:12]}, the repository's own"
        if not _ID.fullmatch(commit):
            raise HarnessError(f"run {commit[:_SHOWN]!r}", "no commit's full id", f"mend {TIP}")
    console.out(f"exacthead: {said}")
    if output := environment.get("GITHUB_OUTPUT"):
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(f"head={commit}\n")
    return 0
