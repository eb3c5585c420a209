from __future__ import annotations

import socket

import pytest

from exacthead.errors import HarnessError
from exacthead.runs.ports import claim_ports

# Away from the ranges of real items, which may run beside these tests.
FIRST, LAST = 32_000, 32_399


def test_claims_never_overlap_and_are_given_back() -> None:
    with claim_ports(FIRST, LAST, 50) as one, claim_ports(FIRST, LAST, 50) as other:
        assert one.high < other.low or other.high < one.low
        assert one.high - one.low == 48
        low = one.low
    with claim_ports(FIRST, LAST, 50) as again:
        assert again.low == low


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_range_with_a_port_in_use_is_passed_over(
    family: socket.AddressFamily, address: str
) -> None:
    with claim_ports(FIRST, LAST, 50) as free:
        low = free.low
    with socket.socket(family) as server:
        server.bind((address, low + 20))
        server.listen()
        with claim_ports(FIRST, LAST, 50) as ports:
            assert not ports.low <= low + 20 <= ports.high


def test_no_free_range_is_an_error_that_names_the_ports() -> None:
    with (
        claim_ports(FIRST, FIRST + 99, 100) as only,
        pytest.raises(HarnessError, match=f"every range has a port in use: {only.low - 1}"),
        claim_ports(FIRST, FIRST + 99, 100),
    ):
        pass


def test_every_port_of_a_claim_can_be_bound() -> None:
    with claim_ports(FIRST, LAST, 50) as ports:
        for port in range(ports.low, ports.high + 1):
            with socket.create_server(("127.0.0.1", port)):
                pass
