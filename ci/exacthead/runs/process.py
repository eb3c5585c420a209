"""What /proc says about processes: which belong to one item, what they use; and ending them.

A process belongs to an item when it lies below the item's supervisor (a child subreaper, so that
orphans come back to it) or when its environment holds exactly the item's token. Either alone has a
hole: ``env -i`` drops the token, programs that set their own title overwrite it, and a supervisor
that was killed has no descendants. Names and command lines are never looked at to decide.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Every process of an item inherits this variable.
TOKEN_VARIABLE = "EXACTHEAD_ITEM"  # noqa: S105 - the name of a variable, not a secret

_POLL_S = 0.02


@dataclass(frozen=True)
class Process:
    """A process, told from a later one of the same pid by its start time.

    ``started`` is in clock ticks since boot; ``session`` is the session's id; ``state`` is the
    kernel's letter.
    """

    pid: int
    started: int
    parent: int
    session: int
    state: str
    name: str


def read_process(pid: int) -> Process | None:
    """Read one process; None when there is none of that pid (any more)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes().decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may itself hold spaces and parentheses.
    name = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return Process(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        session=int(fields[3]),
        state=fields[0],
        name=name,
    )


def all_processes() -> dict[int, Process]:
    """Every living process that this user can see, by pid; zombies are left out."""
    found = (read_process(int(path.name)) for path in Path("/proc").glob("[0-9]*"))
    return {each.pid: each for each in found if each is not None and each.state not in "ZX"}


def members(token: str | None, supervisor: int | None = None) -> list[Process]:
    """The living processes of the item that ``token`` marks, oldest first.

    Args:
        token: the value of EXACTHEAD_ITEM that the item was started with; None spares the look
            into every environment and goes by descent alone.
        supervisor: pid whose descendants belong to the item too; the supervisor itself does not.
    """
    table = all_processes()
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    roots = set(children.get(supervisor, ())) if supervisor is not None else set()
    if token is not None:
        roots |= {pid for pid in table if _carries(pid, token)}
    belonging: set[int] = set()
    todo = list(roots)
    while todo:
        pid = todo.pop()
        if pid not in belonging:
            belonging.add(pid)
            todo += children.get(pid, ())
    belonging -= {os.getpid(), supervisor}
    return sorted((table[pid] for pid in belonging), key=lambda each: (each.started, each.pid))


def _carries(pid: int, token: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        # Gone meanwhile, or another user's: then it was not started by this item.
        return False
    return f"{TOKEN_VARIABLE}={token}".encode() in environment.split(b"\0")


def command_line(pid: int, limit: int = 160) -> str:
    """The command line on one line, cut to ``limit`` characters; the name when there is none."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return "(gone)"
    text = " ".join(word.decode(errors="replace") for word in words).strip()
    if not text:
        process = read_process(pid)
        return f"[{process.name}]" if process else "(gone)"
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def pss_mb(processes: Iterable[Process]) -> float:
    """Proportional set size in MiB: each shared page counts once, split among its users."""
    total_kb = 0
    for process in processes:
        try:
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue  # ended between the listing and now
        total_kb += sum(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:")
    return total_kb / 1024


def rss_pages(processes: Iterable[Process]) -> int:
    """Resident pages of all processes, shared ones counted in each: rough, but costs nothing."""
    total = 0
    for process in processes:
        try:
            total += int(Path(f"/proc/{process.pid}/statm").read_bytes().split()[1])
        except OSError:
            continue  # ended between the listing and now
    return total


def send(process: Process, number: int) -> bool:
    """Send a signal to exactly this process, never to a later one that got its pid.

    Returns:
        Whether it was sent; False when the process is gone or may not be signalled.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        # The handle now pins one process; it is ours only if the start time still is.
        current = read_process(process.pid)
        if current is None or current.started != process.started:
            return False
        signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(handle)
    return True


def end(
    find: Callable[[], list[Process]],
    *,
    grace_s: float,
    kill_s: float,
    hurry: Callable[[], bool],
) -> list[Process]:
    """End everything that ``find`` finds: SIGTERM, then SIGKILL, until nothing is found.

    Args:
        find: lists the processes; asked again and again, since they may start others.
        grace_s: how long processes may take to go away after SIGTERM.
        kill_s: how long to go on with SIGKILL.
        hurry: asked while waiting; true cuts the grace short.

    Returns:
        What is still there (stuck in the kernel, or not ours to signal).
    """
    asked: set[tuple[int, int]] = set()
    deadline = time.monotonic() + grace_s
    while (found := find()) and time.monotonic() < deadline and not hurry():
        for process in found:
            if (process.pid, process.started) not in asked:
                asked.add((process.pid, process.started))
                send(process, signal.SIGTERM)
                send(process, signal.SIGCONT)  # a stopped process must wake to obey
        time.sleep(_POLL_S)
    deadline = time.monotonic() + kill_s
    while (found := find()) and time.monotonic() < deadline:
        for process in found:
            send(process, signal.SIGKILL)
        time.sleep(_POLL_S)
    return find()
