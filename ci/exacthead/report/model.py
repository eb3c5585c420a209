"""What is said about a run: one model, from which every text, page and file of it is written.

All text in it is as it was found (test names, messages, branch names are anybody's), with secrets
masked; whoever writes it out escapes it for its format. Times are in seconds, paths are relative to
the run folder, and a field that is not known is None or empty, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

# Raised when a field of the JSON changes its meaning or goes; new fields leave it as it is.
SCHEMA = 1


class Standing(StrEnum):
    """How a fault stands to what was known before the run."""

    NEW = "new"
    ALSO_RED = "also_red"  # clean runs of the base had the identical fault
    KNOWN = "known"  # an entry in known_failures.toml covers it, and it does not block


class Class(StrEnum):
    """What kind of thing went wrong; ``unknown`` where no rule says so."""

    ASSERTION = "assertion"
    IMPORT = "import/environment"
    MEMORY = "out of memory"
    TIMEOUT = "timeout/hang"
    CRASH = "crash"
    CONTRACT = "contract"
    INFRASTRUCTURE = "infrastructure"
    ACCELERATOR = "accelerator"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Counts:
    """Numbers of the verdict line; a subject is a test, a leg, or an item without tests.

    Attributes:
        new: faults that are neither known nor on the base.
        known: quarantined ones.
        also_red: those that the base shows too.
        not_run: planned subjects that did not run to an end of their own.
        skipped: subjects that skipped themselves.
        flaky: tests that passed in one process and showed a fault in another.
        passed: the others.
        tests: all tests that were planned.
        legs: all legs that were planned.
    """

    new: int = 0
    known: int = 0
    also_red: int = 0
    not_run: int = 0
    skipped: int = 0
    flaky: int = 0
    passed: int = 0
    tests: int = 0
    legs: int = 0


@dataclass(frozen=True)
class Head:
    """What was tested; ``changed`` says what was edited in the checkout while the run went on."""

    commit: str
    tree: str
    dirty: bool
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Since:
    """The oldest run of an unbroken row in which the subject has this fault.

    Attributes:
        run: its id; that of the run itself when the run before was green.
        commit: its head.
        when: its start, ISO 8601 in UTC.
        runs: how many runs the row has, this one included.
        dirty: whether its checkout was anything but that head.
        green: the commit of the last run before it in which the subject passed; empty when none is
            known.
    """

    run: str
    commit: str
    when: str
    runs: int
    dirty: bool = False
    green: str = ""


@dataclass(frozen=True)
class Attempt:
    """One run of a test in one process, as its JUnit case tells it."""

    number: int
    verdict: str
    seconds: float | None
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class Log:
    """The end of a log, and where the whole lies.

    Attributes:
        path: of the whole.
        size: of the whole, in bytes.
        tail: its last lines, decoded; control characters are as they were.
        cut: whether the whole holds more than the tail.
    """

    path: str
    size: int
    tail: str
    cut: bool


@dataclass(frozen=True)
class Failure:
    """One fault: of a test, of a leg, or of an item as a whole.

    Attributes:
        name: a node id or an item's id.
        item: the id of its item.
        kind: its verdict's (``failed``, ``crashed``, ``timed_out``, ``quarantined``).
        standing: how it stands to what was known.
        required: whether it makes the run red.
        cause: one line.
        text: the long form: a traceback, stacks; may be empty.
        failure_class: what kind of thing went wrong.
        rule: the id of the rule that said so; empty for unknown.
        group: what faults of one cause share across tests and runs: the rule and its captures; the
            signature for unknown.
        since: None when there is no history.
        reproduction: one line for a shell that runs it again.
        file: where it lies in the checkout; empty when not known.
        line: there, from 1.
        attempts: all of them, in order; empty for what is no test.
        score: how often a fresh process disagreed about this test, from 0 to 1; None without
            history.
        notes: what is worth knowing beside it.
    """

    name: str
    item: str
    kind: str
    standing: Standing
    required: bool
    cause: str
    text: str = ""
    failure_class: Class = Class.UNKNOWN
    rule: str = ""
    group: str = ""
    since: Since | None = None
    reproduction: str = ""
    file: str = ""
    line: int | None = None
    attempts: tuple[Attempt, ...] = ()
    score: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotRun:
    """Subjects of one item that did not run (or skipped themselves) for one reason.

    Attributes:
        item: the id of their item.
        kind: ``not_run``, ``interrupted`` or ``skipped``.
        why: the reason, one line.
        count: how many.
        names: the first of them; the item's own id when it has no tests.
        reproduction: one line that runs the item.
        required: whether that makes the run red.
    """

    item: str
    kind: str
    why: str
    count: int
    names: tuple[str, ...]
    reproduction: str = ""
    required: bool = True


@dataclass(frozen=True)
class Check:
    """One check of a contract: what was demanded, what was observed.

    ``verdict`` is a kind; ``reason`` is empty for a pass. ``marks`` are change points of its metric
    in the history, newest last.
    """

    name: str
    kind: str
    metric: str
    verdict: str
    reason: str
    observed: str
    bound: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class Mark:
    """A point of a series from which on its median is another one.

    Attributes:
        series: what changed: ``metric NAME of ITEM``, ``seconds of NAME``.
        run: the first run with the new level.
        commit: its head.
        before: the median of the points before.
        after: that of the points from there on.
        shift: their distance in units of the series' robust noise; None where it has none.
    """

    series: str
    run: str
    commit: str
    before: float
    after: float
    shift: float | None


@dataclass(frozen=True)
class Item:
    """One planned item.

    Attributes:
        id: its name in the plan.
        kind: ``leg`` or ``suite``.
        suite: the suite's name, for a shard; ``shard`` of ``shards`` is its part.
        verdict: its verdict's kind.
        reason: why, one line; empty for a pass.
        required: whether the run is red when it is not green.
        started: Unix time; None when not known.
        seconds: wall time.
        expected: what the history (the median of its last passes) lets expect; None without.
        peak_mb: the highest proportional set size of its process tree, in MiB.
        workers: names.
        image: the id of the image that it ran in; empty when in none.
        stages: seconds by stage, in order.
        tests: verdict's kind -> how many tests.
        contract: its checks, in order.
        log: None when it wrote none.
        folder: of the item, relative to the run folder.
        leftovers: what it left behind, a sentence each.
        notes: what is worth knowing.
        details: Markdown.
        reproduction: one line that runs it again.
    """

    id: str
    kind: str
    verdict: str
    reason: str
    required: bool
    seconds: float
    folder: str
    suite: str = ""
    shard: int = 0
    shards: int = 0
    started: float | None = None
    expected: float | None = None
    peak_mb: float = 0.0
    workers: tuple[str, ...] = ()
    image: str = ""
    stages: dict[str, float] = field(default_factory=dict)
    tests: dict[str, int] = field(default_factory=dict)
    contract: tuple[Check, ...] = ()
    log: Log | None = None
    leftovers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    reproduction: str = ""


@dataclass(frozen=True)
class Worker:
    """A worker as the run used it; ``how`` is ``built``, ``reused``, ``provided`` or ``image``."""

    name: str
    key: str
    flavour: str
    interpreter: str
    how: str
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Green:
    """The last green run before this one on the same runner, and what differs from it.

    ``differences`` are sentences; empty when nothing that is known differs.
    """

    run: str
    commit: str
    when: str
    differences: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """A run as it is reported.

    Attributes:
        run: its id, the name of its folder.
        state: ``passed``, ``failed``, ``interrupted``, ...
        verdict: in words: ``2 new failures, 1 known, 1 also red on base, 3 not run``.
        reasons: what makes the run red beside its items (lost results, a coverage gate).
        counts: the numbers behind it.
        head: what was tested.
        started: ISO 8601 in UTC.
        seconds: of all items together.
        expected: what the history lets expect of them; None when an item has no history.
        runner: its kind.
        flavour: ``cpu`` or ``cuda``.
        machine: where it ran, in words.
        invocation: how it was asked for.
        failures: the new ones first, then those also red on the base, then known ones.
        not_run: what did not run and why.
        flaky: tests that passed after a fault; ``standing`` says nothing of them.
        items: in the plan's order.
        workers: by name.
        images: item -> image id.
        green: None when there is no earlier green run.
        marks: change points whose first run is this one or one of the few before.
        sections: further lines of Markdown (known failures, coverage).
        notes: what is worth knowing.
        schema: of the JSON.
    """

    run: str
    state: str
    verdict: str
    counts: Counts
    head: Head
    started: str
    seconds: float
    runner: str
    flavour: str
    machine: str = ""
    invocation: str = ""
    expected: float | None = None
    reasons: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    not_run: tuple[NotRun, ...] = ()
    flaky: tuple[Failure, ...] = ()
    items: tuple[Item, ...] = ()
    workers: tuple[Worker, ...] = ()
    images: dict[str, str] = field(default_factory=dict)
    green: Green | None = None
    marks: tuple[Mark, ...] = ()
    sections: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    @property
    def told(self) -> tuple[str, ...]:
        """All that is worth knowing of the run, its items and its images.

        What is said of several items is said once: a reader is shown the first lines only.
        """
        noted: dict[str, list[str]] = {}
        for each in self.items:
            for note in each.notes:
                noted.setdefault(note, []).append(each.id)
        held: dict[str, list[str]] = {}
        for item, image in self.images.items():
            held.setdefault(image, []).append(item)
        return (
            *self.notes,
            *(f"{_named(items)}: {note}" for note, items in noted.items()),
            *(f"image of {_named(items)}: {image}" for image, items in held.items()),
        )

    @property
    def new(self) -> tuple[Failure, ...]:
        """The failures that are neither known nor on the base."""
        return tuple(each for each in self.failures if each.standing is Standing.NEW)


def _named(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{len(items)} items"
