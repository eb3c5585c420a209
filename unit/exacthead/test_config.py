from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness

ROOT = Path(__file__).parents[2]
WHOLE = """
[groups]
test = ["pytest"]
[workers.unit]
groups = ["test"]
[workers.unit.flavours.cpu]
[suites.own]
paths = ["unit"]
worker = "unit"
[jobs.train]
script = "train.sh"
contract = "train.toml"
level = "L3"
timeout_s = 1
[jobs.train.legs.plain]
workers = { policy = "unit" }
[runners.small]
cpus = 1
memory_gb = 1
"""


def test_this_repository_s_own_declaration_is_valid() -> None:
    harness = load(ROOT)

    assert {"policy", "vllm", "vllm-gym", "gym", "unit"} <= harness.workers.keys()
    assert harness.worker("vllm-gym").no_deps == ("nemo-gym==0.7.0",)
    assert harness.root == ROOT


@pytest.mark.parametrize("package", ["exacthead", "posttrain"])
def test_this_repository_s_suites_can_import_what_they_test(package: str) -> None:
    folders = load(ROOT).project.pythonpath

    assert [place for place in folders if (ROOT / place / package / "__init__.py").is_file()]


SUITE = '[suites."{}"]\npaths = ["unit"]\nworker = "unit"\n'
JOB = '[jobs."{}"]\nscript = "s"\ncontract = "c"\nlevel = "L3"\ntimeout_s = 1\nlegs = {{}}\n'


@pytest.mark.parametrize(
    ("table", "name", "words"),
    [
        (SUITE, "other.1of2", "suites.other.1of2: it ends like a shard's number"),
        (SUITE, "own.x", "suites.own.x: its items would be taken for those of suites.own"),
        (JOB, "unit", "jobs.unit: items that begin with `unit` are those of suites"),
        (JOB, "unit.own", "jobs.unit.own: items that begin with `unit`"),
        (JOB, "train.plain", "jobs.train.plain: its items would be taken for those of jobs.train"),
    ],
)
def test_a_name_by_which_an_item_could_be_taken_for_another_is_refused(
    make_harness: Callable[[str], Harness], table: str, name: str, words: str
) -> None:
    make_harness(WHOLE + table.format(name.replace(".", "-") + "-2"))

    with pytest.raises(HarnessError) as caught:
        make_harness(WHOLE + table.format(name))

    assert words in caught.value.found


