"""Containers: what they may, what comes out of them, how they end, and who ends them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.images import owner
from exacthead.images.box import Box, BoxSpec, Limits, give, how_it_ended, own_ids, run_plain
from exacthead.images.engine import OURS, Ended
from exacthead.images.owner import Owner, read, this
from exacthead.images.reaper import reap

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.images.engine import Engine
    from exacthead.images.oci import ImageFile

ROOT = Path(__file__).parents[2]
LIMITS = Limits(cpus=1, memory_gb=0.2, pids=40)


@pytest.fixture
def spec(image: ImageFile) -> Callable[..., BoxSpec]:
    """A function that makes a container's description from a program of Python."""

    def make(program: str, **changes: object) -> BoxSpec:
        command = ("/usr/bin/python3.13", "-I", "-c", program)
        made = BoxSpec(image.id, command, this("run", "item"), LIMITS)
        return replace(made, **changes)  # type: ignore[arg-type]

    return make


def outcome(engine: Engine, spec: BoxSpec) -> Ended:
    with Box(engine, spec, 60) as box:
        box.stdin.close()
        box.stdout.read()
        return box.end()


def test_the_two_outputs_come_byte_for_byte(engine: Engine, spec: Callable[..., BoxSpec]) -> None:
    program = """
import os, sys
data = bytes(range(256)) * 400 + "ä€😀".encode()
for at in range(0, len(data), 1000):
    os.write(1, data[at:at + 1000])
    os.write(2, b"e" * 10)
os.write(1, "ä".encode()[:1])
os.write(1, "ä".encode()[1:])
"""
    output, errors = run_plain(engine, spec(program))

    assert output == bytes(range(256)) * 400 + "ä€😀ä".encode()
    assert errors == "e" * 1030


def test_what_is_written_to_it_is_read(engine: Engine, spec: Callable[..., BoxSpec]) -> None:
    program = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()[::-1])"

    assert run_plain(engine, spec(program), stdin=b"\0abc")[0] == b"cba\0"


def test_an_exit_code_is_what_the_command_says(
    engine: Engine, spec: Callable[..., BoxSpec]
) -> None:
    program = "print('cheerful'); raise SystemExit(3)"
    assert outcome(engine, spec(program)).code == 3

    with pytest.raises(HarnessError, match="exit code 3"):
        run_plain(engine, spec(program))


def test_an_unknown_end_is_never_a_success() -> None:
    assert "was not seen" in how_it_ended(Ended(None, False, ""))  # noqa: FBT003
    assert "exit code 0" in how_it_ended(Ended(0, False, ""))  # noqa: FBT003


@pytest.mark.parametrize("said", [{}, {"StatusCode": None}, {"StatusCode": "0"}])
def test_a_command_whose_exit_code_the_engine_does_not_name_has_failed(
    engine: Engine, spec: Callable[..., BoxSpec], monkeypatch: pytest.MonkeyPatch,
    said: dict[str, object],
) -> None:  # fmt: skip
    # No engine at hand says so by itself; others were seen to.
    monkeypatch.setattr(engine._ask, "wait", lambda *_, **__: said)

    with pytest.raises(HarnessError, match=r"was not seen[\s\S]*it said: nothing"):
        run_plain(engine, spec("print('cheerful')"))


