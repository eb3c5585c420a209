"""What tests write arrives whole, whatever bytes it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from exacthead import junit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from unit.exacthead.units.small import Suite

FILE = "tests/test_words.py"
WORDS = """
    import os, subprocess, sys, time
    import pytest

    @pytest.fixture
    def loud():
        print("from setup")
        yield
        sys.stderr.write("from teardown")

    def test_split():
        for byte in "€".encode():
            os.write(1, bytes([byte]))
            time.sleep(0.01)
    def test_invalid(): os.write(2, b"a\\xffb\\xe2\\x82 end")
    def test_control(): print("\\x00\\x1b[31mred\\x1b[0m\\x08\\r", end="")
    def test_long():
        sys.stdout.write("x" * 1_000_000 + "€" * 100_000)
        assert False, "y" * 5000
    def test_child(): subprocess.run(["sh", "-c", "printf out; printf err >&2"], check=True)
    def test_kept_by_capsys(capsys): print("never read")
    def test_kept_by_capfd(capfd):
        os.write(1, b"gone")
        capfd.readouterr()
        os.write(1, b"\\xfe raw")
    def test_phases(loud): print("from call")
    def test_silent(): pass
    @pytest.mark.parametrize("name", ["\\ud800", "ü", "a\\nb", "<&>"])
    def test_named(name): print(ascii(name))
"""


def ids(*names: str) -> tuple[str, ...]:
    return tuple(f"{FILE}::test_{name}" for name in names)


def test_every_byte_arrives_in_its_phase(suite: Callable[[Mapping[str, str]], Suite]) -> None:
    plain = ("split", "invalid", "control", "long", "child", "kept_by_capsys", "kept_by_capfd")
    names = (*plain, "phases", "silent", r"named[\ud800]", r"named[\xfc]", r"named[a\nb]")
    here = suite({FILE: WORDS})
    ran = here.run(here.order(ids(*names)))
    assert list(ran.kinds.values()).count("passed") == len(names) - 1
    split, invalid, control, long, child, capsys, capfd, phases, silent, *named = ids(*names)
    assert ran.written(split) == "€"
    assert ran.written(invalid, stream="stderr") == r"a\xffb\xe2\x82 end"
    assert ran.written(control) == "\x00\x1b[31mred\x1b[0m\x08\r"
    assert ran.written(long) == "x" * 1_000_000 + "€" * 100_000
    assert "y" * 5000 in ran.results[long].attempts[0].causes[0].text
    assert len(ran.results[long].verdict.reason) <= 400
    assert (ran.written(child), ran.written(child, stream="stderr")) == ("out", "err")
    assert ran.written(capsys) == "never read\n"
    assert ran.written(capfd) == r"\xfe raw"
    assert [(o.phase, o.stream, o.text) for o in ran.results[phases].attempts[0].outputs] == [
        ("setup", "stdout", "from setup\n"),
        ("call", "stdout", "from call\n"),
        ("teardown", "stderr", "from teardown"),
    ]
    assert ran.results[silent].attempts[0].outputs == ()
    assert [ran.written(each) for each in named] == ["'\\ud800'\n", "'\\xfc'\n", "'a\\nb'\n"]
    stream = (ran.item / "artifacts/tests/process-0001.jsonl").read_bytes()
    assert max(map(len, stream.splitlines())) < 6 * 65536 + 1000


@pytest.mark.parametrize(("capture", "both"), [("no", True), ("sys", False)], ids=["no", "sys"])
def test_without_captured_descriptors_the_log_is_sliced_and_that_is_said(
    suite: Callable[[Mapping[str, str]], Suite], capture: str, both: bool
) -> None:
    here = suite({FILE: WORDS})
    names = ids("invalid", "child", "phases", "silent")
    ran = here.run(here.order(names, arguments=(f"--capture={capture}",)))
    assert set(ran.kinds.values()) == {"passed"}
    assert ran.written(names[0]) == r"a\xffb\xe2\x82 end"
    assert ran.written(names[1]) == "outerr"
    assert ran.written(names[2]) == "from call\n"
    stream = "stdout" if both else "stderr"
    assert ran.written(names[2], phase="teardown", stream=stream) == "from teardown"
    assert ran.results[names[3]].attempts[0].outputs == ()
    assert f"process 1: pytest's capture was '{capture}'" in ran.reading.notes[0]


def test_what_no_encoding_has_is_spelt_out_and_ends_no_shard(
    suite: Callable[[Mapping[str, str]], Suite],
) -> None:
    file = "tests/test_half.py"
    here = suite(
        {
            file: """
                import pytest
                def test_half(record_property):
                    record_property("path", "\\udcff")
                    assert False, "half \\ud83d and whole \\U0001f600"
                @pytest.mark.xfail(reason="\\udc80")
                def test_xfail(): assert 0
                def test_ends(): pytest.exit("\\udc81")
            """
        }
    )
    names = ("half", "xfail", "ends")
    half, xfail, ends = (f"{file}::test_{name}" for name in names)
    ran = here.run(here.order((half, xfail, ends)))
    said = "AssertionError: half \\ud83d and whole \U0001f600"
    assert ran.verdicts == {
        half: f"failed({said})",
        xfail: "skipped(xfail: \\udc80)",
        ends: "failed(it ended pytest: pytest.exit: \\udc81)",
    }
    assert f"FAILED {half} - {said}" in ran.said
    assert ran.results[half].properties == {"path": "\\udcff"}
    assert (ran.code, ran.reading.complete) == (1, True)
    junit.write_results(ran.item / "junit.xml", "half", ran.reading.results, {}, 1.0)
    assert "half \\ud83d" in (ran.item / "junit.xml").read_text(encoding="utf-8")
