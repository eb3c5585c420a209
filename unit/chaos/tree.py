"""What tests start, break and look at: a command with every process below it."""

from __future__ import annotations

import json
import re
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
# Nothing here measures speed: whatever is waited for comes much sooner on any machine.
FAR_S = 300.0
# What a run that has decided to end may take: servers have 5 s, Gym 3 s, Ray's own end the rest.
ENDING_S = 40.0
# For processes that are already ending when their parent has gone.
GOING_S = 5.0
# So many rollouts that generation is still under way when it is broken.
MANY = "rollouts.per_prompt=400"
# So many that there is time to see that generation has begun, and training takes a moment.
SOME = ("rollouts.per_prompt=20", f"timeouts.generate_s={FAR_S}")
ENGINE = "ray::GenerationActor"
RANK = "ray::RankActor"
SHARED_MEMORY = Path("/dev/shm")

# Every process of a command has this variable, with a value of the command's own.
MARKER = "CHAOS_RUN"

_POLL_S = 0.02


def marked(token: str) -> list[psutil.Process]:
    """The living processes of a run: all below this one, and all that carry its mark."""
    found = {process.pid: process for process in psutil.Process().children(recursive=True)}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARKER) == token:
                found[process.pid] = process
    return [process for process in found.values() if _living(process)]


def _living(process: psutil.Process) -> bool:
    try:
        return bool(process.status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD})
    except psutil.NoSuchProcess:
        return False


def title(process: psutil.Process) -> str:
    """The command line; empty when the process has gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def held_in_shared_memory(process: psutil.Process) -> set[str]:
    """Names in shared memory that a process has mapped, or that bear its number."""
    try:
        maps = Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()  # gone meanwhile
    mapped = set(re.findall(rf"(?m) {SHARED_MEMORY}/([^/\n]+)", maps))
    numbered = {
        path.name
        for path in SHARED_MEMORY.iterdir()
        if str(process.pid) in re.findall(r"\d+", path.name)
    }
    return mapped | numbered


@dataclass
class Started:
    """A command with all that it starts.

    Attributes:
        process: the command, leader of a process group.
        log: everything that is printed.
        token: marks its processes.
        temporary: the folder of its temporary files, Ray's included.
        names: what its processes were seen to have in shared memory. Others have names there too.
    """

    process: subprocess.Popen[bytes]
    log: Path
    token: str
    temporary: Path
    names: set[str] = field(default_factory=set, init=False)

    def printed(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until what was printed matches."""
        deadline = time.monotonic() + FAR_S
        while (found := re.search(pattern, self.printed())) is None:
            over = self.process.poll() is not None or time.monotonic() > deadline
            assert not over, f"{pattern!r} was not printed:\n{self.printed()}"
            time.sleep(_POLL_S)
        return found

    def until(self, stage: str) -> None:
        """Wait until a stage of the training run has started."""
        self.wait_for(rf"\] {stage}: starts")
        for process in self.all():
            self.names |= held_in_shared_memory(process)

    def all(self) -> list[psutil.Process]:
        return marked(self.token)

    def titled(self, beginning: str) -> list[psutil.Process]:
        """Its processes whose command line begins so, oldest first."""
        found = [process for process in self.all() if title(process).startswith(beginning)]
        return sorted(found, key=lambda process: process.pid)

    def wait(self, within_s: float) -> int:
        """Wait for the command's own end; returns its exit code."""
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end in {within_s:g} s:\n{self.printed()}") from None

    def seconds_until_gone(self, within_s: float) -> float:
        """Wait until none of its processes is left."""
        started = time.monotonic()
        while left := self.all():
            if time.monotonic() - started > within_s:
                words = "\n".join(f"{process.pid} {title(process)}" for process in left)
                raise AssertionError(f"left after {within_s:g} s:\n{words}\n{self.printed()}")
            time.sleep(_POLL_S)
        return time.monotonic() - started

    def nothing_is_left(self) -> None:
        """Neither processes nor names in shared memory."""
        self.seconds_until_gone(GOING_S)
        assert not {name for name in self.names if (SHARED_MEMORY / name).exists()}

    def end(self) -> None:
        """Whatever a failed test has left running."""
        while left := self.all():
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(_POLL_S)
        self.process.wait()


@dataclass
class Training(Started):
    """One ``python -m posttrain.train``.

    Attributes:
        folder: its ``run.dir``.
        stacks: where its processes write their stacks.
    """

    folder: Path
    stacks: Path

    def engine(self, number: int) -> psutil.Process:
        """The process of ``generation-<number>``, told by the port of its server."""
        configuration = json.loads((self.folder / "gym" / "gym-config.json").read_bytes())
        model: dict[str, Any] = configuration["policy_model"]["responses_api_models"]["vllm_model"]
        port = int(re.findall(r":(\d+)/", model["base_url"][number])[0])
        (found,) = (
            process
            for process in self.titled(ENGINE)
            if any(
                each.status == psutil.CONN_LISTEN and each.laddr.port == port
                for each in process.net_connections("tcp")
            )
        )
        return found

    def gym(self) -> psutil.Process:
        """The process of Gym's model server, with capture the gate."""
        (found,) = (
            each
            for each in self.all()
            if "posttrain.environment.serve" in title(each) and " policy_model=" in title(each)
        )
        return found

    def stacks_of(self, pid: int) -> str:
        return (self.stacks / f"{pid}.txt").read_text(encoding="utf-8")

    def fails(self, within_s: float) -> str:
        """Assert that the run fails as it should; returns its last word.

        Args:
            within_s: the deadline that applies, plus what the machine may need.
        """
        assert self.wait(within_s) == 1, self.printed()
        self.nothing_is_left()
        printed = "\n" + self.printed()
        said = printed[printed.rindex("\nposttrain: ") :]
        print(said)  # noqa: T201 - shown when an assertion about it fails
        assert re.fullmatch(r"(?s)\nposttrain: \S.*\n  found: \S.*\n  to do: \S.*\n", said), printed
        assert "Traceback" not in said
        self.lines_are_whole()
        return said

    def lines_are_whole(self) -> None:
        """Every line that is there can be read."""
        for name in ("metrics.jsonl", "samples.jsonl"):
            path = self.folder / name
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            assert text == "" or text.endswith("\n")
            for line in text.splitlines():
                assert json.loads(line)["step"] >= 1

    def metrics(self) -> list[dict[str, Any]]:
        text = (self.folder / "metrics.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]


@dataclass
class Session(Started):
    """One ``./noxw -s functional_gym_training``."""

    def run_folder(self) -> Path:
        return Path(self.wait_for(r"exacthead: run folder (\S+)")[1])

    def item_folder(self) -> Path:
        (folder,) = (self.run_folder() / "items").iterdir()
        return folder

    def harness(self) -> psutil.Process:
        """The process between nox and the leg's supervisor."""
        (found,) = (each for each in self.all() if "-m exacthead functional" in title(each))
        return found

    def state(self) -> str:
        result = json.loads((self.run_folder() / "result.json").read_bytes())
        return str(result["state"])

    def nothing_is_left(self) -> None:
        super().nothing_is_left()
        assert list(self.temporary.iterdir()) == []


@dataclass(frozen=True)
class Disk:
    """A file system of the test's own."""

    folder: Path

    def fill(self, but_bytes: int = 0) -> None:
        """Take all space but ``but_bytes``."""
        with (self.folder / "filler").open("wb", buffering=0) as filler:
            with suppress(OSError):
                while True:
                    filler.write(bytes(4096))
            filler.truncate(max(0, filler.tell() - but_bytes))
