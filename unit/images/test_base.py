"""Bases: the same on every machine, with nothing of the one that made them."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.config import load
from exacthead.errors import HarnessError
from exacthead.images.base import MadeBase, key_of
from exacthead.images.cache import Cache
from exacthead.images.environment import Making
from exacthead.images.mirror import own_mirror
from exacthead.images.stages import Stage, Stages
from unit.images.small import MINOR

if TYPE_CHECKING:
    from exacthead.images.engine import Engine
    from exacthead.images.environment import Environment
    from unit.exacthead.conftest import Repository

# Another machine, as far as mmdebstrap can tell.
ANOTHER = """#!/bin/sh
export here={here}
exec unshare --mount sh -c '
    mount --bind "$here/hostname" /etc/hostname && mount --bind "$here/resolv" /etc/resolv.conf \\
    && exec {program} "$@"' sh "$@"
"""
LOGIN = "somebody:hush-3f1c9b"


@pytest.fixture
def another_machine(
    another_shell: None,  # noqa: ARG001
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another host name, other name servers."""
    if os.getuid() != 0:
        pytest.skip("only root can give mmdebstrap another /etc/hostname")
    folder = tmp_path / "machine"
    folder.mkdir()
    (folder / "hostname").write_text("another\n", encoding="ascii")
    known = Path("/etc/resolv.conf").read_text(encoding="utf-8")
    (folder / "resolv").write_text(f"# another\n{known}", encoding="utf-8")
    program = folder / "mmdebstrap"
    program.write_text(ANOTHER.format(here=folder, program=shutil.which("mmdebstrap")), "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def with_credentials(mirror: str) -> str:
    return mirror.replace("://", f"://{LOGIN}@", 1)


@pytest.mark.usefixtures("another_machine")
def test_a_base_made_on_another_machine_is_the_same_and_refused_where_another_was_asked_for(
    clone: Repository, engine: Engine, environment: Environment, tmp_path: Path
) -> None:
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    wrong = f'suite = "trixie"\ndigest = "sha256:{"0" * 64}"'
    wrong += f'\nmirror = "{with_credentials(own_mirror())}/"'
    clone.write({"ci/harness.toml": text.replace('suite = "trixie"', wrong)})
    empty = Cache(tmp_path / "empty")
    empty.create()

    with pytest.raises(HarnessError, match=f"with digest sha256:{'0' * 64}") as caught:
        Making(load(clone.root), empty, engine, print).ensure("small")

    assert f"it has {environment.layers[0].diff_id}:" in caught.value.found
    assert empty.records() == {}


def test_packages_of_an_image_come_from_the_mirror_and_its_credentials_go_nowhere(  # noqa: PLR0917
    clone: Repository, engine: Engine, cache: Cache, environment: Environment, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    text = text.replace('workers = ["plain"]\n\n[runners', "workers = []\n\n[runners")
    text = text.replace('base = "debian"', 'base = "debian"\npackages = ["xz-utils"]')
    dockerfile = (clone.root / "containers/workers.Dockerfile").read_text(encoding="utf-8")
    # apt's own user must be able to read what apt is given.
    check = "runuser -u _apt -- grep -q '^# a mark' /run/secrets/certificates && apt-get update"
    assert dockerfile.count("apt-get update") == 1
    clone.write(
        {
            "ci/harness.toml": text,
            "containers/workers.Dockerfile": dockerfile.replace("apt-get update", check),
        }
    )
    bundle = tmp_path / "certificates.pem"
    bundle.write_text("# a mark\n", encoding="ascii")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    harness = load(clone.root)
    declared = harness.base("debian")
    base = declared.model_copy(update={"mirror": with_credentials(own_mirror())})
    made = MadeBase(base, key_of(declared), environment.layers[:1], ())
    stages = Stages("small", harness.image("small"), clone.root / "containers/workers.Dockerfile",
                    made, (MINOR,), cache, engine, fresh=True)  # fmt: skip

    built, layers, _ = stages.build(Stage("system", 1, "system packages", tmp_path))
    stages.discard(built)

    (layer,) = layers
    assert layer.path is not None
    with tarfile.open(layer.path) as archive:
        assert "usr/bin/xz" in archive.getnames()
    written = [layer.path, *(cache.root / "logs").iterdir(), *(cache.root / "records").iterdir()]
    for path in written:
        assert LOGIN.encode() not in path.read_bytes(), path
    layer.path.unlink()


def test_a_public_base_that_cannot_be_had_is_named(
    clone: Repository, engine: Engine, cache: Cache
) -> None:
    text = (clone.root / "ci/harness.toml").read_text(encoding="utf-8")
    base = f'\n[bases.public]\nimage = "127.0.0.1:9/library/python@sha256:{"1" * 64}"\n'
    clone.write({"ci/harness.toml": text + base})

    with pytest.raises(
        HarnessError, match=r"pull 127.0.0.1:9/library/python@sha256:1111[\s\S]*--base"
    ):
        Making(load(clone.root), cache, engine, print, base="public").ensure("small")
