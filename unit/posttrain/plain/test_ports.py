"""Ports: none that the system gives away meanwhile, none that is taken, within the range given."""

from __future__ import annotations

import socket

import pytest

from posttrain.errors import WorkerError
from posttrain.ports import ASSIGNED, HOST, LOWEST, VARIABLE, free_ports


@pytest.fixture
def taken() -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    bound.bind((HOST, 0))
    return bound


def test_no_port_is_one_that_the_system_assigns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assigned = int(ASSIGNED.read_text(encoding="ascii").split()[0])
    ports = free_ports(50)
    assert len(set(ports)) == 50
    assert all(LOWEST <= port < assigned for port in ports)


def test_two_that_look_at_once_rarely_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    # Of twenty thousand: each pair of calls shares one with a probability below one in a thousand.
    assert len({free_ports(3) for _ in range(10)}) == 10


def test_what_is_taken_in_the_given_range_is_passed_over(
    taken: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = taken.getsockname()[1]
    with taken:
        monkeypatch.setenv(VARIABLE, f"{port}-{port + 40}")
        assert port not in free_ports(1)
        monkeypatch.setenv(VARIABLE, f"{port}-{port}")
        with pytest.raises(WorkerError, match=f"1 free ports in {VARIABLE}={port}-{port}"):
            free_ports(1)
