from __future__ import annotations

import pytest

from exacthead.impact.mention import FILLED
from exacthead.impact.references import References, places, refer
from exacthead.impact.source import ON_IMPORT, read_parts


def references(text: str, part: str = ON_IMPORT) -> References:
    parts = read_parts(text)
    return refer(parts[part], places(parts[ON_IMPORT]))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a.b as c, d", {"a.b", "d"}),
        ("from a.b import c, d", {"a.b.c", "a.b.d"}),
        ("from a import *", {"a"}),
        ("from . import b", {".b"}),
        ("from ..a import b", {"..a.b"}),
        ("from . import *", {"."}),
        ("if TYPE_CHECKING:\n    import a", {"a"}),
        ("try:\n    import a\nexcept ImportError:\n    import b", {"a", "b"}),
        ("class X:\n    import a", {"a"}),
    ],
)
def test_imports_count_wherever_they_stand(text: str, names: set[str]) -> None:
    assert references(text).imports == names


def test_an_import_in_a_function_belongs_to_the_function() -> None:
    text = "def f():\n    def g():\n        import a\n    return g\n"

    assert references(text).imports == set()
    assert references(text, "f").imports == {"a"}


@pytest.mark.parametrize(
    "text",
    [
        *("importlib.import_module(name)", "import_module('.' + name, 'a')", "__import__(name)"),
        *("runpy.run_module(name)", "runpy.run_path(str(path))", "pkgutil.iter_modules(path)"),
        "importlib.util.spec_from_file_location('x', path)",
    ],
)
def test_an_import_of_what_only_a_run_tells_is_unsure(text: str) -> None:
    assert references(text).unsure
    assert "line 1" in references(text).unsure[0]


@pytest.mark.parametrize(
    "text",
    [
        *("exec(text)", "eval(text)", "f'import {name}'", "f'python -m {name}'"),
        *(
            "'import %s' % name",
            "'x -m {}'.format(name)",
            "'python -m ' + name",
            "'import ' + name",
        ),
        *("f'''\nfrom {package} import x'''", "[python, '-m', name]", "run(*(python, '-m', name))"),
    ],
)
def test_what_runs_out_of_sight_is_hidden(text: str) -> None:
    assert references(text).hidden


@pytest.mark.parametrize(
    "text",
    [
        *("import_module('a.b')", "__import__('a')", "exec('1')", "model.eval()"),
        *(
            "f'cannot import {name}'",
            "f'from {one} to {two}'",
            "'no import %s'",
            "[python, '-m', 'pytest', name]",
        ),
    ],
)
def test_what_is_said_in_full_is_sure(text: str) -> None:
    assert not references(text).unsure
    assert not references(text).hidden


def test_texts_are_kept_with_a_mark_where_a_value_is_filled_in() -> None:
    found = references("'''A remark.'''\nx = 'a' 'b'\ny = f'{x}.md'\nz = b'raw'\n'''Another.'''")

    assert found.texts == {"ab", f"{FILLED}.md", "raw"}


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("ROOT / 'docs' / 'a.md'", {"docs/a.md"}),
        ("(root / 'docs').glob('*.md')", {"docs"}),
        ("root / 'docs' / name", {f"docs/{FILLED}"}),
        ("root / 'docs' / f'{name}.md'", {f"docs/{FILLED}.md"}),
        ("Path('docs/a.md')", {"docs/a.md"}),
        ("os.path.join(here, 'docs', 'a.md')", {"docs/a.md"}),
        ("Path(__file__).with_name('a.md')", {"a.md"}),
        ("Path(__file__).parent / 'a.md'", {"a.md"}),
        ("2 / 3", set()),
    ],
)
def test_paths_are_joined_from_their_pieces(text: str, paths: set[str]) -> None:
    assert references(text).paths == paths


@pytest.mark.parametrize(
    ("text", "walks"),
    [
        ("ROOT = Path(__file__).parents[2]\nfiles = ROOT.rglob('*')", True),
        ("HERE = Path(__file__).parent\nROOT = HERE.parent\nfiles = ROOT.iterdir()", True),
        ("Path(__file__).parents[2].glob('*')", True),
        ("from suite.places import ROOT\nos.walk(ROOT)", True),
        ("from suite.places import ROOT\nshutil.copytree(ROOT, tmp)", True),
        ("tmp_path.iterdir()", False),
        ("ROOT = Path(__file__).parents[2]\n(ROOT / 'docs').rglob('*')", False),
        ("DOCS = Path(__file__).parents[2] / 'docs'\nDOCS.rglob('*')", False),
    ],
)
def test_a_walk_from_above_the_file_goes_anywhere(text: str, walks: bool) -> None:
    assert references(text).walks is walks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run([sys.executable, __file__])", True),
        ("Path(__file__)", True),
        ("HERE = Path(__file__).resolve().parent", False),
        ("HERE = os.path.dirname(__file__)", False),
    ],
)
def test_a_file_that_hands_on_its_own_path_may_be_run_or_read(text: str, expected: bool) -> None:
    assert references(text).itself is expected


@pytest.mark.parametrize("text", ["inspect.getsource(f)", "pkg.__file__", "f.__doc__"])
def test_whoever_asks_for_code_or_where_it_lies_reads_it(text: str) -> None:
    assert references(text).reads_code
    assert not references("print(__doc__)").reads_code


@pytest.mark.parametrize(
    "text",
    [
        *("import ray", "from multiprocessing import Process", "import torch.multiprocessing"),
        *("from torch.utils.data import DataLoader", "torch.utils.data.DataLoader(x)"),
        *("from concurrent.futures import ProcessPoolExecutor", "sys.settrace(f)", "os.fork()"),
        *("torch.compile(model)", "@torch.jit.script\ndef f():\n    pass"),
    ],
)
def test_functions_that_run_elsewhere_may_not_be_seen(text: str) -> None:
    assert references(text).unseen
    assert not references(
        "import torch\nre.compile(x)\nfrom concurrent.futures import ThreadPoolExecutor"
    ).unseen


def test_chance_takes_another_way_each_time() -> None:
    assert references("from hypothesis import given").chance
    assert references("import random").chance
    assert not references("import secrets").chance
