"""Where the out-of-memory killer's counter and the limits are found, in every kind of hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from exacthead.runs.oom import group_of, own_group

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MIB = 1 << 20
TWO = "31 23 0:28 {root} {top} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
ONE = "35 31 0:32 {root} {top} rw - cgroup cgroup rw,memory\n"
OTHER = "37 31 0:34 / /elsewhere rw - cgroup cgroup rw,freezer\n"


def machine(tmp_path: Path, mounts: str, root: str, files: Mapping[str, object]) -> Path:
    """A /proc with one mounted hierarchy, and the hierarchy's files."""
    top = tmp_path / "cgroup"
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "self/mountinfo").write_text(OTHER + mounts.format(root=root, top=top))
    (proc / "vmstat").write_text("nr_free_pages 5\noom_kill 7\n")
    (proc / "meminfo").write_text("MemTotal:        2097152 kB\nMemFree: 1 kB\n")
    return proc


def test_version_two_counts_in_the_group_and_limits_on_the_way_to_it(tmp_path: Path) -> None:
    proc = machine(
        tmp_path,
        TWO,
        "/",
        {
            "pod/memory.max": 64 * MIB,
            "pod/job/memory.max": "max",
            "pod/job/memory.events": "low 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0",
            "pod/job/memory.peak": 63 * MIB + 5,
        },
    )

    group = group_of("0::/pod/job\n", proc)

    assert (group.kills(), group.limit) == (3, 64 * MIB)
    assert group.describe() == "memory limit 64 MiB, 63 MiB used at most"


def test_version_one_counts_in_its_memory_hierarchy(tmp_path: Path) -> None:
    proc = machine(
        tmp_path,
        ONE,
        "/",
        {
            "memory.limit_in_bytes": 9223372036854771712,
            "job/memory.limit_in_bytes": 32 * MIB,
            "job/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2",
            "job/memory.max_usage_in_bytes": 32 * MIB,
        },
    )

    group = group_of("9:name=systemd:/\n4:cpu,memory:/job\n0::/\n", proc)

    assert (group.kills(), group.limit) == (2, 32 * MIB)
    assert group.describe() == "memory limit 32 MiB, 32 MiB used at most"


def test_in_a_container_the_mount_begins_at_the_containers_own_group(tmp_path: Path) -> None:
    files = {"memory.oom_control": "oom_kill 1", "memory.limit_in_bytes": MIB}
    proc = machine(tmp_path, ONE, "/docker/4f2a", files)

    group = group_of("4:memory:/docker/4f2a\n", proc)

    assert (group.kills(), group.limit) == (1, MIB)
    assert group.describe() == "memory limit 1 MiB"


def test_a_group_without_a_limit_is_bounded_by_the_machine(tmp_path: Path) -> None:
    files = {"memory.events": "oom_kill 4", "memory.max": "max"}
    proc = machine(tmp_path, TWO, "/", files)

    group = group_of("0::/\n", proc)

    assert (group.kills(), group.limit) == (4, None)
    assert group.describe() == "no memory limit but the machine's 2048 MiB"


def test_where_no_group_counts_memory_the_machine_does(tmp_path: Path) -> None:
    proc = machine(tmp_path, TWO, "/", {"job/cpu.max": "max"})

    group = group_of("0::/job\n", proc)

    assert (group.folder, group.kills(), group.limit) == (None, 7, None)


def test_a_group_that_is_gone_has_no_kills(tmp_path: Path) -> None:
    proc = machine(tmp_path, TWO, "/", {"job/memory.events": "oom_kill 4"})
    group = group_of("0::/job\n", proc)
    (tmp_path / "cgroup/job/memory.events").unlink()

    assert group.kills() == 0


def test_the_counter_of_this_very_process_is_read() -> None:
    assert own_group().kills() >= 0
    assert "MiB" in own_group().describe()