def test_a_worker_has_the_cpu_flavour_unless_it_says_otherwise(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness("[workers.a]\n[workers.b.flavours.cuda]\n")

    assert set(harness.worker("a").flavours) == {"cpu"}
    assert set(harness.worker("b").flavours) == {"cuda"}


@pytest.mark.parametrize(
    ("line", "misspelt", "where", "meant"),
    [
        ("[groups]", "[worker]\n[groups]", "worker", "workers"),
        ("[suites.own]", "[suites.own]\nwokrer = 1", "suites.own.wokrer", "worker"),
        ("[workers.unit]", "[workers.unit]\nprobs = []", "workers.unit.probs", "probes"),
        ("flavours.cpu]", "flavours.cpu]\nexclude = []", "unit.flavours.cpu.exclude", "excludes"),
        ("[jobs.train]", "[jobs.train]\ntimeout = 1", "jobs.train.timeout", "timeout_s"),
        ("legs.plain]", "legs.plain]\nenv = 1\nworker = 1", "legs.plain.worker", "workers"),
        ("[runners.small]", "[runners.small]\ncpu = 1", "runners.small.cpu", "cpus"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_known_one(
    make_harness: Callable[[str], Harness], line: str, misspelt: str, where: str, meant: str
) -> None:
    make_harness(WHOLE)

    with pytest.raises(HarnessError) as caught:
        make_harness(WHOLE.replace(line, misspelt, 1))

    assert f"{where}: unknown key; did you mean {meant!r}?" in caught.value.found


def test_an_unknown_key_that_is_like_no_other_lists_the_known(
    make_harness: Callable[[str], Harness],
) -> None:
    known = "image, packages, runner, services, sessions"
    with pytest.raises(HarnessError, match=rf"ci\.zzz: unknown key; known: {known}"):
        make_harness("[workers.a]\n[ci]\nzzz = 1\n")


def test_every_problem_is_said_at_once(make_harness: Callable[[str], Harness]) -> None:
    with pytest.raises(HarnessError) as caught:
        make_harness('[workers.a]\npython = "3"\nx = 1\nlink_mode = "hope"\n[workers.b]\ny = 2\n')

    for where in ("workers.a.python", "workers.a.x", "workers.a.link_mode", "workers.b.y"):
        assert where in caught.value.found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('groups = ["test"]', 'groups = ["tset"]', "unit.groups: no group 'tset'; did you mean"),
        ('worker = "unit"', 'worker = "unti"', "suites.own.worker: no worker 'unti'; did you"),
        (
            'paths = ["unit"]',
            'paths = ["unit"]\nroles = { a = "y" }',
            "suites.own.roles.a: no worker 'y'",
        ),
        (
            'paths = ["unit"]',
            'paths = ["unit"]\nroles = { suite = "unit" }',
            "suites.own.roles.suite: this role is the suite's own",
        ),
        ("[groups]", '[lint]\nworker = "unti"\n[groups]', "lint.worker: no worker 'unti'; did you"),
        ('policy = "unit"', 'policy = "x"', "train.legs.plain.workers.policy: no worker 'x'"),
    ],
)
def test_a_reference_to_nothing_is_an_error(
    make_harness: Callable[[str], Harness], old: str, new: str, problem: str
) -> None:
    with pytest.raises(HarnessError) as caught:
        make_harness(WHOLE.replace(old, new))

    assert problem in caught.value.found


def test_an_unknown_name_is_an_error_with_the_nearest_known_one(
    make_harness: Callable[[str], Harness],
) -> None:
    harness = make_harness(WHOLE)

    for ask, name, meant in (
        (harness.worker, "units", "unit"),
        (harness.suite, "won", "own"),
        (harness.job, "trian", "train"),
        (harness.runner, "smal", "small"),
    ):
        with pytest.raises(HarnessError, match=f"(?s){name}.*did you mean '{meant}'"):
            ask(name)


def test_a_value_of_the_wrong_kind_is_named_with_its_place(
    make_harness: Callable[[str], Harness],
) -> None:
    with pytest.raises(HarnessError, match=r"workers\.a\.requirements"):
        make_harness('[workers.a]\nrequirements = "alpha"\n')
    with pytest.raises(HarnessError, match=r"workers\.a\.flavours\.rocm"):
        make_harness("[workers.a.flavours.rocm]\n")


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        *(("timeout_s = 1", f"timeout_s = {n}", "jobs.train.timeout_s") for n in ("nan", "inf", 0)),
        ("timeout_s = 1", "timeout_s = 1\nmemory_gb = nan", "jobs.train.memory_gb"),
        ("timeout_s = 1", "timeout_s = 1\naccelerators = -1", "jobs.train.accelerators"),
        ('worker = "unit"', 'worker = "unit"\ntest_timeout_s = inf', "suites.own.test_timeout_s"),
        ("\ncpus = 1", "\ncpus = 0", "runners.small.cpus"),
        ("memory_gb = 1", "memory_gb = inf", "runners.small.memory_gb"),
        ('paths = ["unit"]', "paths = []", "suites.own.paths"),
    ],
)
def test_a_limit_that_limits_nothing_is_an_error(
    make_harness: Callable[[str], Harness], old: str, new: str, where: str
) -> None:
    assert old in WHOLE
    with pytest.raises(HarnessError) as caught:
        make_harness(WHOLE.replace(old, new))

    assert f"{where}: " in caught.value.found


def test_a_key_given_twice_is_an_error(make_harness: Callable[[str], Harness]) -> None:
    with pytest.raises(HarnessError, match="mend the TOML syntax"):
        make_harness('[workers.a]\npython = "3.13"\npython = "3.12"\n')


def test_a_repository_without_a_declaration_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match="no such file"):
        load(tmp_path)


def test_in_a_folder_below_the_root_the_error_says_where_that_is(
    make_harness: Callable[[str], Harness],
) -> None:
    root = make_harness(WHOLE).root
    (root / "unit" / "deep").mkdir(parents=True)

    with pytest.raises(HarnessError, match="no such file") as caught:
        load(root / "unit" / "deep")

    assert caught.value.todo == f"run it at the repository's root, which is {root}"


def test_a_declaration_cannot_be_changed_after_it_was_read(
    make_harness: Callable[[str], Harness],
) -> None:
    worker = make_harness(WHOLE).worker("unit")

    for field in ("python", "requirements"):
        with pytest.raises(ValueError, match="frozen"):
            setattr(worker, field, ())


@pytest.mark.parametrize(
    "content", [b'name = "\xff"', f"a = {'9' * 5000}".encode(), f"a = {'[' * 5000}".encode()]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "harness.toml").write_bytes(content)

    with pytest.raises(HarnessError, match=r"read .*/ci/harness\.toml"):
        load(tmp_path)
