"""Settings: what is measured in one item and how, as coverage's own configuration file.

Measuring starts in every Python process of the item by its environment alone: coverage's wheel
ships a ``.pth`` file that starts it where COVERAGE_PROCESS_START names a configuration. Nothing is
installed into the worker. Coverage keeps a log beside its data: who started with which core, and
who saved what. Whoever is in it and neither saved nor left a journal was killed.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from coverage.files import GlobMatcher

from exacthead.errors import HarnessError
from exacthead.runs.files import read_json, write_json, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Core = Literal["sysmon", "ctrace"]

# Below an item's folder: all that its processes write, until it is combined.
PARTS = "coverage.parts"
LOG = "log.txt"
RECORD = "record.json"

_INSIDE = Path(__file__).parent / "inside"
# sys.monitoring came with 3.12: https://docs.python.org/3/library/sys.monitoring.html
_MONITORING = (3, 12)
# Measured by pattern and not by coverage's ``source``: with that, each process would walk the
# sources at its end to list the files that it did not import. That is done once, after the run.
_NEVER = ("*/site-packages/*", "*/dist-packages/*")


@dataclass(frozen=True)
class Settings:
    """What a repository wants to know of its coverage.

    Attributes:
        sources: folders and files, relative to the checkout, whose lines count.
        omit: patterns of files among them that do not count, relative to the checkout (``*``
            stands for anything within one folder, ``**/`` for any folders).
        exclude: regular expressions; a line that one of them finds needs no test, nor does the
            block that it opens. Coverage's own (``pragma: no cover``, ``if TYPE_CHECKING:``) stay.
        contexts: tell lines apart by test, with the C tracer in pytest's own processes.
    """

    sources: tuple[str, ...] = (".",)
    omit: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    contexts: bool = False

    def __post_init__(self) -> None:
        wrong = [each for each in (*self.sources, *self.omit) if each.startswith(("/", ".."))]
        if wrong or not self.sources:
            raise HarnessError(
                "the sources of the coverage",
                f"not within the checkout: {', '.join(wrong)}" if wrong else "none",
                "give paths relative to the repository's root",
            )


@dataclass(frozen=True)
class Prepared:
    """What an item is started with.

    Attributes:
        config: coverage's configuration file.
        environment: variables of the item.
        pythonpath: what goes behind the item's own first-party folders; absolute.
        how: the plan in words; what really happened is said after the run.
    """

    config: Path
    environment: dict[str, str]
    pythonpath: tuple[Path, ...]
    how: str


@dataclass(frozen=True)
class Record:
    """What was decided for one item, for whoever reads its data.

    Attributes:
        roots: the checkout as its processes name it, in all its spellings.
        core: what was asked for.
        contexts: whether lines are told apart by test.
        how: the plan in words.
    """

    roots: tuple[str, ...]
    core: Core
    contexts: bool
    how: str


def prepare(
    item: Path,
    root: Path,
    settings: Settings,
    *,
    python: str,
    seen_as: tuple[Path, Path] | None = None,
) -> Prepared:
    """Make an item's folder ready to be measured.

    Args:
        item: the item's folder; what was measured there before is removed.
        root: the checkout.
        settings: what counts.
        python: the worker's Python version, ``3.13.0``.
        seen_as: ``item`` and ``root`` as the item's processes see them, inside a container.

    Returns:
        The configuration file, its path and those in the variables as the processes see them.

    Raises:
        HarnessError: the folder cannot be written to.
    """
    seen_item, seen_root = seen_as or (item.absolute(), root.absolute())
    parts, seen_parts = item / PARTS, seen_item / PARTS
    roots = [str(seen_root)]
    if seen_as is None and str(root.resolve()) not in roots:
        roots.append(str(root.resolve()))
    version = _version(python)
    core, how = _choose(version, contexts=settings.contexts)
    try:
        shutil.rmtree(parts, ignore_errors=True)
        for earlier in item.glob("coverage.*"):
            earlier.unlink()
        (parts / "data").mkdir(parents=True)
        shutil.copytree(_INSIDE, parts / "inside", ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise HarnessError(
            f"a folder for coverage data, {parts}", str(error), "make room or mend its permissions"
        ) from error
    write_text(parts / "coverage.toml", _toml(_run(settings, roots, seen_parts, core)))
    write_json(parts / RECORD, asdict(Record(tuple(roots), core, settings.contexts, how)))
    environment = {"COVERAGE_PROCESS_START": str(seen_parts / "coverage.toml")}
    if settings.contexts:
        environment["PYTEST_PLUGINS"] = "exacthead_contexts"
        environment["EXACTHEAD_COVER_CHILD_CORE"] = _choose(version, contexts=False)[0]
    return Prepared(seen_parts / "coverage.toml", environment, (seen_parts / "inside",), how)


def read_record(parts: Path) -> Record:
    """Read what was decided for an item.

    Raises:
        HarnessError: there is none, or it is not one.
    """
    return read_json(
        parts / RECORD,
        lambda data: Record(**{**data, "roots": tuple(data["roots"])}),
        "run the item again; its coverage was never prepared or its folder was damaged",
    )


def counted(settings: Settings, names: Iterable[str]) -> list[str]:
    """Those of the files, named relative to the checkout, whose lines count.

    Decided by coverage's own matcher, so that a pattern means the same here and while measuring.
    """
    included, omitted = _patterns(settings, "")
    include, omit = GlobMatcher(included), GlobMatcher([*_NEVER, *omitted])
    python = ((name, f"/{name}") for name in names if name.endswith(".py"))
    return [name for name, path in python if include.match(path) and not omit.match(path)]


def _patterns(settings: Settings, root: str) -> tuple[list[str], list[str]]:
    """Coverage's patterns for the files of ``root`` that count, and for those that do not."""
    # Coverage has no way to quote a special character in a pattern; "?" stands for any single one.
    base = re.sub(r"[\[\]*?]", "?", root.rstrip("/"))
    included = []
    for source in settings.sources:
        path = base if source in {".", "./"} else f"{base}/{source.strip('/')}"
        included += [path] if path.endswith(".py") else [f"{path}/*"]
    return included, [f"{base}/{pattern}" for pattern in settings.omit]


