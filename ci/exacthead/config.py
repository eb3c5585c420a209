"""harness.toml as data: workers, suites, jobs, runners.

An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from exacthead.errors import HarnessError, nearest

T = TypeVar("T")

Flavour = Literal["cpu", "cuda"]
Level = Literal["L0", "L1", "L2", "L3"]
LinkMode = Literal["hardlink", "copy", "clone", "symlink"]

# The role of the worker that a suite's pytest runs in.
OWN_ROLE = "suite"


class Table(BaseModel):
    """A table of harness.toml; closed, so that a misspelt key never becomes a silent default.

    TOML has NaN and infinities: a limit of NaN is never reached, and none of its numbers may be one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Project(Table):
    """The repository under test: its name, and the folders that its code is imported from.

    Every file that matches ``test_files`` and lies in no folder of ``not_tests`` must belong to a
    suite. ``durations`` is the checked-in file of how long tests take.
    """

    name: str
    pythonpath: tuple[str, ...] = (".",)
    test_files: tuple[str, ...] = ("test_*.py", "*_test.py")
    not_tests: tuple[str, ...] = ()
    durations: str = "ci/durations.json"


class FlavourRequirements(Table):
    """What one accelerator flavour adds to a worker."""

    requirements: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    platform: str = "x86_64-manylinux_2_34"


class Worker(Table):
    """A Python environment in which one kind of process runs.

    ``python`` is a minor version. ``patch_floor`` is the lowest full version that the requirements
    claim to need; an interpreter below it is used only with ``below_patch_floor = true``.
    ``no_deps`` requirements are locked and installed without their dependencies.
    ``provided`` names an existing interpreter instead of building one; then ``requirements`` are
    version ranges to check. ``environment`` values may hold ``${VAR}``, expanded before the key.
    """

    python: str = Field(default="3.13", pattern=r"^3\.\d+$")
    patch_floor: str | None = Field(default=None, pattern=r"^3\.\d+\.\d+$")
    below_patch_floor: bool = False
    groups: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    no_deps: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    flavours: dict[Flavour, FlavourRequirements] = {"cpu": FlavourRequirements()}
    probes: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    local_packages: tuple[str, ...] = ()
    patches: tuple[str, ...] = ()
    link_mode: LinkMode = "hardlink"
    provided: str | None = None


class Resources(Table):
    """What an item asks of the machine; memory in GB of 10^9 bytes."""

    cpus: int = Field(default=1, ge=1)
    memory_gb: float = Field(default=1.0, gt=0)
    accelerators: int = Field(default=0, ge=0)


class Runner(Table):
    """A machine's resources."""

    cpus: int = Field(ge=1)
    memory_gb: float = Field(gt=0)
    accelerators: int = Field(default=0, ge=0)

    def short_of(self, asked: Resources, has: str = "there are") -> list[str]:
        """Each resource that is less here than what is asked for, with both numbers."""
        resources = (
            ("cpus", asked.cpus, self.cpus),
            ("memory in GB", asked.memory_gb, self.memory_gb),
            ("accelerators", asked.accelerators, self.accelerators),
        )
        return [
            f"{what}: asks {wish:g}, {has} {own:g}" for what, wish, own in resources if wish > own
        ]


