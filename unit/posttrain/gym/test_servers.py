"""The servers' process: ports, readiness, environment, and an end that leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from posttrain.environment.configure import AGENT, HOST, MODEL, NAMES, UNSHAPED, VERIFIER, GymConfig
from posttrain.environment.servers import GymServers
from posttrain.errors import RecipeError, WorkerError

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = GymConfig(model="tiny-llama", engine_urls=("http://127.0.0.1:9/v1",))
INVALID, UNKNOWN = 422, 404
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def interpreter(tmp_path: Path) -> Callable[[str], Path]:
    """Something to run in the interpreter's place, for what a working one does not do."""

    def write(script: str) -> Path:
        path = tmp_path / "interpreter"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    return write


def refusal(port: int, route: str) -> int:
    """The status with which an empty body is refused."""
    request = urllib.request.Request(f"http://{HOST}:{port}{route}", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=60)  # noqa: S310  an address of our own
    error.value.close()
    return error.value.code


def gone(pid: int) -> bool:
    """Whether a process ends within a generous while; a zombie has ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            state = (
                Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            )
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.02)
    return False


def test_three_real_servers_answer_on_their_own_ports(gym: GymServers) -> None:
    assert sorted(gym.ports) == sorted(NAMES)
    assert len(set(gym.ports.values())) == 3
    own = {AGENT: "/run", VERIFIER: "/verify", MODEL: "/v1/chat/completions"}
    for name, port in gym.ports.items():
        answers = {asked: refusal(port, route) for asked, route in own.items()}
        expected = {asked: INVALID if asked == name else UNKNOWN for asked in own}
        assert answers == expected


def test_gym_does_not_start_ray_and_is_one_process(gym: GymServers) -> None:
    folder = Path(f"/proc/{gym.pid}/task/{gym.pid}")
    children = (folder / "children").read_text(encoding="utf-8")
    assert children.split() == []
    assert "/ray/_raylet" not in Path(f"/proc/{gym.pid}/maps").read_text(encoding="utf-8")


def test_the_configuration_is_kept_in_the_run_folder(gym: GymServers, engine: Any) -> None:
    path = gym._run_dir / "gym-config.json"
    kept = json.loads(path.read_text(encoding="utf-8"))
    model = kept[MODEL]["responses_api_models"]["vllm_model"]
    verifier = kept[VERIFIER]["resources_servers"]["math_with_judge"]
    agent = kept[AGENT]["responses_api_agents"]["simple_agent"]
    assert model["base_url"] == [engine.url]
    assert model["sampling_overrides"] == UNSHAPED | {"temperature": 0.0}
    assert verifier["should_use_judge"] is False
    assert verifier["judge_model_server"]["name"] in kept
    assert agent["model_server"]["name"] in kept
    assert agent["resources_server"]["name"] in kept


def test_stopped_servers_leave_no_process_and_no_port(own_gym: GymServers) -> None:
    pid, ports = own_gym.pid, own_gym.ports
    own_gym.stop()
    assert gone(pid)
    for port in ports.values():
        with socket.socket() as probe:
            assert probe.connect_ex((HOST, port)) != 0
    own_gym.stop()


def test_a_port_in_use_is_named_with_its_server_and_nothing_is_started(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        servers = GymServers(Path(sys.executable), CONFIG, tmp_path / "run", 60, {VERIFIER: port})
        with pytest.raises(WorkerError) as error:
            servers.start()
    assert error.value.asked == f"Gym's server {VERIFIER} on port {port} of {HOST}"
    assert error.value.found == "Address already in use"
    assert list((tmp_path / "run").iterdir()) == []


def test_given_ports_are_used(tmp_path: Path, interpreter: Callable[[str], Path]) -> None:
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    with GymServers(
        interpreter("sleep 60"), CONFIG, tmp_path / "run", 60, {AGENT: port}
    ) as servers:
        assert servers.ports[AGENT] == port
        assert servers.agent_url == f"http://127.0.0.1:{port}"


def test_servers_that_die_at_the_start_are_reported_with_their_last_words(
    tmp_path: Path, interpreter: Callable[[str], Path]
) -> None:
    python = interpreter("echo no module named nemo_gym >&2; exit 3")
    with GymServers(python, CONFIG, tmp_path / "run", 60) as servers:
        with pytest.raises(WorkerError) as error:
            servers.wait_ready()
        assert "exit code 3" in error.value.found
        assert "| no module named nemo_gym" in error.value.found
        assert str(tmp_path / "run" / "gym-servers.log") in error.value.todo


def test_servers_that_are_not_ready_in_time_are_named_and_ended(
    tmp_path: Path, interpreter: Callable[[str], Path]
) -> None:
    with GymServers(interpreter("echo busy; sleep 600"), CONFIG, tmp_path / "run", 1) as servers:
        pid = servers.pid
        while not (tmp_path / "run" / "gym-servers.log").read_text(encoding="utf-8"):
            time.sleep(0.02)
        with pytest.raises(WorkerError) as error:
            servers.wait_ready()
        assert gone(pid)
    assert error.value.asked == "Gym's servers ready within 1 s"
    for name in NAMES:
        assert name in error.value.found
    assert "| busy" in error.value.found


def test_servers_that_hang_are_told_by_their_silence(own_gym: GymServers) -> None:
    assert own_gym.silent(patience_s=300) == []
    os.kill(own_gym.pid, signal.SIGSTOP)
    assert own_gym.silent(patience_s=0.1) == list(NAMES)
    os.kill(own_gym.pid, signal.SIGCONT)
    assert own_gym.silent(patience_s=300) == []


def test_a_missing_interpreter_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"no-such-python\n.*No such file"):
        GymServers(tmp_path / "no-such-python", CONFIG, tmp_path / "run", 60).start()


def test_a_process_that_ignores_being_asked_to_end_is_ended_with_its_children(
    tmp_path: Path, interpreter: Callable[[str], Path]
) -> None:
    python = interpreter("trap '' TERM; sleep 600 & echo $!; wait; sleep 600")
    servers = GymServers(python, CONFIG, tmp_path / "run", 60)
    servers.start()
    log = tmp_path / "run" / "gym-servers.log"
    while not log.read_text(encoding="utf-8").endswith("\n"):
        time.sleep(0.02)
    leader, child = servers.pid, int(log.read_text(encoding="utf-8"))
    servers.stop()
    assert gone(leader)
    assert gone(child)


def test_what_a_dead_process_left_behind_is_ended_too(
    tmp_path: Path, interpreter: Callable[[str], Path]
) -> None:
    python = interpreter("sleep 600 & echo $!; exit 3")
    servers = GymServers(python, CONFIG, tmp_path / "run", 60)
    servers.start()
    with pytest.raises(WorkerError, match="exit code 3"):
        servers.wait_ready()
    assert gone(int((tmp_path / "run" / "gym-servers.log").read_text(encoding="utf-8")))
    with pytest.raises(WorkerError, match="exit code 3"):
        servers.check()


def test_servers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from posttrain.environment.configure import GymConfig\n"
        "from posttrain.environment.servers import GymServers\n"
        "config = GymConfig('tiny-llama', ('http://127.0.0.1:9/v1',))\n"
        f"servers = GymServers(Path(sys.executable), config, Path({str(tmp_path)!r}), 120)\n"
        "servers.start()\n"
        "servers.wait_ready()\n"
        "print(servers.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT), **os.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == -9, done.stderr
    assert gone(int(done.stdout))


def test_settings_of_another_run_do_not_reach_the_servers(
    tmp_path: Path, interpreter: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEMO_GYM_CONFIG_PATH", "stale")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector")
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    monkeypatch.setenv("EXACTHEAD_LEG", "of this run")
    servers = GymServers(interpreter("env -0; exit 1"), CONFIG, tmp_path, 60)
    servers.start()
    with pytest.raises(WorkerError, match="exit code 1"):
        servers.wait_ready()
    log = (tmp_path / "gym-servers.log").read_text(encoding="utf-8")
    seen = dict(entry.split("=", 1) for entry in log.split("\0") if entry)
    assert "NEMO_GYM_CONFIG_PATH" not in seen
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" not in seen
    assert "RAY_ADDRESS" not in seen
    assert seen["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT)
    assert seen["EXACTHEAD_LEG"] == "of this run"
    assert seen["OMP_NUM_THREADS"] == "1"
    assert seen["HF_HUB_OFFLINE"] == "1"
    assert seen["NEMO_GYM_OTEL_ENABLED"] == "0"


def test_an_environment_without_engines_or_temperature_is_refused() -> None:
    with pytest.raises(RecipeError, match="no engine"):
        GymConfig(model="tiny-llama", engine_urls=())
    with pytest.raises(RecipeError, match="without a temperature"):
        GymConfig(model="tiny-llama", engine_urls=CONFIG.engine_urls, sampling={"top_p": 1.0})


def test_a_child_of_the_verifier_that_is_ended_at_once_does_not_end_the_servers() -> None:
    program = """
import asyncio, multiprocessing, os, signal, time
# Whatever else runs first in a new child leaves time for a signal.
os.register_at_fork(after_in_child=lambda: time.sleep(1))
from posttrain.environment.serve import take_signals

async def main():
    stopped = asyncio.Event()
    take_signals(asyncio.get_running_loop(), lambda why: stopped.set())
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
    child.start()
    child.terminate()
    child.join(20)
    await asyncio.sleep(0.5)
    print(child.exitcode, stopped.is_set())
    child.kill()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(stopped.wait(), 60)
    print(stopped.is_set())

asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT), **os.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines() == ["-15 False", "True"], done.stderr
