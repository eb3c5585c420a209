"""Secrets by pattern: a program for a worker's interpreter, over the library detect_secrets.

Reads paths as JSON from standard input, relative to the working folder, and writes findings as
JSON: ``[path, line, rule, words]`` each, never the secret itself. What is only random or only
called "password" is left to people: checked-in digests are random too. A line that ends in
``# pragma: allowlist secret`` is passed over.
"""

from __future__ import annotations

import json
import sys
from typing import Any

# By the look of the text alone, whatever its form.
_GUESSING = frozenset({"Base64HighEntropyString", "HexHighEntropyString", "KeywordDetector"})
# Digits of any kind look like these.
_TOO_WIDE = frozenset({"IPPublicDetector", "IbmCloudIamDetector", "IbmCosHmacDetector"})
_FILTERS = (
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_templated_secret",
)


def scan(paths: list[str]) -> list[tuple[str, int, str, str]]:
    """The secrets in files; nobody is asked whether they are valid."""
    from detect_secrets.core.plugins.util import (
        get_mapping_from_secret_type_to_class,
    )
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import (
        transient_settings,
    )

    known: dict[str, Any] = get_mapping_from_secret_type_to_class()
    names = {kind.__name__ for kind in known.values()} - _GUESSING - _TOO_WIDE
    settings = {
        "plugins_used": [{"name": name} for name in sorted(names)],
        "filters_used": [{"path": path} for path in _FILTERS],
    }
    with transient_settings(settings):
        return [
            (path, secret.line_number, "secrets", f"this looks like a secret: {secret.type}")
            for path in paths
            for secret in scan_file(path)
        ]


if __name__ == "__main__":
    json.dump(scan(json.load(sys.stdin)), sys.stdout)