@pytest.mark.parametrize("engine_saw_it", [True, False])
def test_too_much_memory_is_told_from_a_kill(
    engine: Engine, spec: Callable[..., BoxSpec], monkeypatch: pytest.MonkeyPatch,
    *, engine_saw_it: bool,
) -> None:  # fmt: skip
    if not engine_saw_it:
        # On a busy machine it misses about every second one.
        wait = engine.wait
        monkeypatch.setattr(
            engine, "wait", lambda *given: replace(wait(*given), out_of_memory=False)
        )
    # Written to, page by page: what is only asked for is not used.
    hungry = outcome(engine, spec("x = bytearray(1 << 30); print(len(x))"))
    killed = outcome(engine, spec("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))

    assert (hungry.code, hungry.out_of_memory) == (137, True)
    assert (killed.code, killed.out_of_memory) == (137, False)
    assert "memory limit was reached" in how_it_ended(hungry)
    assert "SIGKILL, and not for lack of memory" in how_it_ended(killed)


def test_it_has_no_network_no_root_and_nothing_to_write_to_but_its_folder(
    engine: Engine, spec: Callable[..., BoxSpec], tmp_path: Path
) -> None:
    program = """
import json, os, socket
def tried(what):
    try:
        return what() or "done"
    except OSError as error:
        return error.strerror
def caps():
    lines = open("/proc/self/status").read().splitlines()
    return [line.split()[1] for line in lines if line.startswith(("CapEff", "CapBnd"))]
print(json.dumps({
    "ids": [os.getuid(), os.getgid()],
    "root": tried(lambda: open("/new", "w")),
    "head": tried(lambda: open("/workspace/new", "w")),
    "tmp": tried(lambda: open("/tmp/new", "w").close()),
    "results": tried(lambda: open("/results/new", "w").close()),
    "folder": tried(lambda: os.makedirs("/results/a/b")),
    "shown": tried(lambda: open("/shown/new", "w")),
    "seen": open("/shown/it").read(),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "reach": tried(lambda: socket.create_connection(("192.0.2.1", 80), 1).close()),
    "caps": caps(),
    "first": open("/proc/1/cmdline", "rb").read().split(b"\\0")[0].decode(),
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "environment": dict(os.environ),
}))
"""
    results, shown = tmp_path / "results", tmp_path / "shown"
    for folder in (results, shown):
        folder.mkdir()
        give(folder, *own_ids())
    (shown / "it").write_text("as it is", encoding="utf-8")
    made = spec(program, folder=(results, "/results"), shown=(shown, "/shown"),
                environment={"A": "1"})  # fmt: skip
    said = json.loads(run_plain(engine, made)[0])
    give(results, os.getuid(), os.getgid())

    assert said["ids"] == list(own_ids())
    assert said["ids"][0] != 0
    assert said["root"] == said["head"] == said["shown"] == "Read-only file system"
    assert said["seen"] == "as it is"
    assert said["tmp"] == said["results"] == said["folder"] == "done"
    assert said["interfaces"] == ["lo"]
    assert said["reach"] == "Network is unreachable"
    assert set(said["caps"]) == {"0" * 16}
    assert "init" in said["first"]
    assert said["shm"] == -(-100_000_000 // 4096) * 4096
    assert said["environment"]["A"] == "1"
    assert (results / "new").stat().st_uid == os.getuid()
    assert (results / "a" / "b").stat().st_uid == os.getuid()


def test_its_processes_are_counted(engine: Engine, spec: Callable[..., BoxSpec]) -> None:
    program = """
import subprocess, sys
started = []
try:
    for _ in range(100):
        started.append(subprocess.Popen(["sleep", "60"]))
except OSError:
    pass
print(len(started))
[each.kill() for each in started]
"""
    assert 10 < int(run_plain(engine, spec(program))[0]) < 40


def test_orphans_are_reaped_by_an_init(engine: Engine, spec: Callable[..., BoxSpec]) -> None:
    program = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os._exit(0)
    os._exit(0)
os.wait()
time.sleep(0.3)
pids = [name for name in os.listdir("/proc") if name.isdigit()]
states = [open(f"/proc/{pid}/stat").read().split(") ")[1][0] for pid in pids]
print("Z" in states)
"""
    assert run_plain(engine, spec(program))[0] == b"False\n"


def test_a_container_that_does_not_end_is_ended(
    engine: Engine, spec: Callable[..., BoxSpec]
) -> None:
    with Box(engine, spec("import time; time.sleep(600)"), 1.0) as box:
        assert box.stdout.read() == b""
        assert box.end().code == 137
        container = box.id

    assert container not in engine.our_containers()


def test_one_that_cannot_start_leaves_nothing(engine: Engine, spec: Callable[..., BoxSpec]) -> None:
    before = engine.our_containers().keys()

    with pytest.raises(HarnessError, match=r"exit code 127[\s\S]*no-such-program"):
        run_plain(engine, spec("", command=("no-such-program",)))
    with pytest.raises(HarnessError, match=f"sha256:{'0' * 64}"):
        run_plain(engine, spec("", image=f"sha256:{'0' * 64}"))

    assert engine.our_containers().keys() == before


HOLDER = """
import os, sys, time
from exacthead.images.box import Box, BoxSpec, Limits
from exacthead.images.engine import Engine
from exacthead.images.owner import this
program = sys.argv[2]
command = ("/usr/bin/python3.13", "-I", "-c", program)
spec = BoxSpec(sys.argv[1], command, this("r", "i"), Limits(1, 0.2, 40))
with Box(Engine(), spec, 600) as box:
    print(box.id, flush=True)
    time.sleep(600)
"""


def held(image: str, program: str) -> tuple[subprocess.Popen[str], str]:
    """A harness of its own that holds a container, and that container."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, image, program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "ci")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def running(engine: Engine, container: str) -> bool:
    return bool(engine.inspect(container)["State"]["Running"])


def test_a_container_ends_with_its_harness_however_that_ends(
    engine: Engine, image: ImageFile
) -> None:
    process, container = held(image.id, "import sys; sys.stdin.read()")
    with process:
        assert running(engine, container)
        process.kill()
    deadline = time.monotonic() + 10
    while running(engine, container) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not running(engine, container)
    assert any(container[:12] in line for line in reap(engine))
    assert container not in engine.our_containers()


def test_what_an_ended_harness_left_is_removed_and_nothing_else(
    engine: Engine, image: ImageFile
) -> None:
    deaf, left = held(image.id, "import time; time.sleep(600)")
    alive, kept = held(image.id, "import time; time.sleep(600)")
    with deaf:
        deaf.kill()
    settings = {"Cmd": ["sleep", "600"], "HostConfig": {"NetworkMode": "none"}}
    theirs = engine.create(image.id, **settings)
    odd = engine.create(image.id, **settings, Labels={OURS: "not ours to read"})
    elsewhere = replace(this("r", "i"), pids="pid:[1]", pid=1, started=1)
    far = engine.create(image.id, **settings, Labels={OURS: elsewhere.label()})
    other = replace(this("r", "i"), boot="of another", machine="another", pid=1, started=1)
    foreign = engine.create(image.id, **settings, Labels={OURS: other.label()})
    try:
        said = reap(engine)

        assert [line for line in said if left[:12] in line]
        ours = engine.our_containers()
        assert left not in ours
        assert {kept, odd, far, foreign} <= ours.keys()
        assert engine.inspect(theirs)["Id"] == theirs
        with pytest.raises(HarnessError, match="not ours"):
            engine.remove(theirs)
    finally:
        with alive:
            alive.kill()
        for container in (kept, odd, far, foreign):
            engine.remove(container)
        engine._ask.remove_container(theirs, force=True)


def test_an_owner_is_told_from_a_later_process_of_its_number() -> None:
    me = this("run", "item")
    assert read({OURS: me.label()}, OURS) == me
    assert me.gone() is False
    assert replace(me, started=me.started - 1).gone() is True
    assert replace(me, boot="another", machine="").gone() is None
    assert replace(me, boot="another", machine="another").gone() is None
    assert replace(me, pids="pid:[1]").gone() is None
    assert read({}, OURS) is None
    assert read({OURS: "{}"}, OURS) is None
    assert isinstance(me, Owner)


def test_only_an_earlier_boot_of_this_very_machine_is_known_to_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = tmp_path / "machine-id"
    name.write_text("0123\n", encoding="ascii")
    monkeypatch.setattr(owner, "_MACHINE", name)
    me = this("run", "item")

    assert me.machine == "0123"
    assert replace(me, boot="another").gone() is True
    name.write_text("4567\n", encoding="ascii")
    assert replace(me, boot="another").gone() is None
    name.unlink()
    assert replace(me, boot="another").gone() is None
    assert replace(this("run", "item"), boot="another").gone() is None
