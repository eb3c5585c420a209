"""Witness: a shell that outlives a container's command, and says whether memory was what ended it.

An engine learns of the kernel's out-of-memory killer beside the end of a container, and forgets it
where the control group is gone by then: of containers that ended so on a busy machine, one in two
was told as killed by somebody. The group's own count, read from within, is always there.
"""

from __future__ import annotations

import re

# The shell's own words alone: no process may be left for others.
_PROGRAM = r"""
"$@"
code=$?
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r "$file" ]; then
        while read -r name count; do
            if [ "$name" = oom_kill ]; then printf '\036oom_kill %s\n' "$count" >&2; fi
        done <"$file"
    fi
done
exit "$code"
"""
_SAID = re.compile(rb"\x1eoom_kill (\d+)\n\Z")


def watched(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, with the same input, output and exit code, and a last line of errors."""
    return ("sh", "-c", _PROGRAM, "sh", *command)


def heard(errors: bytes) -> tuple[bytes, int]:
    """What the command itself wrote, and how many processes the kernel ended for memory.

    That is 0 where the witness was ended too, or no group counts.
    """
    said = _SAID.search(errors)
    return (errors[: said.start()], int(said[1])) if said else (errors, 0)
