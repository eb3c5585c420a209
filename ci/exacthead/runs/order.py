"""What the harness and an item's supervisor tell each other: an order, then the facts.

Standard library only: the supervisor imports this in a bare interpreter.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Order:
    """What the harness asks for. Times in seconds, memory in MiB; paths are absolute.

    ``folders`` are made before the command is started.
    """

    command: list[str]
    cwd: str
    environment: dict[str, str]
    token: str
    timeout_s: float
    grace_s: float
    leftover_grace_s: float
    memory_limit_mb: float | None
    log: str
    stacks_folder: str
    stacks_file: str
    private: str
    keep_private: bool
    keep_when_red: tuple[str, ...]
    artifacts: str
    ports: tuple[int, int]
    folders: tuple[str, ...] = ()


@dataclass
class Facts:
    """What happened, without judgement.

    ``ended_by`` is ``exit``, ``timeout``, ``memory``, ``interrupt``, ``harness`` (the harness went
    away) or ``start`` (the command could not be started; ``error`` says why). ``returncode`` is
    negative for a signal, None when the item never ran.
    """

    ended_by: str = "exit"
    returncode: int | None = None
    error: str = ""
    seconds: float = 0.0
    peak_pss_mb: float = 0.0
    oom_kills: int = 0
    leftovers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_facts(line: bytes) -> Facts:
    """The facts that a supervisor reported."""
    fields: dict[str, Any] = json.loads(line)
    fields |= {name: tuple(fields[name]) for name in ("leftovers", "notes")}
    return Facts(**fields)


def read_order(control: int) -> tuple[Order, bool]:
    """Read the order from the harness's pipe; also whether the word to end came right behind it.

    Raises:
        SystemExit: when the harness died before it gave an order.
    """
    text = b""
    while b"\n" not in text:
        data = os.read(control, 1 << 16)
        if not data:
            raise SystemExit(0)
        text += data
    line, _, rest = text.partition(b"\n")
    fields: dict[str, Any] = json.loads(line)
    return Order(**fields), b"interrupt" in rest
