"""The tables of harness.toml, each on its own: workers, suites, jobs, runners and the rest."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from exacthead.bounded import check_bounded

Flavour = Literal["cpu", "cuda"]
Level = Literal["L0", "L1", "L2", "L3"]
LinkMode = Literal["hardlink", "copy", "clone", "symlink"]

# The role of the worker that a suite's pytest runs in.
OWN_ROLE = "suite"

# Of an environment variable; it stands in scripts and workflows as it is.
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Table(BaseModel):
    """A table of harness.toml; closed, so that a misspelt key never becomes a silent default.

    TOML has NaN and infinities; none of its numbers may be one, since no limit of NaN is reached.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Project(Table):
    """The repository under test: its name, and the folders that its code is imported from.

    Every file that matches ``test_files`` and lies in no folder of ``not_tests`` must belong to a
    suite. ``durations`` is the checked-in file of how long tests take. ``source`` is its public
    address, for the labels of its images.
    """

    name: str
    source: str = ""
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
    """What an item asks of the machine; memory in GB of 10^9 bytes.

    ``network`` is whether it reaches one, where it is run in a container. ``needs`` are its gates:
    ``unit.SUITE``, a job, or ``JOB.LEG``; behind a red one it is not run. Unless ``required``, it
    leaves the run green when it is red itself. ``shared_memory_gb`` is what it puts into /dev/shm.
    """

    cpus: int = Field(default=1, ge=1)
    memory_gb: float = Field(default=1.0, gt=0)
    shared_memory_gb: float = Field(default=0.0, ge=0)
    accelerators: int = Field(default=0, ge=0)
    network: bool = False
    needs: tuple[str, ...] = ()
    required: bool = True


class Runnable(Resources):
    """What suites and jobs have in common.

    ``level`` is how much of the stack it needs: L0 unit and hygiene, L1 verifiers and components,
    L2 rollouts, L3 training. What is ``on_request`` runs only when it is named. ``secrets`` are
    names of variables that it cannot do without.
    """

    level: Level = "L0"
    on_request: bool = False
    secrets: tuple[VariableName, ...] = ()


class Runner(Table):
    """A machine's resources; ``pids`` limits the processes and threads of one container.

    ``labels`` are how GitHub finds such a machine.
    """

    cpus: int = Field(ge=1)
    memory_gb: float = Field(gt=0)
    accelerators: int = Field(default=0, ge=0)
    pids: int = Field(default=8192, ge=1)
    labels: tuple[str, ...] = Field(default=("ubuntu-24.04",), min_length=1)

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


class Suite(Runnable):
    """A set of unit tests with the worker they need. Times in seconds, memory in GB.

    ``markers`` is pytest's ``-m`` expression; ``arguments`` are further arguments of pytest.
    ``roles`` are further workers, for tests that start processes in them: role -> worker name.
    ``requires`` names what must be there, or the suite is skipped: ``accelerator``,
    ``program:NAME`` on PATH, ``module:NAME`` importable in the worker, ``engine``: a container
    engine that runs, or may be started, ``index``: the package index that a machine is told of.
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
    timeout_s: float = Field(default=600.0, gt=0)
    test_timeout_s: float = Field(default=120.0, gt=0)
    shards: int = Field(default=1, ge=1, le=10_000)
    processes: int = Field(default=1, ge=1)
    may_skip: bool = False
    coverage: bool = True
    environment: dict[str, str] = Field(default_factory=dict)

    @field_validator("requires")
    @classmethod
    def _known_requirements(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            kind, _, rest = name.partition(":")
            alone = name in {"accelerator", "engine", "index"}
            if not (alone or (kind in {"program", "module"} and rest)):
                known = "accelerator, program:NAME, module:NAME, engine, index"
                message = f"{name!r} is none of {known}"
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
    """One isolated run of a job: which worker plays which role, its environment and contract.

    ``overrides`` come behind the job's. ``kinds`` says which role is which of the recipe's kinds of
    process, where their names differ: kind -> role. ``packages`` are version ranges that the worker
    of a role must have, for what the leg switches on: role -> requirements. ``metrics`` are
    patterns of names that it writes besides the recipe's.
    """

    workers: dict[str, str]
    environment: dict[str, str] = Field(default_factory=dict)
    contract: str | None = None
    overrides: tuple[str, ...] = ()
    kinds: dict[str, str] = Field(default_factory=dict)
    packages: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    metrics: tuple[str, ...] = ()


class Job(Runnable):
    """A functional script with its contract, needs and legs. Times in seconds, memory in GB.

    ``recipe`` is what its legs run with the entry point ``entry`` and ``overrides``
    (``key=value``); ``binds`` says what that must come to, by the recipe's keys. Scripts find both
    in ``EXACTHEAD_RECIPE`` and ``EXACTHEAD_OVERRIDES``.
    """

    script: str
    contract: str
    level: Level
    timeout_s: float = Field(gt=0)
    legs: dict[str, Leg]
    recipe: str = ""
    entry: str = ""
    overrides: tuple[str, ...] = ()
    binds: dict[str, str | int | float | bool] = Field(default_factory=dict)

    def contract_of(self, leg: str) -> str:
        """The leg's own contract, else the job's."""
        return self.legs[leg].contract or self.contract

    def overrides_of(self, leg: str) -> tuple[str, ...]:
        """What the leg's recipe is overridden with; later ones win."""
        return (*self.overrides, *self.legs[leg].overrides)


class Recipes(Table):
    """Who answers questions about recipes: ``python -m MODULE`` in ``worker``, a light one."""

    worker: str
    module: str


class Secrets(Table):
    """What is masked in all that is written, beside tokens of well-known forms.

    ``names`` are variables of the harness's environment whose values are masked; ``patterns`` are
    regular expressions, matched within a line, whose repetitions are possessive.
    """

    names: tuple[VariableName, ...] = ()
    patterns: tuple[str, ...] = ()

    @field_validator("patterns")
    @classmethod
    def _bounded(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if re.search(check_bounded(pattern), ""):
                raise ValueError(f"{pattern!r} matches nothing at all, and so everywhere")
        return patterns


class Ci(Table):
    """What .ci/run calls after the README's two commands, and what CI services are told.

    ``services`` have their files generated. ``packages`` are Debian's, which a service's machine
    needs; ``image`` is the container image in which GitLab runs; ``runner`` is what is planned for
    when nobody asks for another, by default the machine that plans.
    """

    sessions: tuple[str, ...] = ()
    services: tuple[Literal["github", "gitlab"], ...] = ()
    packages: tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+.-]*$")], ...] = ()
    image: str = ""
    runner: str = ""


class Trust(Table):
    """Who may vouch for the head of an outside pull request, by the name that the host knows."""

    vouchers: tuple[str, ...] = ()


class Lint(Table):
    """The static checks. ``worker`` has ruff, mypy, shellcheck, shfmt and the rest in it.

    Without it only those checks run that need no tools. ``signed_off_since`` is the revision, as
    ``origin/main``, behind which every commit must be signed off; None asks for none.
    """

    worker: str | None = None
    signed_off_since: str | None = Field(default=None, min_length=1)
