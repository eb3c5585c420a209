"""Only what is known to mean nothing is kept out of the log."""

from __future__ import annotations

import logging

import pytest

from posttrain.generation.noise import EXPECTED, Expected, drop_expected_warnings, is_news


def record(logger: str, message: str, *values: object) -> logging.LogRecord:
    return logging.LogRecord(logger, logging.WARNING, __file__, 1, message, values, None)


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda each: each.beginning)
def test_an_expected_warning_is_dropped_and_its_reason_is_stated(expected: Expected) -> None:
    assert not is_news(record(expected.logger, f"{expected.beginning} and so on"))
    assert is_news(record("another.logger", expected.beginning))
    assert is_news(record(expected.logger, f"really: {expected.beginning}"))
    assert expected.reason


def test_values_are_put_in_before_a_message_is_judged() -> None:
    logger = "vllm.model_executor.model_loader.reload.layerwise"
    message = "%s: Failed to load weights"
    assert not is_news(record(logger, message, "RotaryEmbedding"))
    assert is_news(record(logger, message, "Linear"))


def test_the_loggers_of_the_process_drop_them(caplog: pytest.LogCaptureFixture) -> None:
    drop_expected_warnings()
    drop_expected_warnings()
    logger = logging.getLogger("torch.utils.flop_counter")
    logger.warning("triton not found; flop counting will not work for triton kernels")
    logger.warning("something else")
    assert len(logger.filters) == 1
    assert "triton" not in caplog.text
