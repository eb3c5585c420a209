"""Local packages: which of a folder's files decide what is built, and are in the worker's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.git import git
from exacthead.workers.local import LocalPackage, digest_folder, local_packages
from exacthead.workers.resolve import build_supplies
from unit.exacthead.workers.small import HERE, SMALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from exacthead.config import Harness
    from exacthead.workers.spec import Spec

LOCAL = SMALL + 'local_packages = ["libs/one"]\n'
ROOT_PACKAGE = f"""{SMALL}local_packages = ["."]

[suites.all]
paths = ["tests"]
worker = "small"
"""


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def package(folder: Path, name: str = "first-party") -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n', "utf-8")
    (folder / "src" / "module.py").write_text("answer = 42\n", "utf-8")
    return folder


def test_a_local_package_is_in_the_key_by_content_and_its_folder_s_name_is_not(
    spec_of: Callable[..., Spec], repository: Path
) -> None:
    one = package(repository / "libs" / "one")
    before = spec_of(LOCAL)
    assert before.local_packages == (("first-party", digest_folder(one)),)
    assert before.key != spec_of(SMALL).key

    one.rename(repository / "libs" / "two")
    assert spec_of(LOCAL.replace("one", "two")).key == before.key


def test_a_file_of_the_same_name_with_other_content_is_another_key(
    spec_of: Callable[..., Spec], repository: Path
) -> None:
    module = package(repository / "libs" / "one") / "src" / "module.py"
    before = spec_of(LOCAL).key

    module.write_text("answer = 43\n", "utf-8")

    assert spec_of(LOCAL).key != before


def test_every_trait_of_a_file_counts_and_leftovers_do_not(tmp_path: Path) -> None:
    folder = package(tmp_path / "one")
    module = folder / "src" / "module.py"
    digests = [digest_folder(folder)]

    def changed() -> bool:
        digests.append(digest_folder(folder))
        return digests[-1] not in digests[:-1]

    module.rename(folder / "src" / "renamed.py")
    assert changed()
    (folder / "src" / "renamed.py").chmod(0o755)
    assert changed()
    (folder / "src" / "link.py").symlink_to("renamed.py")
    assert changed()
    (folder / "src" / "link.py").unlink()
    (folder / "src" / "link.py").symlink_to("elsewhere.py")
    assert changed()
    (folder / "src" / "build").mkdir()
    (folder / "src" / "build" / "part.py").write_text("")
    assert changed()
    for leftover in ("src/__pycache__/m.pyc", ".git/HEAD", "build/lib/m.py", "first.egg-info/P"):
        (folder / leftover).parent.mkdir(parents=True, exist_ok=True)
        (folder / leftover).write_text("left over")
    assert not changed()


def test_files_that_only_swap_their_boundary_differ(tmp_path: Path) -> None:
    for name, files in (("a", {"xy": "z", "w": ""}), ("b", {"x": "yz", "w": ""})):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)

    assert digest_folder(tmp_path / "a") != digest_folder(tmp_path / "b")


def test_local_packages_that_cannot_be_are_refused(
    spec_of: Callable[..., Spec], repository: Path
) -> None:
    with pytest.raises(HarnessError, match=r"(?s)'libs/one'.*no pyproject.toml"):
        spec_of(LOCAL)

    package(repository / "libs" / "one")
    package(repository / "libs" / "two", "First_Party")
    with pytest.raises(HarnessError, match="libs/one is called 'first-party' as well"):
        spec_of(LOCAL.replace('"libs/one"', '"libs/one", "libs/two"'))

    (repository / "libs" / "one" / "pyproject.toml").write_text("[tool.x]\n", "utf-8")
    with pytest.raises(HarnessError, match=r"no readable \[project\] name"):
        spec_of(LOCAL)


@pytest.fixture
def flat(make_harness: Callable[[str], Harness]) -> LocalPackage:
    """A checkout that is a package itself."""
    harness = make_harness(ROOT_PACKAGE)
    write(
        harness.root,
        {
            "pyproject.toml": '[project]\nname = "flat"\n',
            "flat/core.py": "answer = 42\n",
            "flat/data.json": "{}",
            "tests/conftest.py": "",
            "tests/test_core.py": "def test(): pass\n",
            "tests/examples/one.txt": "1",
            "ci/durations.json": "{}",
            ".gitignore": "ignored/\n*.log\n",
        },
    )
    git(harness.root, "init", "-q", ".")
    git(harness.root, "add", "flat", "tests", "pyproject.toml")
    (package,) = local_packages(harness, harness.worker("small")).values()
    return package


def names(package: LocalPackage) -> list[str]:
    return [path.relative_to(package.folder).as_posix() for path in package.files()]


def test_of_a_checkout_that_is_a_package_what_a_distribution_can_hold_counts(
    flat: LocalPackage,
) -> None:
    assert names(flat) == [
        *(".gitignore", "ci/pyproject.toml", "flat/core.py", "flat/data.json", "pyproject.toml"),
        "tests/examples/one.txt",
    ]


def test_its_key_holds_them(flat: LocalPackage, spec_of: Callable[..., Spec]) -> None:
    assert spec_of(ROOT_PACKAGE).local_packages == (("flat", flat.digest()),)


def test_running_testing_and_building_change_nothing(flat: LocalPackage) -> None:
    before = flat.digest()

    for name in (
        *("runs/now/result.json", ".cache/workers/w/bin/python", "ignored/x.py", "flat/a.log"),
        *("tests/test_more.py", "tests/test_core.py", "tests/conftest.py"),
        *("ci/durations.json", "ci/known_failures.toml", "ci/locks/other.txt", "ci/harness.toml"),
        *("flat/__pycache__/core.pyc", "build/lib/flat/core.py", "flat.egg-info/PKG-INFO"),
    ):
        write(flat.folder, {name: "something else"})

    assert flat.digest() == before


def test_whatever_a_build_can_see_changes_the_digest(flat: LocalPackage) -> None:
    digests = [flat.digest()]

    # The last is called like a test, and is in no suite.
    for name in (
        *("flat/core.py", "flat/new.py", "flat/data.json", "pyproject.toml", "setup.py"),
        "flat/test_tools.py",
    ):
        write(flat.folder, {name: "something else"})
        digests.append(flat.digest())

    assert len(set(digests)) == 7


def test_a_tracked_file_counts_wherever_it_lies_and_a_removed_one_does_not(
    flat: LocalPackage,
) -> None:
    write(flat.folder, {"build/rules.py": "", "ignored/kept.py": "", "dist/loose.py": ""})
    git(flat.folder, "add", "-f", "build", "ignored")
    (flat.folder / "flat/data.json").unlink()

    assert {"build/rules.py", "ignored/kept.py"} <= set(names(flat))
    assert not {"dist/loose.py", "flat/data.json"} & set(names(flat))


def test_a_checkout_inside_a_package_counts_with_its_own_files(flat: LocalPackage) -> None:
    inner = flat.folder / "flat/vendored"
    write(inner, {"part.py": "", "junk.log": "", ".gitignore": "*.log\n"})
    git(flat.folder, "init", "-q", str(inner))

    assert {"flat/vendored/part.py", "flat/vendored/.gitignore"} <= set(names(flat))
    assert "flat/vendored/junk.log" not in names(flat)


def test_a_package_that_git_ignores_as_a_whole_counts_with_all_its_files(
    spec_of: Callable[..., Spec], repository: Path
) -> None:
    git(repository, "init", "-q", ".")
    write(repository, {".gitignore": "libs/\n"})
    module = package(repository / "libs" / "one") / "src" / "module.py"
    before = spec_of(LOCAL).key

    module.write_text("answer = 43\n", "utf-8")

    assert spec_of(LOCAL).key != before


def test_a_copy_holds_what_counts_and_nothing_else(flat: LocalPackage, tmp_path: Path) -> None:
    write(flat.folder, {"ignored/x.py": "", "runs/now/log": ""})

    digest = flat.copy(tmp_path / "copy")

    copied = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert sorted(path.relative_to(tmp_path / "copy").as_posix() for path in copied) == names(flat)
    assert digest == flat.digest()


def test_a_build_is_supplied_with_what_the_spec_names(
    spec_of: Callable[..., Spec], repository: Path, make_harness: Callable[[str], Harness]
) -> None:
    package(repository / "libs" / "one")
    (repository / "a.patch").write_text("one")
    text = LOCAL + 'patches = ["a.patch"]\n'
    spec = spec_of(text)

    supplies = build_supplies(make_harness(text), spec, HERE)

    assert {name: each.folder for name, each in supplies["local_packages"].items()} == {
        "first-party": repository / "libs" / "one"
    }
    assert supplies["patches"] == (repository / "a.patch",)
