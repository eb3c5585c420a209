"""Generate: the files of CI services that are checked in, from harness.toml and nothing else."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from exacthead.errors import HarnessError
from exacthead.workflows.entries import KEPT_OF_WORKER, built_workers, called, groups
from exacthead.workflows.text import as_expression_free_yaml, as_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

    from exacthead.config import Harness

GITHUB, GITLAB = "github", "gitlab"
# Template -> where it is checked in.
FILES = {
    GITHUB: {
        "exacthead.yml.j2": ".github/workflows/exacthead.yml",
        "items.yml.j2": ".github/workflows/exacthead-items.yml",
        "vouch.yml.j2": ".github/workflows/vouch.yml",
    },
    GITLAB: {"gitlab-ci.yml.j2": ".gitlab-ci.yml"},
}
ALL = "(all)"
# A larger file starts no runs.
MOST_BYTES = 500_000

_HERE = Path(__file__).parent
_COMMIT = re.compile(r"[0-9a-f]{40}")


def generate(harness: Harness) -> dict[str, str]:
    """The text of each file of the declared services, by its path from the root.

    Raises:
        HarnessError: no service or no runner is declared, or an action is pinned to no commit.
    """
    if not harness.ci.services:
        raise HarnessError(
            "workflows", "no service is declared", 'add services = ["github"] to [ci]'
        )
    if not harness.runners:
        raise HarnessError(
            "workflows",
            "no runner is declared, and every job needs a machine",
            "declare one in [runners.NAME] of harness.toml",
        )
    # Jinja is slow to import, and only this needs it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        undefined=StrictUndefined,
        # GitHub's expressions have the usual braces.
        variable_start_string="[[",
        variable_end_string="]]",
        block_start_string="[%",
        block_end_string="%]",
        comment_start_string="[#",
        comment_end_string="#]",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - YAML; every text goes through one of these filters
    )
    known = groups(harness)
    declared = (*harness.suites.values(), *harness.jobs.values())

    def session(name: str, arguments: str | None = None) -> str:
        words = " ".join(called(harness, name, with_arguments=arguments is not None))
        return words if arguments is None else f"{words} {arguments}"

    environment.filters |= {
        "quoted": as_expression_free_yaml,
        "told": as_yaml,
        "session": session,
        "choices": choices,
    }
    facts = {
        "uses": read_actions(_HERE / "actions.toml"),
        "groups": known,
        "gates": {
            group.name: [each.id for each in known if each.name in group.needs] for group in known
        },
        "harness": harness,
        "all": ALL,
        "secrets": sorted({name for each in declared for name in each.secrets}),
        "install": _install(harness),
        "debian": any(base.suite and not base.mirror for base in harness.bases.values()),
        "most_workers": max((len(each) for each in built_workers(harness)), default=0),
        "kept_of_worker": KEPT_OF_WORKER,
    }
    made = {
        path: environment.get_template(template).render(facts)
        for service in harness.ci.services
        for template, path in FILES[service].items()
    }
    for path, text in made.items():
        if len(text.encode()) > MOST_BYTES:
            raise HarnessError(
                f"the workflow {path}",
                f"{len(text.encode())} bytes; GitHub starts none with more than {MOST_BYTES}",
                "declare fewer suites and jobs: shards and legs cost nothing here",
            )
    return made


def read_actions(path: Path) -> dict[str, str]:
    """What `uses:` says of each action: its commit, and the version as a comment.

    Raises:
        HarnessError: one is pinned to anything but a commit, or nobody says where that was seen.
    """
    actions = tomllib.loads(path.read_text(encoding="utf-8"))["actions"]
    for name, action in actions.items():
        if not _COMMIT.fullmatch(action["commit"]) or not action["seen"]:
            raise HarnessError(
                f"action {name}",
                f"pinned to {action['commit']!r}, seen in {action['seen']!r}",
                f"give the full id of a commit and where it was read, in {path.name}",
            )
    return {name: f"{name}@{each['commit']} # {each['version']}" for name, each in actions.items()}


def choices(names: Iterable[str]) -> list[str]:
    """What a dispatch offers: everything, or one of some names.

    GitHub refuses a workflow with an expression there, and knows no other way to write ``${{``: a
    name with that in it is asked for by its level, or with all others.
    """
    return [ALL, *(name for name in names if "${{" not in name)]


def stale(harness: Harness) -> dict[str, str]:
    """The files that are not what harness.toml asks for, by path, and how so."""
    if not harness.ci.services:
        return {}
    problems = {}
    for path, text in generate(harness).items():
        there = harness.root / path
        if not there.is_file():
            problems[path] = "missing"
        elif there.read_text(encoding="utf-8", errors="replace") != text:
            problems[path] = "stale, or edited by hand"
    return problems


def _install(harness: Harness) -> str:
    """The command that brings a machine what `[ci] packages` names; empty without any."""
    packages = " ".join(harness.ci.packages)
    flags = "-y -qq --no-install-recommends"
    return f"sudo apt-get update -qq && sudo apt-get install {flags} {packages}" if packages else ""
