"""The program of a worker's pytest process: ``python run.py SETTINGS.json DESCRIPTOR``.

The settings are those of ``exacthead/units/settings.py``; the descriptor is the socket to the
driver, -1 where nothing is asked (collection). The modules beside this file are loaded by path and
are in neither ``sys.path`` nor ``sys.modules``: a test can import what it could without the
harness.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent


def _load(name: str) -> Any:
    """One of the modules beside this file."""
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"_exacthead_{name}", _HERE / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _plugin(settings: dict[str, Any], stream: Any, descriptor: int) -> object:
    """The plugin for what is to be done, with all it needs."""
    files, reports = _load("stream"), _load("reports")
    selection = _load("selection").Selection(
        [nodeid for group in settings["groups"] for nodeid in group],
        settings["excluded"],
        settings["known"],
    )
    output = _load("output").Output(
        stream, settings["log"], _load("text").decoded, files.identity, files.keep_high
    )
    collecting = _load("collecting")
    told = collecting.Collecting(stream, output, reports.reason_of, reports.one_line)
    dumps = _load("dumps").Dumps(
        files.LastingFile(settings["crash"]), files.LastingFile(_stacks_file(settings))
    )
    if settings["collect"]:
        gathering: object = _load("gathering").Gathering(
            stream=stream,
            collecting=told,
            selection=selection,
            dumps=dumps,
            prepare=collecting.prepare,
            text_of=reports.text_of,
        )
        return gathering
    channel = _load("channel")
    plugin: object = _load("running").Running(
        stream=stream,
        channel=channel.Channel(files.keep_high(descriptor), files.identity),
        lost=channel.Lost,
        selection=selection,
        groups=settings["groups"],
        output=output,
        dumps=dumps,
        collecting=told,
        reporting=_load("reporting").Reporting(stream, output, reports.reason_of, reports.text_of),
        prepare=collecting.prepare,
        reason_of=reports.reason_of,
        text_of=reports.text_of,
    )
    return plugin


def _stacks_file(settings: dict[str, Any]) -> str:
    return str(Path(settings["stacks"], f"{os.getpid()}.txt"))


def main() -> int:
    """Run pytest as the settings say; returns its exit code."""
    import json

    path, descriptor = sys.argv[1], int(sys.argv[2])
    if sys.path and Path(sys.path[0]).resolve() == _HERE:
        del sys.path[0]  # Python puts a script's folder there
    settings = json.loads(Path(path).read_text(encoding="ascii"))
    arguments = [*settings["paths"], *settings["arguments"]]
    sys.argv = ["pytest", *arguments]  # as if there were no harness
    stream = _load("stream").Stream(settings["stream"])
    plugin = _plugin(settings, stream, descriptor)

    import pytest

    code = int(pytest.main(arguments, plugins=[plugin]))
    stream.write("finish", code=code)
    return code


if __name__ == "__main__":
    # "spawn" of multiprocessing imports this file under another name in each child.
    sys.exit(main())
