"""Images: how soon a new head is runnable, what proving it costs, what a container costs an item.

    PYTHONPATH=ci:. PYTHON bench/bench_images.py --gigabytes 7 --rounds 5

PYTHON is the harness's own interpreter; an engine must run. The environment is the base `debian` of
`ci/harness.toml`, and one more layer of random bytes for its size: nothing here depends on what is
in a layer, only on how much. Both sides build on it. The sides take turns, and who goes first
changes from round to round.

- *New head*: one file of a repository is changed and committed; then ours makes its image, loads it
  and verifies it. The peer is `docker build` of `FROM environment`, `COPY . /workspace` with
  BuildKit and its cache of layers: what one would write by hand, which proves nothing.
- *Verification*: of a repository of 2,000 files, against `git archive | sha256sum` alone.
- *An item*: `true`, run as items are run, in a container and outside.

Targets: a new head in 2 s, a verification in 100 ms, an item in a container in 0.5 s more than
outside. Exit code 1 when one is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from exacthead.config import load
from exacthead.images.base import ensure_base
from exacthead.images.box import Limits
from exacthead.images.buildkit import find_client
from exacthead.images.engine import Engine
from exacthead.images.environment import Environment
from exacthead.images.head import ensure_head
from exacthead.images.layer import Layer, digest_of, plain_member
from exacthead.images.load import load as load_image
from exacthead.images.place import InImage, copy_harness
from exacthead.images.snapshot import snapshot
from exacthead.images.verify import Verifier
from exacthead.images.where import open_cache
from exacthead.runs.folder import RunFolder
from exacthead.runs.item import ItemRequest, run_item
from exacthead.verdict import Kind
from exacthead.workers.spec import Interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from exacthead.images.cache import Cache

ROOT = Path(__file__).parents[1]
HEAD_S, VERIFY_S, ITEM_S = 2.0, 0.1, 0.5
PEER = "exacthead/peer:bench"
_FILES = 2000


@dataclass
class Rows:
    """Seconds of each thing that is measured, one for each round."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    def take(self, name: str, action: Callable[[], object]) -> None:
        """Time an action."""
        started = time.perf_counter()
        action()
        self.rounds.setdefault(name, []).append(time.perf_counter() - started)

    def median(self, name: str) -> float:
        """The median of one row, in seconds."""
        return statistics.median(self.rounds[name])

    def show(self) -> None:
        """All rows: median, least and most."""
        for name, seconds in self.rounds.items():
            row = f"{self.median(name):8.3f} s  ({min(seconds):.3f} to {max(seconds):.3f})"
            print(f"{name:34} {row}  {len(seconds)} rounds")


