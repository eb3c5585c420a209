"""Masking: by value in every spelling, by form, across any border, in files of any size."""

from __future__ import annotations

import base64
import json
import os
import stat
from itertools import pairwise
from typing import TYPE_CHECKING
from urllib.parse import quote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from exacthead.mask import SHORTEST, Masker, masked
from exacthead.tables import Secrets

if TYPE_CHECKING:
    from pathlib import Path

VALUE = 'open "sesame" & <co>'
LONG = "A1b2" * 9
# Put together here, so that no scanner of sources takes them for real ones.
TOKENS = [
    *(f"gh{kind}_{LONG}" for kind in "pousr"),
    f"github_pat_{LONG}",
    f"glpat-{LONG}",
    f"hf_{LONG}",
    f"sk-{LONG}",
    f"nvapi-{LONG}",
    f"pypi-{LONG * 2}",
    "xoxb-" + "1234567890-abcdef",
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ASIA" + "ABCDEFGHIJKLMNOP",
    f"eyJ{LONG}.eyJ{LONG}.{LONG}",
]
KEY = f"""-----BEGIN RSA PRIVATE KEY-----
{LONG}
{LONG}==
-----END RSA PRIVATE KEY-----
after
"""


def of(*values: str, patterns: tuple[str, ...] = ()) -> Masker:
    return Masker.of(Secrets(patterns=patterns), {}, values)


def streamed(masker: Masker, text: str, *at: int) -> str:
    """The text masked in pieces that are cut at the given bytes."""
    data, stream = text.encode(), masker.stream()
    borders = [0, *sorted(each % (len(data) + 1) for each in at), len(data)]
    pieces = [data[a:b] for a, b in pairwise(borders)]
    return b"".join([*map(stream.feed, pieces), stream.finish()]).decode()


@pytest.mark.parametrize(
    "spelling",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        escape(VALUE),
        escape(VALUE, {'"': "&quot;"}),
        quote(VALUE, safe=""),
        base64.b64encode(VALUE.encode()).decode(),
    ],
)
def test_a_value_is_masked_however_it_is_spelt(spelling: str) -> None:
    assert of(VALUE).text(f"a {spelling} b") == "a *** b"


def test_declared_variables_are_looked_up_and_short_ones_are_said() -> None:
    secrets = Secrets(names=("TOKEN", "PIN", "UNSET", "EMPTY"))
    masker = Masker.of(secrets, {"TOKEN": "hunter22", "PIN": "1234", "EMPTY": "", "PATH": "/bin/x"})

    assert masker.text("hunter22 1234 /bin/x") == "*** 1234 /bin/x"
    assert masker.unfit == ("PIN",)
    assert masker.holds_value("a hunter22 b")
    assert not masker.holds_value("1234")


# What tests of masking are called, at their worst, and what stands around it in a file.
PIECES = st.sampled_from(
    ['"', "\\", "\n", "\\n", "&", "<", "@", ":", "://", " ", "a", "=", LONG, KEY, *TOKENS,
     "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Bearer ", "u:p"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
@example(f'["-----BEGIN PRIVATE KEY-----\\n{LONG}\\n"]')
def test_no_form_takes_a_part_of_what_json_or_xml_is_made_of(text: str) -> None:
    masker = of()

    assert isinstance(json.loads(masker.text(json.dumps([text, "next"]))), list)
    assert isinstance(json.loads(masker.text(json.dumps(json.dumps([text])))), str)
    attribute = escape(text, {'"': "&quot;", "\n": "&#10;"})
    parsed = ET.fromstring(masker.text(f'<a b="{attribute}">{escape(text)}</a>'))  # noqa: S314 - made here
    assert parsed.tag == "a"


def test_a_value_of_several_lines_is_masked_line_by_line() -> None:
    masker = of("first-half\nsecond-half\nx")

    assert masker.text("a first-half\nb second-half\nx") == "a ***\nb ***\nx"


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("around", ["{}", "token={} next", '{{"key": "{}"}}', "a\n{}\nb", "({})"])
def test_a_token_of_a_known_form_is_masked(token: str, around: str) -> None:
    assert of().text(around.format(token)) == around.format("***")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://user:pa55@host/x", "https://***@host/x"),  # pragma: allowlist secret
        ("Authorization: Bearer abcdefghijklmnop.q", "Authorization: Bearer ***"),
        ("authorization: bearer abcdefghijklmnop", "authorization: bearer ***"),
        (f'"-----BEGIN PRIVATE KEY-----\\n{LONG}\\n"', '"-----BEGIN PRIVATE KEY-----***"'),
        (KEY, KEY.replace(f"{LONG}==", "***").replace(LONG, "***")),
    ],
)
def test_what_stands_around_a_secret_stays(text: str, expected: str) -> None:
    assert of().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "https://host:8080/x@y",
            "task-" + LONG,
            "a hf_short",
            "max_tokens=5",
            "sk-learn",
            "ghp_",
        ),
        "unit/test_a.py::test_b[AKIA]",
        f"digest sha256:{'0f' * 32}",
        "bearer of news",
        f"xsk-{LONG}",
        "\ud800 \x00 plain",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert of().text(text) == text