def _run(settings: Settings, roots: Sequence[str], parts: Path, core: Core) -> dict[str, Any]:
    """The ``run`` table."""
    pairs = [_patterns(settings, root) for root in roots]
    return {
        "core": core,
        "data_file": _literal(str(parts / "data" / "coverage")),
        "parallel": True,
        "include": [_literal(each) for included, _ in pairs for each in included],
        "omit": [
            *_NEVER,
            _literal(str(parts / "*")),
            *(_literal(each) for _, omitted in pairs for each in omitted),
        ],
        # What each of them does is described at
        # https://coverage.readthedocs.io/en/latest/config.html#run-patch. ``execv`` is not among
        # them: it puts variables into the environment that a program made for its successor.
        "patch": ["_exit", "fork"],
        "sigterm": True,
        "debug": ["process", "core", "dataio", "pid"],
        "debug_file": _literal(str(parts / LOG)),
        # A warning in the output, or one that pytest turns into an error, changes what tests see;
        # what these say is in the log or is asked of the combined data.
        "disable_warnings": [
            *("no-sysmon", "no-ctracer", "no-sysmon-context", "no-data-collected"),
            *("include-ignored", "already-imported", "module-not-measured"),
        ],
        **({"context": "${EXACTHEAD_COVER_CONTEXT-}"} if settings.contexts else {}),
    }


def _choose(version: tuple[int, int], *, contexts: bool) -> tuple[Core, str]:
    shown = f"Python {version[0]}.{version[1]}"
    if contexts:
        return "ctrace", "lines and the test that ran them, by the C tracer"
    if version < _MONITORING:
        return "ctrace", f"lines by the C tracer, since {shown} has no sys.monitoring"
    return "sysmon", "lines by sys.monitoring"


def _version(python: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", python)
    if found is None:
        raise HarnessError(
            "the Python version of a worker to measure in", repr(python), "give one like 3.13.0"
        )
    return int(found[1]), int(found[2])


def _literal(text: str) -> str:
    """Text in which coverage replaces no ``$NAME`` by a variable."""
    return text.replace("$", "$$")


def _toml(run: dict[str, Any]) -> str:
    # A JSON string, list or boolean is one of TOML too.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in run.items()]
    return "\n".join(["[tool.coverage.run]", *lines, ""])
