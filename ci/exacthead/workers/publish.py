"""Publish: take a build through all its stages and write its readiness record last."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from exacthead.workers import manifest, record
from exacthead.workers.distributions import altered
from exacthead.workers.layout import remove_tree, write_whole
from exacthead.workers.refetch import spoilt
from exacthead.workers.verify import purge

if TYPE_CHECKING:
    from exacthead.workers.build import Build, Probed
    from exacthead.workers.layout import Layout
    from exacthead.workers.manifest import Entry


def publish(layout: Layout, build: Build) -> record.Readiness:
    """Build, byte-compile, probe and hash; then, and only then, is the worker ready.

    Where files are not what their RECORD says, those distributions alone are fetched again. Where
    their wheels hold the same, a wheel is at odds with its own RECORD; its content is still what
    the lock's hash says, so this is only noted. Where they hold something else, uv's cache was
    spoilt: what is spoilt leaves it, and the build is done once more.

    Raises:
        HarnessError: a stage failed.
    """
    probed, entries, suspects = _stages(build)
    if suspects:
        with build.commands.stage("refetch"):
            damaged = spoilt(build, entries, suspects)
        if damaged:
            purge(damaged, build.uv_environment)
            remove_tree(build.root)
            probed, entries, suspects = _stages(build)
    build.notes.extend(
        f"{name}: {len(paths)} files differ from the wheel's own RECORD ({paths[0]})"
        for name, paths in suspects.items()
    )
    return _publish(layout, build, probed, entries)


def _stages(build: Build) -> tuple[Probed, list[Entry], dict[str, list[str]]]:
    build.create()
    build.install()
    patched = build.patch()
    build.compile()
    probed = build.probe()
    with build.commands.stage("manifest"):
        entries = manifest.scan(build.root)
        suspects = altered(build.root, (entry for entry in entries if entry.path not in patched))
    return probed, entries, suspects


def _publish(
    layout: Layout, build: Build, probed: Probed, entries: list[Entry]
) -> record.Readiness:
    key = build.spec.key
    with build.commands.stage("publish"):
        data = manifest.encode(entries)
        write_whole(layout.manifest(key), data)
        always = ["bin/python", "pyvenv.cfg", str(probed.interpreter)]
        always += [str(path) for path in (build.site_packages, *probed.modules)]
        sentinels = record.choose_sentinels(build.root, entries, always)
        readiness = record.Readiness(
            key=key,
            built=datetime.now(UTC).isoformat(timespec="seconds"),
            interpreter=str(probed.interpreter),
            sentinels=sentinels,
            manifest_sha256=hashlib.sha256(data).hexdigest(),
            files=len(entries),
            size=sum(entry.size for entry in entries if not entry.target),
            timings=build.commands.timings,
            notes=tuple(build.notes),
        )
        record.write(layout, readiness)
    return readiness
