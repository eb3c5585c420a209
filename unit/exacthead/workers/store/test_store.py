"""The store: one build per spec, reuse only of what is whole, names that decide nothing."""

from __future__ import annotations

import os
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from exacthead.environ import clean_environment
from exacthead.errors import HarnessError
from exacthead.workers.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Yard


def run(python: Path, code: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=clean_environment(os.environ) if environment is None else environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_worker_is_built_once_and_reused(yard: Yard) -> None:
    spec = yard.spec()
    first = yard.ensure(spec)
    second = yard.ensure(spec)
    assert (first.reused, second.reused) == (False, True)
    assert first.root == second.root
    assert first.python == first.root / "bin" / "python"
    assert run(first.python, "import alpha; print(alpha.NAME)") == "alpha"
    assert set(first.timings) >= {"venv", "sync", "compile", "probes", "manifest", "total"}
    assert set(second.timings) == {"total"}


def test_the_same_name_with_more_requirements_is_another_worker(yard: Yard) -> None:
    alpha, gym = yard.wheel("alpha"), yard.wheel("gym")
    plain = yard.ensure(yard.spec("vllm", alpha))
    with_gym = yard.ensure(yard.spec("vllm", alpha + gym))
    assert plain.root != with_gym.root
    assert not with_gym.reused
    code = "import importlib.util; print(importlib.util.find_spec('gym') is not None)"
    assert run(plain.python, code) == "False"
    assert run(with_gym.python, code) == "True"


NAMES = ("a/b", "a_b", "a-b", "A_B", "策略", "工作", "n" * 300, "../../outside", "")


def test_names_that_normalise_alike_never_meet(yard: Yard) -> None:
    specs = [
        yard.spec(name, yard.wheel("alpha"), environment=(("NUMBER", str(number)),))
        for number, name in enumerate(NAMES)
    ]
    store = yard.store()
    roots = {yard.ensure(spec, store).root for spec in specs}
    assert len(roots) == len(NAMES)
    assert {root.parent for root in roots} == {store.layout.root / "workers"}
    assert {record.names for record in store.list()} == {(name,) for name in NAMES}


def test_one_spec_under_many_names_is_one_worker_that_knows_them_all(yard: Yard) -> None:
    store = yard.store()
    built = [yard.ensure(yard.spec(name), store) for name in NAMES]
    assert len({worker.root for worker in built}) == 1
    assert [worker.reused for worker in built] == [False] + [True] * (len(NAMES) - 1)
    assert [worker.name for worker in built] == list(NAMES)
    (record,) = store.list()
    assert record.names == NAMES


def test_many_specs_at_once_over_one_cache(yard: Yard) -> None:
    lines = [yard.wheel("alpha"), *(yard.wheel(f"extra{number}") for number in range(6))]
    specs = [yard.spec(str(size), "".join(lines[:size])) for size in range(1, len(lines) + 1)]
    store = yard.store()
    with ThreadPoolExecutor(len(specs)) as threads:
        built = list(threads.map(lambda spec: yard.ensure(spec, store), specs))
    assert not any(worker.reused for worker in built)
    assert [store.verify(worker.key) for worker in built] == [[]] * len(specs)
    names = [len(list(worker.root.glob("lib/*/site-packages/*.py"))) for worker in built]
    assert [count - names[0] for count in names] == list(range(len(specs)))


class Index(SimpleHTTPRequestHandler):
    """A package index: the folder pages of the standard library's server are what it needs."""

    requests: list[str]

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.requests.append(self.path)
        super().do_GET()


@pytest.fixture
def index(yard: Yard) -> Iterator[tuple[str, list[str]]]:
    """An index of the wheels ``alpha``; its address and the requests that it has seen."""
    requests: list[str] = []
    folder = yard.folder / "index" / "alpha"
    folder.mkdir(parents=True)
    yard.wheel("alpha")
    for wheel in yard.wheels.iterdir():
        os.link(wheel, folder / wheel.name)
    handler = type("Handler", (Index,), {"requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder.parent)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", requests
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_second_build_from_a_warm_cache_touches_no_network(
    yard: Yard, index: tuple[str, list[str]]
) -> None:
    address, requests = index
    spec = yard.spec()
    arguments = ("--default-index", address)
    environment = {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    yard.store("first", **environment).ensure(spec, uv_arguments=arguments)
    assert any(path.endswith(".whl") for path in requests)
    requests.clear()
    again = yard.store("second", **environment).ensure(spec, uv_arguments=arguments)
    assert not again.reused
    assert requests == []


def test_a_failed_build_leaves_its_log_and_no_worker(yard: Yard) -> None:
    store = yard.store()
    spec = yard.spec("broken", yard.wheel("alpha").replace("sha256:", "sha256:0")[:-2] + "\n")
    with pytest.raises(HarnessError, match="broken") as raised:
        yard.ensure(spec, store)
    log = store.layout.log(spec.key)
    assert str(log) in str(raised.value)
    assert "alpha" in log.read_text()
    assert store.list() == []
    assert store.find(spec.key) is None
    assert not store.layout.worker(spec.key).exists()


def test_a_failed_probe_is_a_failed_build_with_its_traceback(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": "raise RuntimeError('no luck today')\n"})
    spec = yard.spec(lock=lock)
    with pytest.raises(HarnessError, match="RuntimeError: no luck today"):
        yard.ensure(spec, store)
    assert store.list() == []
    assert "Traceback" in store.layout.log(spec.key).read_text()


def test_a_failure_is_not_remembered(yard: Yard) -> None:
    store = yard.store()
    lock = yard.wheel("alpha", {"alpha.py": "import os\nos.environ['LUCK']\n"})
    with pytest.raises(HarnessError, match="LUCK"):
        yard.ensure(yard.spec(lock=lock), store)
    lucky = yard.ensure(yard.spec(lock=lock, environment=(("LUCK", "yes"),)), store)
    assert store.verify(lucky.key) == []


def test_the_interpreter_must_be_what_the_spec_says(yard: Yard) -> None:
    spec = yard.spec()
    lying = replace(spec, interpreter=replace(spec.interpreter, version="3.99.7"))
    with pytest.raises(HarnessError, match=r"3\.99\.7"):
        yard.ensure(lying)


def test_a_removed_folder_is_built_again(yard: Yard) -> None:
    spec = yard.spec()
    first = yard.ensure(spec)
    (first.root / "bin" / "python").unlink()
    again = yard.ensure(spec)
    assert not again.reused
    assert run(again.python, "import alpha; print(alpha.NAME)") == "alpha"


def test_a_changed_sentinel_is_mended_by_ensure_itself(yard: Yard) -> None:
    spec = yard.spec()
    first = yard.ensure(spec)
    (module,) = first.root.glob("lib/*/site-packages/alpha.py")
    module.write_text("NAME = 'omega'\n")
    again = yard.ensure(spec)
    assert not again.reused
    assert run(again.python, "import alpha; print(alpha.NAME)") == "alpha"


def test_a_file_added_to_site_packages_is_seen_by_ensure(yard: Yard) -> None:
    spec = yard.spec()
    first = yard.ensure(spec)
    (site,) = first.root.glob("lib/*/site-packages")
    (site / "intruder.pth").write_text("import os\n")
    again = yard.ensure(spec)
    assert not again.reused
    assert not (site / "intruder.pth").exists()


def test_a_touched_sentinel_with_the_right_content_costs_no_build(yard: Yard) -> None:
    spec = yard.spec()
    store = yard.store()
    first = yard.ensure(spec, store)
    (module,) = first.root.glob("lib/*/site-packages/alpha.py")
    os.utime(module, (1, 1))
    inode = module.stat().st_ino
    assert yard.ensure(spec, store).reused
    assert module.stat().st_ino == inode
    assert set(yard.ensure(spec, store).timings) == {"total"}


@pytest.mark.parametrize("text", ["", "{}", '{"key": 1', "[]", '{"sentinels": [], "notes": []}'])
def test_a_record_that_cannot_be_read_is_no_record(yard: Yard, text: str) -> None:
    spec = yard.spec()
    store = yard.store()
    path = store.layout.record(spec.key)
    path.write_text(text)
    assert [record.state for record in store.list()] == ["unfinished"]
    assert not yard.ensure(spec, store).reused
    assert yard.ensure(spec, store).reused


def test_a_provided_worker_is_given_back_untouched(yard: Yard) -> None:
    spec = replace(yard.spec(), provided=True)
    store = yard.store()
    built = yard.ensure(spec, store)
    assert built.reused
    assert built.python == spec.interpreter.path
    assert store.list() == []


def test_find_takes_the_beginning_of_a_key(yard: Yard) -> None:
    store = yard.store()
    built = yard.ensure(yard.spec(), store)
    found = store.find(built.key[:10])
    assert found is not None
    assert (found.key, found.state, found.root) == (built.key, "ready", built.root)
    assert found.size > 0
    assert store.find("f" * 64) is None


@pytest.mark.parametrize("place", ["/proc/exacthead", "/dev/null/exacthead"])
def test_a_store_that_cannot_be_written_to_is_refused_in_words(place: str) -> None:
    with pytest.raises(HarnessError, match=f"the store of workers in {place}") as error:
        Store(Path(place))
    assert "EXACTHEAD_CACHE" in error.value.todo