class Suite(Resources):
    """A set of unit tests with the worker they need. Times in seconds, memory in GB.

    ``markers`` is pytest's ``-m`` expression; ``arguments`` are further arguments of pytest.
    ``roles`` are further workers, for tests that start processes in them: role -> worker name.
    A suite that is ``on_request`` runs only when it is named.
    ``requires`` names what must be there, or the suite is skipped: ``accelerator``,
    ``program:NAME`` on PATH, ``module:NAME`` importable in the worker.
    ``test_timeout_s`` limits one test, ``timeout_s`` one shard. ``shards`` and ``processes`` are
    what is used when nobody asks for another number. With ``may_skip`` a test that skips itself
    is accepted also by a strict run.
    """

    # Without any, pytest would take its configured paths, or all there is.
    paths: tuple[str, ...] = Field(min_length=1)
    worker: str
    markers: str = ""
    arguments: tuple[str, ...] = ()
    roles: dict[str, str] = Field(default_factory=dict)
    requires: tuple[str, ...] = ()
    level: Level = "L0"
    on_request: bool = False
    timeout_s: float = Field(default=600.0, gt=0)
    test_timeout_s: float = Field(default=120.0, gt=0)
    shards: int = Field(default=1, ge=1)
    processes: int = Field(default=1, ge=1)
    may_skip: bool = False
    coverage: bool = True
    environment: dict[str, str] = Field(default_factory=dict)

    @field_validator("requires")
    @classmethod
    def _known_requirements(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            kind, _, rest = name.partition(":")
            if not (name == "accelerator" or (kind in {"program", "module"} and rest)):
                message = f"{name!r} is none of accelerator, program:NAME, module:NAME"
                raise ValueError(message)
        return names


class Coverage(Table):
    """What is measured while unit suites run, and what a change must reach.

    ``sources`` are folders of first-party code; without any, nothing is measured. ``omit`` are
    patterns of files that do not count; lines that a regular expression of ``exclude`` finds count
    neither. ``patch_percent`` of the executable lines of a change must have run.
    """

    sources: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    patch_percent: float = Field(default=80.0, ge=0, le=100)


class Leg(Table):
    """One isolated run of a job: which worker plays which role, its environment and contract."""

    workers: dict[str, str]
    environment: dict[str, str] = Field(default_factory=dict)
    contract: str | None = None


class Job(Resources):
    """A functional script with its contract, needs and legs. Times in seconds, memory in GB."""

    script: str
    contract: str
    level: Level
    timeout_s: float = Field(gt=0)
    legs: dict[str, Leg]

    def contract_of(self, leg: str) -> str:
        """The leg's own contract, else the job's."""
        return self.legs[leg].contract or self.contract


class Ci(Table):
    """What .ci/run calls after the README's two commands."""

    sessions: tuple[str, ...] = ()


class Lint(Table):
    """The static checks. ``worker`` has ruff, mypy, shellcheck and shfmt in it.

    Without it only those checks run that need no tools: locks, known failures.
    """

    worker: str | None = None


class Harness(Table):
    """The whole file, plus where it was read from."""

    project: Project
    ci: Ci = Ci()
    lint: Lint = Lint()
    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    workers: dict[str, Worker]
    suites: dict[str, Suite] = Field(default_factory=dict)
    jobs: dict[str, Job] = Field(default_factory=dict)
    runners: dict[str, Runner] = Field(default_factory=dict)
    coverage: Coverage = Coverage()
    root: Path = Field(default=Path(), exclude=True)

    @property
    def import_folders(self) -> tuple[Path, ...]:
        """The folders that first-party code is imported from, absolute."""
        return tuple((self.root / path).resolve() for path in self.project.pythonpath)

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
        ("coverage",): Coverage,
        ("workers",): Worker,
        ("suites",): Suite,
        ("jobs",): Job,
        ("runners",): Runner,
        ("workers", "flavours"): FlavourRequirements,
        ("jobs", "legs"): Leg,
    }
    kind = tuple(str(part) for part in loc[:-1][0:3:2])
    if not kind:
        return set(Harness.model_fields) - {"root"}
    return set(models[kind].model_fields)


def _check_references(harness: Harness, path: Path) -> None:
    problems = []
    for name, worker in harness.workers.items():
        problems += [
            f"workers.{name}.groups: no group {group!r}; {nearest(group, harness.groups)}"
            for group in worker.groups
            if group not in harness.groups
        ]
    used = [("lint.worker", harness.lint.worker)] if harness.lint.worker else []
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
    problems += [
        f"{where}: no worker {worker!r}; {nearest(worker, harness.workers)}"
        for where, worker in used
        if worker not in harness.workers
    ]
    if problems:
        joined = "\n    ".join(problems)
        raise HarnessError(f"a valid {path}", f"\n    {joined}", "mend these references")