def git(root: Path, *arguments: str) -> str:
    """Run git as somebody."""
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.test")
    done = subprocess.run(
        ["git", "-C", str(root), *who, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def repository(root: Path, files: int, seed: int) -> None:
    """A repository of so many files of about 4 kB each."""
    source = random.Random(seed)  # noqa: S311 - contents, no secrets
    for number in range(files):
        path = root / f"part{number % 50}" / f"module{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (f"value_{source.randrange(10**9)} = {source.random()}\n" for _ in range(100))
        path.write_text("".join(lines), encoding="utf-8")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "files")
    # As a clone has it: loose objects, one file each, take twice as long to archive.
    git(root, "repack", "-adq")


def big_layer(path: Path, gigabytes: float) -> Layer:
    """A layer with one file of random bytes."""
    import tarfile

    size = int(gigabytes * 1e9)
    with tarfile.open(path, "w") as archive:
        archive.addfile(plain_member("opt/big", size), cast("IO[bytes]", _Random(size)))
    return Layer(digest_of(path), path.stat().st_size, path, "random bytes")


class _Random:
    """So many bytes of chance, read by tarfile."""

    def __init__(self, size: int) -> None:
        self._left = size

    def read(self, size: int) -> bytes:
        data = os.urandom(min(size, self._left))
        self._left -= len(data)
        return data


def environment(engine: Engine, cache: Cache, place: Path, gigabytes: float) -> Environment:
    """The environment that all is measured beside, in the engine."""
    base = ensure_base(load(ROOT).base("debian"), cache, engine, print)
    layers = (*base.layers, big_layer(place / "big.tar", gigabytes))
    python = Interpreter(Path("/usr/bin/python3.13"), "cpython", "3.13.5", "", "")
    made = Environment("b" * 64, layers, {}, {"3.13": python})
    load_image(engine, made.file, made.tag)
    return made


def change(root: Path, number: int) -> None:
    """Change one file, and commit."""
    (root / "part0" / "module0.py").write_text(f"changed = {number}\n", encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", f"change {number}")


@dataclass
class Bench:
    """What everything is measured with; ``images`` are those that were made."""

    engine: Engine
    cache: Cache
    made: Environment
    place: Path
    rounds: int
    rows: Rows = field(default_factory=Rows)
    images: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The repository."""
        return self.place / "repository"

    @property
    def verifier(self) -> Verifier:
        """Of the repository's images."""
        harness = load(ROOT).model_copy(update={"root": self.root})
        return Verifier(harness, self.engine, self.cache)

    def new_heads(self) -> None:
        """A new head each round, on both sides."""
        sides = {"new head: ours, verified": self._ours, "new head: docker build": self._peer}
        text = f"FROM {self.made.tag}\nCOPY . /workspace\n"
        (self.place / "Dockerfile").write_text(text, encoding="utf-8")
        for number in range(self.rounds + 1):
            change(self.root, number)
            for name in list(sides)[:: 1 if number % 2 else -1]:
                # The first round fills caches on both sides and counts for none.
                self.rows.take(name if number else "warm", sides[name])
        del self.rows.rounds["warm"]

    def _ours(self) -> None:
        with snapshot(self.root) as made_from:
            image = ensure_head(self.engine, self.cache, made_from, self.made, "")
            self.verifier.verify(image.id, made_from)
        self.images.append(image.id)

    def _peer(self) -> None:
        client = find_client(os.environ.get("PATH", os.defpath))
        file = str(self.place / "Dockerfile")
        subprocess.run(
            [*client, "--quiet", "--file", file, "--tag", PEER, "."],
            cwd=self.root,
            env={**os.environ, "DOCKER_BUILDKIT": "1", "DOCKER_HOST": self.engine.host},
            check=True,
            capture_output=True,
        )

    def verifications(self) -> None:
        """Proving an image of many files, against git's archive alone."""
        for _ in range(self.rounds * 3):
            with snapshot(self.root) as made_from:
                verifier = self.verifier
                self.rows.take("verification", partial(verifier.verify, self.images[-1], made_from))
            self.rows.take("git archive | sha256sum", self._by_hand)

    def _by_hand(self) -> None:
        with subprocess.Popen(
            ["git", "archive", "HEAD"], cwd=self.root, stdout=subprocess.PIPE
        ) as archive:
            subprocess.run(["sha256sum"], stdin=archive.stdout, check=True, capture_output=True)

    def items(self) -> None:
        """The same item in a container and outside."""
        limits = Limits(cpus=len(os.sched_getaffinity(0)), memory_gb=1, pids=256)
        harness = copy_harness(self.place / "harness")
        inside = InImage(
            self.engine, "bench", self.images[-1], self.made, self.place, ".", limits, harness
        )
        for number in range(self.rounds * 2):
            sides = [("item outside", None), ("item in a container", inside)]
            for name, where in sides[:: 1 if number % 2 else -1]:
                self.rows.take(name, partial(self._item, f"{name} {number}", where))

    def _item(self, name: str, where: InImage | None) -> None:
        into = RunFolder(self.place / "runs").item(name)
        request = ItemRequest(name, ("true",), self.place, into, timeout_s=60, inside=where)
        outcome = run_item(request)
        assert outcome.verdict.kind is Kind.PASSED, outcome


def verdict(rows: Rows) -> int:
    """Say which target was met; 1 when one was missed."""
    more = rows.median("item in a container") - rows.median("item outside")
    ratio = rows.median("new head: docker build") / rows.median("new head: ours, verified")
    print(f"docker build takes {ratio:.1f} times as long as ours, and proves nothing")
    checks = (
        ("a new head", rows.median("new head: ours, verified"), HEAD_S),
        ("a verification", rows.median("verification"), VERIFY_S),
        ("a container for an item", more, ITEM_S),
    )
    missed = 0
    for name, seconds, target in checks:
        word = "met" if seconds <= target else "MISSED"
        missed += seconds > target
        print(f"{name}: {seconds:.3f} s, at most {target} s: {word}")
    return int(missed > 0)


def main(arguments: Sequence[str]) -> int:
    """Measure, and say whether the targets are met."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=7.0)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args(arguments)
    engine, cache = Engine(), open_cache(ROOT)
    print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors")
    with tempfile.TemporaryDirectory(dir=cache.work) as folder:
        place = Path(folder)
        started = time.perf_counter()
        made = environment(engine, cache, place, asked.gigabytes)
        print(f"{asked.gigabytes} GB made and loaded in {time.perf_counter() - started:.0f} s")
        bench = Bench(engine, cache, made, place, asked.rounds)
        repository(bench.root, _FILES, seed=0)
        bench.new_heads()
        bench.verifications()
        bench.items()
        for image in dict.fromkeys([*bench.images, made.file.id, PEER]):
            forget(engine, image)
    rows = bench.rows
    rows.show()
    print(f"load {os.getloadavg()[0]:.1f}")
    return verdict(rows)


def forget(engine: Engine, image: str) -> None:
    """Take an image and its names away."""
    while (facts := engine.image(image)) is not None:
        if not all(engine.remove_image(name) for name in facts.tags or (image,)):
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
