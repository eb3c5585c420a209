"""Verify and repair: every kind of damage is seen, and shared damage is undone wherever it is."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Yard

TEXT = "NAME = 'alpha'\n"
FLIPPED = "NAME = 'alphA'\n"


def flip(path: Path) -> None:
    """Change one byte in place and put the time back: only a hash can tell."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(FLIPPED.encode())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


def module(root: Path, name: str = "alpha") -> Path:
    (found,) = root.glob(f"lib/*/site-packages/{name}.py")
    return found


def test_a_flipped_byte_is_undone_in_every_worker_that_shares_it(yard: Yard) -> None:
    store = yard.store()
    alpha, beta = yard.wheel("alpha"), yard.wheel("beta")
    one = yard.ensure(yard.spec("one", alpha), store)
    two = yard.ensure(yard.spec("two", alpha + beta), store)
    other = yard.ensure(yard.spec("other", beta, probes=("beta",)), store)
    assert module(one.root).samefile(module(two.root))
    flip(module(one.root))
    assert yard.ensure(yard.spec("one", alpha), store).reused, "only a hash can tell"

    (damage,) = store.verify(one.key)
    assert (damage.path, damage.kind) == (
        module(one.root).relative_to(one.root).as_posix(),
        "changed",
    )
    repair = store.repair(one.key)
    assert repair.damages == (damage,)
    assert repair.purged == ("alpha",)
    assert set(repair.invalidated) == {one.key, two.key}

    assert yard.ensure(yard.spec("other", beta, probes=("beta",)), store).reused
    for spec in (yard.spec("one", alpha), yard.spec("two", alpha + beta)):
        again = yard.ensure(spec, store)
        assert not again.reused
        assert module(again.root).read_text() == TEXT
        assert store.verify(again.key) == []
    assert store.verify(other.key) == []


def test_a_new_worker_never_gets_a_damaged_file_from_the_cache(yard: Yard) -> None:
    store = yard.store()
    alpha, beta = yard.wheel("alpha"), yard.wheel("beta")
    one = yard.ensure(yard.spec("one", alpha), store)
    flip(module(one.root))
    two = yard.ensure(yard.spec("two", alpha + beta), store)
    assert module(two.root).read_text() == TEXT
    assert two.notes == ()
    assert store.verify(two.key) == []


def rebuilt(stages: list[str]) -> int:
    return stages.count("venv") - 1


def test_a_wheel_that_contradicts_its_own_record_is_used_and_noted(yard: Yard) -> None:
    lock = yard.wheel("alpha", {"alpha.py": TEXT, "data.txt": "1"}, misrecorded=("data.txt",))
    stages: list[str] = []
    built = yard.ensure(yard.spec(lock=lock), progress=stages.append)
    (note,) = built.notes
    assert note.startswith("alpha: 1 files differ from the wheel's own RECORD")
    assert "data.txt" in note
    assert module(built.root).read_text() == TEXT
    # It was fetched once more and compared; nothing of that is left, and nothing was built twice.
    assert stages == ["venv", "sync", "compile", "probes", "manifest", "refetch", "publish"]
    assert [path.name for path in built.root.glob("refetch*")] == []
    assert yard.store().verify(built.key) == []


def test_a_wheel_that_contradicts_its_record_is_still_shared_by_the_next_worker(
    yard: Yard,
) -> None:
    lock = yard.wheel("alpha", {"alpha.py": TEXT, "data.txt": "1"}, misrecorded=("data.txt",))
    store = yard.store()
    one = yard.ensure(yard.spec("one", lock), store)
    two = yard.ensure(yard.spec("two", lock + yard.wheel("beta")), store)
    assert module(one.root).samefile(module(two.root))


def test_a_damaged_file_beside_a_wheel_that_contradicts_its_record_is_undone(yard: Yard) -> None:
    store = yard.store()
    alpha = yard.wheel("alpha")
    beta = yard.wheel("beta", {"beta.py": "", "data.txt": "1"}, misrecorded=("data.txt",))
    one = yard.ensure(yard.spec("one", alpha), store)
    flip(module(one.root))
    stages: list[str] = []
    two = yard.ensure(yard.spec("two", alpha + beta), store, progress=stages.append)
    assert rebuilt(stages) == 1
    assert module(two.root).read_text() == TEXT
    assert [note.split(":")[0] for note in two.notes] == ["beta"]


