"""Running one item (a leg or a unit shard) isolated and bounded, with everything it leaves on file.

The harness starts a supervisor, and that the item (supervisor.py says why). The item writes its log
straight to the file, so that nothing is lost however anyone dies; the echo follows the file.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING

from exacthead.runs import process
from exacthead.runs.echo import Echo
from exacthead.runs.files import write_json
from exacthead.runs.isolation import Place, item_environment, own_folders, private_folder
from exacthead.runs.judge import judge, signal_name
from exacthead.runs.order import Facts, Order, read_facts
from exacthead.runs.packing import Asked
from exacthead.runs.ports import claim_ports
from exacthead.runs.stacks import STACKS_VARIABLE
from exacthead.runs.start import start_here, talk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from exacthead.runs.folder import ItemFolder
    from exacthead.runs.inside import Inside
    from exacthead.runs.ports import Ports
    from exacthead.verdict import Verdict

_POLL_S = 0.1


@dataclass(frozen=True)
class ItemRequest:
    """What one item is. Times in seconds, memory in MiB.

    Attributes:
        item_id: its name in the plan; any text.
        command: program and arguments.
        cwd: the folder it runs in, absolute.
        folder: where its results go.
        timeout_s: how long the whole item may take.
        environment: what the job declares, over the harness's defaults.
        pythonpath: first-party folders, absolute, in order.
        grace_s: after a timeout, the time between SIGTERM and SIGKILL.
        leftover_grace_s: how long processes may outlive the script without being leftovers.
        memory_limit_mb: the whole tree's proportional set size at which the item is ended; it is
            sampled, so a short peak can go unseen.
        keep_private: leave the private folder (temporary files, caches) in place for a look.
        keep_when_red: files and folders below the private folder that are copied to the item's
            artifacts when its script did not simply exit with 0.
        secrets: names of inherited variables that its processes see too; no value is kept.
        settled: its verdict when there is nothing to run.
        asked: what it takes of the machine while it runs.
        inside: the place that it runs in, when that is not this machine itself; paths of this
            machine are translated, and the command's words are that place's already.
    """

    item_id: str
    command: tuple[str, ...]
    cwd: Path
    folder: ItemFolder
    timeout_s: float
    environment: Mapping[str, str] = field(default_factory=dict)
    pythonpath: tuple[Path, ...] = ()
    grace_s: float = 10.0
    leftover_grace_s: float = 5.0
    memory_limit_mb: float | None = None
    keep_private: bool = False
    keep_when_red: tuple[str, ...] = ("ray/session_latest/logs",)
    secrets: tuple[str, ...] = ()
    settled: Verdict | None = None
    asked: Asked = field(default_factory=Asked)
    inside: Inside | None = None

    def describe(self) -> dict[str, object]:
        """The request as JSON-ready data, enough to ask for the same again (request.json)."""
        return {
            "item_id": self.item_id,
            "command": list(self.command),
            "cwd": str(self.cwd),
            "environment": dict(self.environment),
            "pythonpath": [str(path) for path in self.pythonpath],
            "timeout_s": self.timeout_s,
            "grace_s": self.grace_s,
            "leftover_grace_s": self.leftover_grace_s,
            "memory_limit_mb": self.memory_limit_mb,
            "secrets": list(self.secrets),
            "keep_when_red": list(self.keep_when_red),
            **(self.inside.describe() if self.inside else {}),
        }


@dataclass(frozen=True)
class ItemOutcome:
    """What became of an item, before any contract is looked at.

    ``returncode`` is None when the script never started or its end was not seen, negative for a
    signal, whose name is then in ``signal``. ``peak_pss_mb`` is sampled over the whole process
    tree, in MiB. ``private`` is the folder that was kept, if it was. ``started`` is Unix time.
    """

    verdict: Verdict
    returncode: int | None
    signal: str | None
    seconds: float
    peak_pss_mb: float
    leftovers: tuple[str, ...]
    notes: tuple[str, ...]
    log: Path
    private: Path | None = None
    started: float | None = None


def run_item(
    request: ItemRequest,
    *,
    echo: Callable[[str], object] | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ItemOutcome:
    """Run the item to its end and say what became of it; all of it is gone on return.

    Args:
        request: the item.
        echo: gets the log's text as it grows, with control characters made visible.
        stop: asked often; once it is true the item is ended within five seconds and its verdict
            is ``interrupted``.

    Raises:
        HarnessError: when the item cannot be isolated (no free ports, no temporary folder, a
            reserved variable) or its folder cannot be written to.
    """
    write_json(request.folder.request, request.describe())
    started = time.time()
    token = uuid.uuid4().hex
    # The log stays open: an item that removes it, or its whole folder, takes no evidence away.
    with claim_ports() as ports, request.folder.log.open("w+b") as log:
        private = request.inside.private if request.inside else private_folder()
        try:
            order = _order(request, private, ports, token)
            facts = _supervise(request, order, ports, Echo(log, echo), stop)
            facts.notes += _put_back(request, log)
        finally:
            if not (request.keep_private or request.inside):
                shutil.rmtree(private, ignore_errors=True)
    return ItemOutcome(
        verdict=judge(facts, request.folder.log, request.timeout_s, request.memory_limit_mb),
        returncode=facts.returncode,
        signal=signal_name(facts.returncode),
        seconds=round(facts.seconds, 3),
        peak_pss_mb=round(facts.peak_pss_mb, 1),
        leftovers=facts.leftovers,
        notes=facts.notes,
        log=request.folder.log,
        private=private if request.keep_private else None,
        started=round(started, 3),
    )


def _put_back(request: ItemRequest, log: IO[bytes]) -> tuple[str, ...]:
    """Restore the log and the request where the item has removed or replaced them; a note of it."""
    path = request.folder.log
    if path.is_file() and path.samefile(f"/proc/self/fd/{log.fileno()}"):
        return ()
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    request.folder.artifacts.mkdir(parents=True, exist_ok=True)
    write_json(request.folder.request, request.describe())
    log.seek(0)
    with path.open("wb") as file:
        shutil.copyfileobj(log, file)
    return ("it removed or replaced its own log, which was put back",)


def _values(secrets: Iterable[str]) -> dict[str, str]:
    """What is set of some variables; that one is missing was said before."""
    return {name: os.environ[name] for name in secrets if name in os.environ}


def _order(request: ItemRequest, private: Path, ports: Ports, token: str) -> Order:
    inside, folder = request.inside, request.folder

    def seen(path: Path) -> Path:
        return inside.seen(path, folder.path) if inside else path

    there = type(folder)(seen(folder.path))
    environment = item_environment(
        inherited=inside.inherited if inside else os.environ,
        additions={**request.environment, **_values(request.secrets)},
        pythonpath=tuple(map(seen, request.pythonpath)),
        place=Place(private, there, ports, token),
        make=inside is None,
    )
    return Order(
        command=list(request.command),
        cwd=str(seen(request.cwd)),
        environment=environment,
        token=token,
        timeout_s=request.timeout_s,
        grace_s=request.grace_s,
        leftover_grace_s=request.leftover_grace_s,
        memory_limit_mb=request.memory_limit_mb,
        log=str(there.log),
        stacks_folder=environment[STACKS_VARIABLE],
        stacks_file=str(there.stacks),
        private=str(private),
        keep_private=request.keep_private,
        keep_when_red=request.keep_when_red,
        artifacts=str(there.artifacts),
        ports=(ports.low, ports.high),
        folders=own_folders(private),
    )


def _supervise(
    request: ItemRequest, order: Order, ports: Ports, echo: Echo, stop: Callable[[], bool]
) -> Facts:
    """Start the supervisor and wait for its facts."""
    started = time.monotonic()
    inside = request.inside
    start = inside.start(order, request.folder.path) if inside else start_here(ports)
    with start as supervisor:
        report = talk(supervisor, order, echo, stop)
        # A supervisor that was killed while it wrote has told nothing.
        if report.endswith(b"\n"):
            return read_facts(report)
        lost = supervisor.lost()
    # Nobody is left who knows the tree; what the token marks is ended from here.
    process.end(
        lambda: process.members(order.token), grace_s=0, kill_s=_POLL_S * 50, hurry=lambda: True
    )
    return Facts(ended_by="supervisor", error=lost, seconds=time.monotonic() - started)
