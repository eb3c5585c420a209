from __future__ import annotations

import os
import sys
import venv
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from exacthead.errors import HarnessError
from exacthead.workers.provided import Declaration, Provided, examine_provided

if TYPE_CHECKING:
    from pathlib import Path

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
NOTHING = Declaration(
    name="box",
    minor=MINOR,
    patch_floor=None,
    below_floor_allowed=False,
    requirements=(),
    probes=(),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of an environment with two distributions and some odd modules."""
    root = tmp_path_factory.mktemp("box")
    venv.create(root, symlinks=True, with_pip=False)
    (site,) = root.glob("lib/python*/site-packages")
    for name, version in (("Al_pha", "1.5"), ("torch", "2.13.0+cpu")):
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (site / "alpha.py").write_text("print('chatter on standard output')\n")
    (site / "halved.py").write_text("raise RuntimeError('libcuda.so.1 is missing')\n")
    (site / "deadly.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    (site / "endless.py").write_text("import time\ntime.sleep(600)\n")
    return site


@pytest.fixture(scope="module")
def python(site: Path) -> Path:
    return site.parents[2] / "bin" / "python"


def ask(python: Path, timeout_s: float = 60.0, **declared: object) -> Provided:
    return examine_provided(python, replace(NOTHING, **declared), os.environ, timeout_s)


def test_what_fits_is_returned_with_its_frozen_package_list(python: Path) -> None:
    found = ask(python, requirements=("al-pha>=1,<2", "torch==2.13.0"), probes=("alpha", "json"))

    assert found.packages == ("al-pha==1.5", "torch==2.13.0+cpu")
    assert found.interpreter.path == python
    assert found.interpreter.version == sys.version.split()[0]
    assert found.notes == ()


def test_every_mismatch_is_said_at_once(python: Path) -> None:
    with pytest.raises(HarnessError) as caught:
        ask(
            python,
            minor="3.9",
            requirements=("al-pha>=2", "vllm==0.29.0", "torch"),
            probes=("absent", "alpha", "halved"),
        )

    assert caught.value.found.split("\n    ")[1:] == [
        f"Python {sys.version.split()[0]}, declared is 3.9",
        "al-pha 1.5, declared is 'al-pha>=2'",
        "vllm is not installed, declared is 'vllm==0.29.0'",
        "probe absent: ModuleNotFoundError: No module named 'absent'",
        "probe halved: RuntimeError: libcuda.so.1 is missing",
    ]


def test_a_requirement_of_another_python_does_not_count(python: Path) -> None:
    assert ask(python, requirements=("tomli; python_version < '3.11'",)).packages


def test_a_probe_that_kills_its_process_is_named(python: Path) -> None:
    with pytest.raises(HarnessError, match=r"probe deadly: it died there \(exit code -9"):
        ask(python, probes=("alpha", "deadly"))


def test_a_probe_that_never_ends_is_named_and_ended(python: Path) -> None:
    with pytest.raises(HarnessError, match=r"probe endless: it died there \(it did not end"):
        ask(python, timeout_s=5.0, probes=("endless",))


def test_a_probe_of_which_nobody_knows_is_none_that_imported(python: Path, tmp_path: Path) -> None:
    # It answers as far as the facts, and for no module.
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec {python} -I -c "$3" "$4"\n')
    wrapper.chmod(0o755)

    with pytest.raises(HarnessError, match=r"probe absent: it was never asked \(it said no more\)"):
        ask(wrapper, probes=("absent", "alpha"))


def test_an_answer_that_was_cut_off_is_none(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\nprintf \'{"version": "3.1\' >"$4"\nexit 9\n')
    program.chmod(0o755)

    with pytest.raises(HarnessError, match="exit code 9"):
        ask(program)


def test_an_interpreter_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"(?s)worker 'box', .*it does not run: No such file"):
        ask(tmp_path / "python")


def test_a_program_that_is_no_python_is_named(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'not me' >&2\nexit 3\n")
    program.chmod(0o755)

    with pytest.raises(HarnessError, match="exit code 3: not me"):
        ask(program)


def test_below_the_patch_floor_is_a_problem_or_if_allowed_a_note(python: Path) -> None:
    version = sys.version.split()[0]
    words = f"runs on {version}, below its patch floor {MINOR}.99"
    with pytest.raises(HarnessError, match=words):
        ask(python, patch_floor=f"{MINOR}.99")

    assert ask(python, patch_floor=f"{MINOR}.99", below_floor_allowed=True).notes == (words,)


def test_nothing_of_the_caller_s_pythons_leaks_in(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "foreign.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(HarnessError, match="No module named 'foreign'"):
        ask(python, probes=("foreign",))
