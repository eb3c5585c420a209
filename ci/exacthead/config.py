"""harness.toml as a whole: read, with every table in it, and checked.

An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from exacthead.errors import HarnessError, nearest
from exacthead.images.tables import Base, Image
from exacthead.tables import (
    OWN_ROLE,
    Ci,
    Coverage,
    FlavourRequirements,
    Job,
    Leg,
    Lint,
    Project,
    Recipes,
    Runner,
    Secrets,
    Suite,
    Table,
    Trust,
    Worker,
)

T = TypeVar("T")
# The end of a shard's id.
_PART = re.compile(r"\.\d+of\d+$")


class Harness(Table):
    """The whole file, plus where it was read from."""

    project: Project
    ci: Ci = Ci()
    lint: Lint = Lint()
    recipes: Recipes | None = None
    trust: Trust = Trust()
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    workers: dict[str, Worker]
    suites: dict[str, Suite] = Field(default_factory=dict)
    jobs: dict[str, Job] = Field(default_factory=dict)
    runners: dict[str, Runner] = Field(default_factory=dict)
    bases: dict[str, Base] = Field(default_factory=dict)
    images: dict[str, Image] = Field(default_factory=dict)
    coverage: Coverage = Coverage()
    secrets: Secrets = Secrets()
    root: Path = Field(default=Path(), exclude=True)

    @property
    def import_folders(self) -> tuple[Path, ...]:
        """The folders that first-party code is imported from, absolute."""
        return tuple((self.root / path).resolve() for path in self.project.pythonpath)

    @property
    def masked(self) -> Secrets:
        """What is masked: ``[secrets]``, and the values of the secrets of suites and jobs."""
        declared = [*self.suites.values(), *self.jobs.values()]
        given = (name for each in declared for name in each.secrets)
        names = tuple(dict.fromkeys((*self.secrets.names, *given)))
        return self.secrets.model_copy(update={"names": names})

    def worker(self, name: str) -> Worker:
        """The declared worker ``name``; an unknown name is an error with the nearest one."""
        return self._pick("worker", name, self.workers)

    def suite(self, name: str) -> Suite:
        """The declared suite ``name``."""
        return self._pick("suite", name, self.suites)

    def job(self, name: str) -> Job:
        """The declared job ``name``."""
        return self._pick("job", name, self.jobs)

    def runner(self, name: str) -> Runner:
        """The declared runner ``name``."""
        return self._pick("runner", name, self.runners)

    def image(self, name: str) -> Image:
        """The declared image ``name``."""
        return self._pick("image", name, self.images)

    def base(self, name: str) -> Base:
        """The declared base ``name``."""
        return self._pick("base", name, self.bases)

    @staticmethod
    def _pick(what: str, name: str, known: dict[str, T]) -> T:
        if name not in known:
            raise HarnessError(
                f"{what} {name!r}",
                f"no such {what} in harness.toml",
                nearest(name, known),
            )
        return known[name]


def load(root: Path) -> Harness:
    """Read and check ``root/ci/harness.toml``.

    Raises:
        HarnessError: naming every problem at once, with the nearest known key for each unknown one.
    """
    path = root / "ci" / "harness.toml"
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise HarnessError(f"read {path}", "no such file", _elsewhere(root)) from None
    except (OSError, ValueError, RecursionError) as error:
        raise HarnessError(f"read {path}", str(error), "mend the TOML syntax there") from error
    try:
        harness = Harness.model_validate({**raw, "root": root})
    except ValidationError as error:
        problems = "\n    ".join(_problem(detail) for detail in error.errors())
        raise HarnessError(f"a valid {path}", f"\n    {problems}", "mend these keys") from error
    _check_references(harness, path)
    return harness


def _elsewhere(folder: Path) -> str:
    """What to do in a folder that is no root."""
    for root in folder.absolute().parents:
        if (root / "ci" / "harness.toml").is_file():
            return f"run it at the repository's root, which is {root}"
    return "run it at the root of a repository that has one"


def _problem(detail: Any) -> str:
    where = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown key; {nearest(str(detail['loc'][-1]), _known(detail['loc']))}"
    return f"{where}: {detail['msg']}"


def _known(loc: tuple[str | int, ...]) -> set[str]:
    """The keys that the model has at the table that ``loc`` lies in."""
    # A table's kind is told by its outermost and, two levels down, its inner name.
    models: dict[tuple[str, ...], type[Table]] = {
        ("project",): Project,
        ("ci",): Ci,
        ("lint",): Lint,
        ("recipes",): Recipes,
        ("trust",): Trust,
        ("coverage",): Coverage,
        ("secrets",): Secrets,
        ("workers",): Worker,
        ("suites",): Suite,
        ("jobs",): Job,
        ("runners",): Runner,
        ("bases",): Base,
        ("images",): Image,
        ("workers", "flavours"): FlavourRequirements,
        ("jobs", "legs"): Leg,
    }
    kind = tuple(str(part) for part in loc[:-1][0:3:2])
    if not kind:
        return set(Harness.model_fields) - {"root"}
    return set(models[kind].model_fields)


def _ambiguous(harness: Harness) -> list[str]:
    """Names by which one item could be taken for another: ids are names, joined by dots."""
    problems = [
        f"suites.{name}: it ends like a shard's number"
        for name in harness.suites
        if _PART.search(name)
    ]
    problems += [
        f"jobs.{name}: items that begin with `unit` are those of suites"
        for name in harness.jobs
        if name.partition(".")[0] == "unit"
    ]
    for kind, names in (("suites", harness.suites), ("jobs", harness.jobs)):
        problems += [
            f"{kind}.{longer}: its items would be taken for those of {kind}.{name}"
            for longer in names
            for name in names
            if longer.startswith(f"{name}.")
        ]
    return problems


def _check_references(harness: Harness, path: Path) -> None:
    problems = _ambiguous(harness)
    for name, worker in harness.workers.items():
        problems += [
            f"workers.{name}.groups: no group {group!r}; {nearest(group, harness.groups)}"
            for group in worker.groups
            if group not in harness.groups
        ]
    used = [("lint.worker", harness.lint.worker)] if harness.lint.worker else []
    used += [("recipes.worker", harness.recipes.worker)] if harness.recipes else []
    for name, suite in harness.suites.items():
        used += [(f"suites.{name}.worker", suite.worker)]
        used += [(f"suites.{name}.roles.{role}", worker) for role, worker in suite.roles.items()]
        if OWN_ROLE in suite.roles:
            problems += [f"suites.{name}.roles.{OWN_ROLE}: this role is the suite's own worker's"]
    for name, job in harness.jobs.items():
        for leg_name, leg in job.legs.items():
            used += [
                (f"jobs.{name}.legs.{leg_name}.workers.{role}", worker)
                for role, worker in leg.workers.items()
            ]
    for name, image in harness.images.items():
        used += [(f"images.{name}.workers", worker) for worker in image.workers]
        if image.base not in harness.bases:
            problems.append(
                f"images.{name}.base: no base {image.base!r}; {nearest(image.base, harness.bases)}"
            )
    if harness.ci.runner and harness.ci.runner not in harness.runners:
        said = nearest(harness.ci.runner, harness.runners)
        problems.append(f"ci.runner: no runner {harness.ci.runner!r}; {said}")
    problems += [
        f"{where}: no worker {worker!r}; {nearest(worker, harness.workers)}"
        for where, worker in used
        if worker not in harness.workers
    ]
    if problems:
        joined = "\n    ".join(problems)
        raise HarnessError(f"a valid {path}", f"\n    {joined}", "mend these references")
