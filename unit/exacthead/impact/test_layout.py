from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead.impact.layout import Layout, read_layout

if TYPE_CHECKING:
    from unit.exacthead.conftest import Repository

LAYOUT = Layout(
    frozenset(
        {
            *("src/pkg/__init__.py", "src/pkg/__main__.py", "src/pkg/a.py", "src/pkg/b.py"),
            *("src/pkg/deep/__init__.py", "src/pkg/deep/c.py", "src/space/d.py"),
            *("tests/test_x.py", "tests/helper.py", "tools/lone.py", "data/rows.json"),
            *("tools/job", "tests/json.py", "src/pkg/select.py"),
        }
    ),
    ("src", ""),
)


@pytest.mark.parametrize(
    ("name", "importer", "files"),
    [
        ("pkg", "tests/test_x.py", {"src/pkg/__init__.py"}),
        ("pkg.a", "tests/test_x.py", {"src/pkg/__init__.py", "src/pkg/a.py"}),
        ("pkg.a.thing", "tests/test_x.py", {"src/pkg/__init__.py", "src/pkg/a.py"}),
        (
            "pkg.deep.c",
            "tests/test_x.py",
            {"src/pkg/__init__.py", "src/pkg/deep/__init__.py", "src/pkg/deep/c.py"},
        ),
        ("space.d", "tests/test_x.py", {"src/space/d.py"}),
        ("src.pkg.a", "tests/test_x.py", {"src/pkg/__init__.py", "src/pkg/a.py"}),
        (".b", "src/pkg/a.py", {"src/pkg/b.py"}),
        ("..b.thing", "src/pkg/deep/c.py", {"src/pkg/b.py"}),
        (".deep", "src/pkg/a.py", {"src/pkg/deep/__init__.py"}),
        ("helper", "tests/test_x.py", {"tests/helper.py"}),
        # Anyone can put a folder on sys.path.
        ("lone", "tests/test_x.py", {"tools/lone.py"}),
        # What lies beside a test may hide the standard library, what is elsewhere may not.
        ("json", "tests/test_x.py", {"tests/json.py"}),
        ("select", "tests/test_x.py", set()),
        ("torch.nn", "tests/test_x.py", set()),
    ],
)
def test_an_import_leads_to_every_file_that_it_may_run(
    name: str, importer: str, files: set[str]
) -> None:
    assert LAYOUT.module(name, importer) == files


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("pkg.a", {"src/pkg/a.py"}),
        ("pkg.a.thing", {"src/pkg/a.py"}),
        ("pkg.a:thing", {"src/pkg/a.py"}),
        ("pkg", {"src/pkg/__main__.py"}),
        ("python -m pkg run", {"src/pkg/__main__.py"}),
        ("import sys\nfrom pkg.b import thing", {"src/pkg/b.py"}),
        ("print(pkg.deep.c.f())", {"src/pkg/deep/c.py"}),
        ("helper.py", {"tests/helper.py"}),
        ("bash -c 'exec python tools/lone.py'", {"tools/lone.py"}),
        ("helper", {"tests/helper.py"}),
        ("rows.json", {"data/rows.json"}),
        ("./data/rows.json", {"data/rows.json"}),
        ("tools/job now", {"tools/job"}),
        ("./job", {"tools/job"}),
    ],
)
def test_a_text_leads_to_the_modules_and_scripts_that_it_names(text: str, files: set[str]) -> None:
    assert files <= LAYOUT.named_in(text, "tests/test_x.py")


def test_a_module_of_a_package_is_not_its_program() -> None:
    assert "src/pkg/__main__.py" not in LAYOUT.named_in(
        "from pkg.a import f; f()", "tests/test_x.py"
    )


@pytest.mark.parametrize(
    "text",
    ["", "a", "/job", "not/job", "..job", "b.txt", "deep", "the helper module", "x/rows.json"],
)
def test_a_word_that_is_no_module_at_its_place_leads_nowhere(text: str) -> None:
    assert LAYOUT.named_in(text, "src/pkg/a.py") == set()


def test_a_folder_stands_for_what_is_in_it() -> None:
    assert LAYOUT.below("src/pkg/deep", "tests/test_x.py") == {
        "src/pkg/deep/__init__.py",
        "src/pkg/deep/c.py",
    }
    assert LAYOUT.below("deep", "src/pkg/a.py") == LAYOUT.below("src/pkg/deep/", "tests/test_x.py")
    assert LAYOUT.below("data", "tests/test_x.py") == {"data/rows.json"}


def test_files_are_what_git_tracks_or_does_not_ignore(empty_repository: Repository) -> None:
    empty_repository.commit({"a.py": "", "runs/x.py": ""})
    empty_repository.write({"new ü.py": "", ".cache/junk.py": ""})

    layout = read_layout(empty_repository.root, [".", "src/"], deleted=["gone.py"])

    assert layout.files == {".gitignore", "a.py", "new ü.py", "gone.py"}
    assert layout.import_roots == ("", "src")


def test_the_harness_s_own_folders_are_no_sources_where_nobody_ignores_them(
    empty_repository: Repository,
) -> None:
    empty_repository.commit({".gitignore": "", "a.py": ""})
    empty_repository.write({"runs/x.py": "", ".cache/junk.py": ""})

    assert read_layout(empty_repository.root, ["."]).files == {".gitignore", "a.py"}
