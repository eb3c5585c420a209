"""Bases and images of harness.toml: what is not pinned, or names nothing, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.images.base import key_of
from exacthead.images.cache import Cache
from exacthead.images.plan import describe
from exacthead.images.tables import Base

if TYPE_CHECKING:
    from collections.abc import Callable

    from exacthead.config import Harness

ROOT = Path(__file__).parents[3]
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[bases.b]\nimage = "python:3.13"', "is not pinned"),
        ('[bases.b]\nimage = "python@sha256:abc"', "is not pinned"),
        ("[bases.b]", "either an image or a suite"),
        (f'[bases.b]\nsuite = "trixie"\nimage = "x@{DIGEST}"', "either an image or a suite"),
        (f'[bases.b]\nimage = "x@{DIGEST}"\npackages = ["git"]', "made here"),
        ('[bases.b]\nsuite = "trixie; rm -rf /"', "suite"),
        ('[bases.b]\nsuite = "trixie"\ndigest = "md5:1"', "digest"),
        ('[bases.b]\nsuites = "trixie"', "did you mean 'suite'?"),
        ('[images.i]\nbase = "no"\nworkers = []', "images.i.base: no base 'no'"),
        (
            '[bases.b]\nsuite = "trixie"\n[images.i]\nbase = "b"\nworkers = ["no"]',
            "images.i.workers: no worker 'no'",
        ),
    ],
)
def test_a_broken_declaration_is_named(
    make_harness: Callable[[str], Harness], text: str, words: str
) -> None:
    with pytest.raises(HarnessError) as caught:
        make_harness(f"[workers.one]\n{text}")
    assert words in str(caught.value)


def test_every_public_base_of_this_repository_is_pinned_by_digest() -> None:
    harness = load(ROOT)

    public = {name: base.image for name, base in harness.bases.items() if base.image}
    assert {"python", "cuda"} <= public.keys()
    assert all(image.rpartition("@")[2].startswith("sha256:") for image in public.values())
    assert harness.bases["debian"].suite


@pytest.mark.parametrize(
    "change", [{"suite": "forky"}, {"mirror": "http://x"}, {"packages": ("a",)}]
)
def test_whatever_decides_a_base_is_in_its_key(change: dict[str, object]) -> None:
    base = Base(suite="trixie")

    assert key_of(base) == key_of(Base(suite="trixie"))
    assert key_of(base.model_copy(update=change)) != key_of(base)


@pytest.mark.parametrize("name", ["unit", "browser", "stack", "stack-cuda"])
def test_the_plan_of_each_image_is_told_without_an_engine(name: str, tmp_path: Path) -> None:
    harness = load(ROOT)
    cache = Cache(tmp_path)
    cache.create()

    plan = describe(harness, name, cache)

    assert plan["flavour"] == harness.image(name).flavour
    assert set(plan["workers"]) == set(harness.image(name).workers)
    assert all(worker["pins"] for worker in plan["workers"].values())
    assert not plan["base"]["ready"]


def test_the_plan_for_accelerators_has_their_base_and_locks(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.create()
    plan = describe(load(ROOT), "stack-cuda", cache)

    assert "nvidia/cuda" in plan["base"]["from"]
    pins = plan["workers"]["policy"]["pins"]
    assert any(pin.startswith("nvidia-cuda-runtime==13.") for pin in pins)
    assert any(pin.startswith("triton==") for pin in pins)
    assert any(pin.startswith("vllm==") for pin in plan["workers"]["vllm"]["pins"])
    plan = describe(load(ROOT), "stack-cuda", cache, "debian")
    assert plan["base"]["from"] == "Debian trixie, made here"