def test_a_repository_declares_its_own_forms() -> None:
    masker = of(patterns=(r"corp-[0-9]{8}+",))

    assert masker.text("id corp-12345678, corp-1") == "id ***, corp-1"


@pytest.mark.parametrize("pattern", ["(a", "a+", "a*+", "(?:)", "x?"])
def test_a_form_that_is_wrong_is_refused(pattern: str) -> None:
    with pytest.raises(ValidationError):
        Secrets(patterns=(pattern,))


_TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*TOKENS, VALUE, "\n", " ", "://", "Bearer ", "a@b", "-----END ", KEY]),
        st.text(max_size=5),
    ),
    max_size=8,
).map("".join)


@given(_TEXTS.map(lambda text: text.encode(errors="replace").decode()), st.lists(st.integers(0)))
@example(f"a {VALUE} b", [5])
@example(TOKENS[0], list(range(50)))
def test_pieces_are_masked_as_the_whole(text: str, at: list[int]) -> None:
    masker = of(VALUE)

    assert streamed(masker, text, *at) == masker.text(text)


@given(st.integers(0, 40_000), st.integers(0, 40_000), st.lists(st.integers(0, 99_999), max_size=4))
def test_no_secret_gets_through_a_line_that_does_not_end(
    before: int, after: int, at: list[int]
) -> None:
    """Longer than what is held back."""
    text = "." * before + VALUE + "." * after

    assert streamed(of(VALUE), text, *at) == "." * before + "***" + "." * after


def test_what_is_finished_is_given_out_at_once() -> None:
    stream = of(VALUE).stream()

    assert stream.feed(b"step 1\nstep ") == b"step 1\n"
    assert stream.feed(b"2\n") == b"step 2\n"
    assert stream.feed(b"no end") == b""
    assert stream.finish() == b"no end"


def test_a_large_file_is_masked_at_every_border_of_its_blocks(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    line = b"loss 0.5 https://host/x\n"
    block = (1 << 20) - 4
    content = (line * (block // len(line) + 1))[:block] + VALUE.encode() + b"\n" + line * 9
    path.write_bytes(content)
    path.chmod(0o640)

    assert of(VALUE).file(path)

    assert path.read_bytes() == content.replace(VALUE.encode(), b"***")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not of(VALUE).file(path)


def test_files_without_secrets_and_binary_ones_are_not_touched(tmp_path: Path) -> None:
    plain, binary = tmp_path / "plain", tmp_path / "binary"
    plain.write_text("loss 0.5", encoding="utf-8")
    binary.write_bytes(b"\0" + VALUE.encode())
    before = [path.stat().st_ino for path in (plain, binary)]

    assert of(VALUE).folder(tmp_path) == []

    assert [path.stat().st_ino for path in (plain, binary)] == before


def test_a_folder_is_masked_without_what_only_leads_out_of_it(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text(VALUE, encoding="utf-8")
    folder = tmp_path / "item"
    (folder / "artifacts/tests").mkdir(parents=True)
    (folder / "artifacts/tests/stream.jsonl").write_text(json.dumps({"a": VALUE}), "utf-8")
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")  # reading it would never end

    assert of(VALUE).folder(folder) == []

    stream = (folder / "artifacts/tests/stream.jsonl").read_text(encoding="utf-8")
    assert json.loads(stream) == {"a": "***"}
    assert outside.read_text(encoding="utf-8") == VALUE


def test_a_file_that_cannot_be_masked_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text(VALUE, encoding="utf-8")
    masker = of(VALUE)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkstemp", full)

    assert masker.tried(tmp_path / "gone") == []
    assert masker.folder(tmp_path) == [
        "secrets in log could not be masked: No space left on device"
    ]


def test_data_is_masked_in_texts_and_keys() -> None:
    data = {VALUE: [VALUE, 1, None, (f"a{VALUE}",)], "n": 1.5, "t": True}

    assert masked(data, of(VALUE)) == {"***": ["***", 1, None, ("a***",)], "n": 1.5, "t": True}


def test_a_short_value_is_never_looked_for() -> None:
    assert of("a" * (SHORTEST - 1)).values == ()
    assert of("a" * SHORTEST).text("b" + "a" * SHORTEST) == "b***"