def test_damage_where_the_record_is_wrong_anyway_is_undone(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": TEXT}, misrecorded=("alpha.py",))
    one = yard.ensure(yard.spec("one", lock), store)
    flip(module(one.root))
    stages: list[str] = []
    two = yard.ensure(yard.spec("two", lock + yard.wheel("beta")), store, progress=stages.append)
    assert rebuilt(stages) == 1
    assert module(two.root).read_text() == TEXT
    assert len(two.notes) == 1


def test_a_file_of_several_wheels_is_that_of_the_last_by_name(yard: Yard) -> None:
    store = yard.store()
    # The first has so many files that uv's threads mostly write its shared one last.
    more = {f"more/{number}.py": "" for number in range(400)}
    alpha = yard.wheel("alpha", {"alpha.py": TEXT, "one.py": "WHOSE = 1\n", **more})
    beta = yard.wheel("beta", {"one.py": "WHOSE = 2\n", "two.py": "WHOSE = 2\n", **more})
    gamma = yard.wheel("gamma", {"two.py": "WHOSE = 3\n", **more})
    for number, lock in enumerate((alpha + beta + gamma, gamma + beta + alpha)):
        stages: list[str] = []
        built = yard.ensure(yard.spec(f"tiny-{number}", lock), store, progress=stages.append)
        assert module(built.root, "one").read_text() == "WHOSE = 2\n"
        assert module(built.root, "two").read_text() == "WHOSE = 3\n"
        assert len([*module(built.root, "one").parent.glob("more/*.py")]) == len(more)
        assert built.notes == ()
        assert stages == ["venv", "sync", "compile", "probes", "manifest", "publish"]
        assert store.verify(built.key) == []


def test_a_damaged_file_of_two_wheels_is_fetched_anew_for_both(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": "", "shared.py": TEXT})
    lock += yard.wheel("beta", {"beta.py": "", "shared.py": "WHOSE = 2\n"})
    one = yard.ensure(yard.spec("one", lock), store)
    cached = [*(yard.folder / "cache").rglob("shared.py")]
    assert len(cached) == 2
    for path in cached:
        path.write_text("WHOSE = 3\n")
    assert module(one.root, "shared").read_text() == "WHOSE = 3\n"
    stages: list[str] = []
    two = yard.ensure(yard.spec("two", lock + yard.wheel("gamma")), store, progress=stages.append)
    assert rebuilt(stages) == 1
    assert module(two.root, "shared").read_text() == "WHOSE = 2\n"
    assert two.notes == ()
    assert store.repair(one.key).purged == ("alpha", "beta")


def append(path: Path) -> None:
    path.write_text(path.read_text() + "# more\n")


def relink(path: Path) -> None:
    path.unlink()
    path.symlink_to("/bin/true")


DAMAGES = {
    "changed": (lambda root: append(module(root)), "changed"),
    "missing": (lambda root: module(root).unlink(), "missing"),
    "mode": (lambda root: module(root).chmod(0o600), "mode"),
    "module": (lambda root: (module(root).parent / "new.py").write_text(""), "added"),
    "library": (lambda root: (module(root).parent / "new.so").write_text(""), "added"),
    "path file": (lambda root: (module(root).parent / "new.pth").write_text(""), "added"),
    "program": (lambda root: (root / "bin" / "tool").write_text(""), "added"),
    "linked package": (lambda root: (module(root).parent / "new").symlink_to("/tmp"), "added"),
    "interpreter": (lambda root: relink(root / "bin" / "python"), "link"),
    "settings": (lambda root: append(root / "pyvenv.cfg"), "changed"),
}


@pytest.mark.parametrize(("damage", "kind"), DAMAGES.values(), ids=DAMAGES.keys())
def test_every_kind_of_damage_is_found(
    yard: Yard, damage: Callable[[Path], object], kind: str
) -> None:
    store = yard.store()
    # A copy, so that changing it changes nothing but this worker.
    built = yard.ensure(yard.spec(link_mode="copy"), store)
    assert store.verify(built.key) == []
    damage(built.root)
    assert kind in {found.kind for found in store.verify(built.key)}
    assert store.verify(built.key)[0].expected != store.verify(built.key)[0].found


def test_what_libraries_leave_beside_themselves_is_no_damage(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    site = module(built.root).parent
    (site / "__pycache__" / "alpha.cpython-399.opt-1.pyc").write_bytes(b"")
    (site / "cache.json").write_text("{}")
    os.utime(module(built.root))
    assert store.verify(built.key) == []


def test_changed_byte_code_is_damage(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    (compiled,) = built.root.glob("lib/*/site-packages/__pycache__/alpha.*.pyc")
    compiled.write_bytes(compiled.read_bytes() + b"\0")
    (damage,) = store.verify(built.key)
    assert damage.kind == "changed"
    repair = store.repair(built.key)
    assert repair.invalidated == (built.key,)
    assert not yard.ensure(yard.spec(), store).reused


def test_a_damaged_manifest_is_damage(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    store.layout.manifest(built.key).write_bytes(b"")
    (damage,) = store.verify(built.key)
    assert damage.kind == "manifest"
    assert not yard.ensure(yard.spec(), store).reused
    assert store.verify(built.key) == []


def test_repair_of_a_sound_worker_does_nothing(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    repair = store.repair(built.key)
    assert (repair.damages, repair.purged, repair.invalidated) == ((), (), ())
    assert yard.ensure(yard.spec(), store).reused


def test_an_invalidated_worker_is_built_again(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    store.invalidate(built.key)
    assert not yard.ensure(yard.spec(), store).reused


def test_a_worker_in_use_is_not_built_anew_below_its_user(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    with store.using(built.key, "leg flag_off"):
        store.invalidate(built.key)
        with pytest.raises(HarnessError, match=f"pid {os.getpid()} .*leg flag_off"):
            yard.ensure(yard.spec(), store)
        assert module(built.root).exists()
    assert not yard.ensure(yard.spec(), store).reused


def test_verify_of_what_is_not_there_is_an_error(yard: Yard) -> None:
    with pytest.raises(HarnessError, match="no ready worker"):
        yard.store().verify("0" * 64)


def test_manifest_modes_are_permission_bits(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    module(built.root).chmod(0o4755)
    (damage,) = store.verify(built.key)
    assert damage.found == "4755"
    assert stat.S_IMODE(module(built.root).stat().st_mode) == 0o4755
