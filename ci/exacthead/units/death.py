"""What to say about a process that ended: a kind, a line, and all that it left behind."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# pytest's exit codes: all passed, some failed, nothing collected.
ORDINARY = frozenset({0, 1, 5})

_LAST_BYTES = 4096
_STACK_BYTES = 1 << 18
_WORDS = {2: "was interrupted", 3: "had an internal error", 4: "refused its options or paths"}


def how_it_ended(returncode: int, kills: str) -> str:
    """The end of a process in words.

    Args:
        returncode: as of ``subprocess``: negative for a signal.
        kills: what the kernel's out-of-memory killer did meanwhile; empty for nothing.
    """
    if returncode >= 0:
        return f"its process ended with exit code {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    if kills and -returncode == signal.SIGKILL:
        return f"its process was ended by the kernel's out-of-memory killer ({kills})"
    return f"its process was ended by {name}"


def what_pytest_says(code: int) -> str:
    """The meaning of an exit code of pytest that is not an ordinary one."""
    return f"pytest {_WORDS.get(code, f'ended with exit code {code}')}"


def last_bytes(path: Path, limit: int = _LAST_BYTES) -> str:
    """The end of a file, for people; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - limit))
            return file.read().decode(errors="backslashreplace")
    except FileNotFoundError:
        return ""


def long_form(*, crash: str, stacks: str, output: str, log: str) -> str:
    """The text of a cause: each part that there is, under its title."""
    parts = (
        ("stacks of all threads at the end", crash),
        ("where its processes stood", stacks),
        ("the last it wrote", output[-_LAST_BYTES:]),
        ("the last of its process's log", log),
    )
    return "\n".join(f"--- {title}\n{text.rstrip()}\n" for title, text in parts if text.strip())


def crash_stacks(path: Path) -> str:
    """What the fault handler wrote."""
    return last_bytes(path, _STACK_BYTES)


def last_line(text: str) -> str:
    """The last line that says something: of a traceback, its error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
