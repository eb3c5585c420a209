"""Secrets by pattern: a program for a worker's interpreter, over the library detect_secrets.

Reads paths as JSON from standard input, relative to the working folder, and writes findings as
JSON: ``[path, line, rule, words]`` each, never the secret itself. What is only random or only
called "password" is left to people: checked-in digests are random too. A line that ends in
``# pragma: allowlist secret`` is passed over.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

# By the look of the text alone, whatever its form.
_GUESSING = frozenset({"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"})
# Digits of any kind look like these.
_TOO_WIDE = frozenset({"IPPublicDetector", "IbmCloudIamDetector", "IbmCosHmacDetector"})
_FILTERS = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_templated_secret",
)
_IN_ADDRESS = "Basic Auth Credentials"
_HOST = re.compile(r"://[^\s/@:]+:[^\s/@]+@([^\s/:?#\"']*)")
# Hosts that nobody can have (RFC 2606, RFC 6761), and those that are filled in later.
_NOBODY_S = re.compile(
    r"[{$<].*|(.+\.)?(test|example|invalid|localhost|example\.(com|net|org))|127\.0\.0\.1"
)


def scan(paths: list[str]) -> list[tuple[str, int, str, str]]:
    """The secrets in files; nobody is asked whether they are valid."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.settings import transient_settings

    known: dict[str, Any] = get_mapping_from_secret_type_to_class()
    names = {kind.__name__ for kind in known.values()} - _GUESSING - _TOO_WIDE
    settings = {
        "plugins_used": [{"name": name} for name in sorted(names)],
        "filters_used": [{"path": path} for path in _FILTERS],
    }
    with transient_settings(settings):
        return [
            (path, line, "secrets", f"this looks like a secret: {kind}")
            for path in paths
            for line, kind in secrets_in(path)
        ]


def secrets_in(path: str) -> list[tuple[int, str]]:
    """Line and kind of each secret in a file, also in one that is no UTF-8."""
    from detect_secrets.core.scan import scan_file, scan_line

    content = Path(path).read_bytes()
    lines = content.decode(errors="replace").split("\n")
    try:
        content.decode()
    except UnicodeDecodeError:
        # The library passes over a file that it cannot decode.
        found = [
            (number, secret.type)
            for number, line in enumerate(lines, start=1)
            for secret in scan_line(line)
        ]
    else:
        found = [(secret.line_number, secret.type) for secret in scan_file(path)]
    return sorted(
        {
            (number, kind)
            for number, kind in found
            if not (kind == _IN_ADDRESS and nobody_s(lines[number - 1]))
        }
    )


def nobody_s(line: str) -> bool:
    """Whether all addresses with a password in a line are of hosts that are nobody's."""
    hosts = _HOST.findall(line)
    return bool(hosts) and all(_NOBODY_S.fullmatch(host) for host in hosts)


if __name__ == "__main__":
    json.dump(scan(json.load(sys.stdin)), sys.stdout)
