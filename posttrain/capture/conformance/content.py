"""Checks of what comes back: everything, to the bit."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
from nemo_gym.token_id_capture.staging import assert_golden_vectors, compute_staging_digest

from posttrain.capture.conformance.calls import fetch, fetch_each, same, stage, staged
from posttrain.capture.conformance.failure import Failed, require
from posttrain.capture.conformance.records import record, rollout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posttrain.capture.conformance.subject import Subject

# Of a float32: 8 bits of exponent, 23 of fraction. 255 in the exponent is not finite.
EXPONENTS, FRACTION_BITS = 255, 23
MIDDLE = 0x2AAAAA
ATTACHMENTS: Mapping[str, Any] = {
    "pixels": np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7,
    "grid": np.array([[1, 2, 3]], dtype=np.int64),
    "raw": b"\x00\xff bytes",
}


def golden_vectors(_subject: Subject) -> None:
    """This process computes the digests that Gym publishes."""
    try:
        assert_golden_vectors()
    except AssertionError as error:
        raise Failed(str(error)) from error


def round_trip(subject: Subject) -> None:
    """A call comes back from a new client as it was staged, with a digest that still holds."""
    name = rollout()
    records = [
        record(name, "large ids", prompt=(0, 40_000, 151_642), generated=(262_143, 2**31 - 1)),
        record(name, "no prompt", prompt=()),
        record(name, "one token", prompt=(), generated=(5,), weight_version=2**40),
        record(name, "a/b"),
        record(name, "a_b"),
        record(name, "../%2F ünïcode"),
        record(name, "x" * 300),
    ]
    with subject.clients() as clients:
        keys = [stage(clients.sink, each) for each in records]
    require(len({*keys}) == len(keys), f"two calls got one key: {', '.join(keys)}")
    with subject.clients() as clients:
        found = fetch_each(clients.source, keys)
    same(records, found, "from a new client")
    for each in found:
        values = each.model_dump(exclude={"digest"})
        require(compute_staging_digest(**values) == each.digest, "a digest does not hold any more")


def float32_exact(subject: Subject) -> None:
    """Every float32 keeps its bits: each exponent, sign and fraction bit, zeros, subnormals."""
    bits = [1 << bit for bit in range(FRACTION_BITS)]
    fractions = [0, MIDDLE, (1 << FRACTION_BITS) - 1, *bits]
    words = [
        sign << 31 | exponent << FRACTION_BITS | fraction
        for sign in (0, 1)
        for exponent in range(EXPONENTS)
        for fraction in fractions
    ]
    values = list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *words)))
    require(all(math.isfinite(value) for value in values), "the check's own values are finite")
    name = rollout()
    whole = record(name, "all", prompt=(5,), generated=[3] * len(values), logprobs=values)
    # A prompt token has log-probability zero, and its sign is in the digest.
    signed = record(name, "signed zero", prompt_logprob=-0.0)
    with subject.clients() as clients:
        keys = [stage(clients.sink, each) for each in (whole, signed)]
    with subject.clients() as clients:
        found = fetch_each(clients.source, keys)
    same([whole, signed], found, "from a new client")


def extras(subject: Subject) -> None:
    """Extras are kept whole, behind ``extras(keys)`` of the source, or the call is refused."""
    payload = {"routed": [[1, -2], [2**62]], "text": "é", "exact": 0.1, "none": None, "yes": True}
    name = rollout()
    with_extras, without = record(name, "with", extras=payload), record(name, "without")
    with subject.clients() as clients:
        key, refusal = staged(clients.sink, with_extras)
        if refusal:
            return
        keys = [key, stage(clients.sink, without)]
    with subject.clients() as clients:
        same([with_extras], fetch(clients.source, [key]), "with extras")
        reader = getattr(clients.source, "extras", None)
        require(
            callable(reader),
            "a call with extras was staged, and the source has no extras(keys) to show them:"
            " keep them, or refuse the call",
        )
        found = list(reader(keys))  # type: ignore[misc]
    require(found == [payload, None], f"extras came back as {found}")


def attachments(subject: Subject) -> None:
    """Attachments are kept whole, behind ``attachments(key)`` of the source, or refused."""
    with_them = record(rollout(), "with")
    with subject.clients() as clients:
        key, refusal = staged(clients.sink, with_them, ATTACHMENTS)
        if refusal:
            try:
                there = clients.source.fetch([with_them.staging_key])
            except Exception:  # noqa: BLE001 - refused, and not there: as it should be
                return
            require(not there, "a call that was refused for its attachments is there without them")
            return
    with subject.clients() as clients:
        reader = getattr(clients.source, "attachments", None)
        require(
            callable(reader),
            "attachments were accepted, and the source has no attachments(key) to show them:"
            " keep them, or refuse the call",
        )
        found = dict(reader(key))  # type: ignore[misc]
    lost = [name for name in ATTACHMENTS if not _equal(ATTACHMENTS[name], found.get(name))]
    require(not lost, f"attachments were accepted, and came back otherwise: {', '.join(lost)}")
    require(found.keys() == ATTACHMENTS.keys(), f"attachments came back as {', '.join(found)}")


def _equal(wanted: Any, have: Any) -> bool:
    if isinstance(wanted, bytes):
        return isinstance(have, bytes) and bool(wanted == have)
    array = np.asarray(have)
    alike = array.dtype == wanted.dtype and array.shape == wanted.shape
    return bool(alike and array.tobytes() == wanted.tobytes())
