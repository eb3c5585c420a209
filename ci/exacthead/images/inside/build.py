"""Run by the Dockerfile: builds the workers of an image with the store that builds them outside.

``python3 build.py ORDER.json``. The order, written by :mod:`exacthead.images.context`, holds the
specs, so that the keys in the image are those that were planned. The store needs three packages of
its own, which are put beside it for the time of the build. Standard library only, until then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

_SECRETS = Path("/run/secrets")


def main() -> None:
    """Build every worker of the order; a failed one ends the build of the image."""
    order_file = Path(sys.argv[1])
    order = json.loads(order_file.read_text(encoding="utf-8"))
    root = Path(order["root"])
    context = order_file.parent
    environment = _environment(order, root, context)
    tools = root / "tools"
    python = tools / "bin" / "python"
    uv = str(context / "uv")
    _run(
        [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(tools)], environment
    )
    install = [uv, "pip", "install", "--quiet", "--python", str(python), *order["tools"]]
    _run([*install, *order["uv_arguments"]], environment)
    build = [str(python), "-B", "-m", "exacthead.images.inside.workers", str(order_file)]
    _run(build, {**environment, "PYTHONPATH": str(context / "harness")})
    # For tests that make environments of their own.
    shutil.copy(uv, "/usr/local/bin/uv")
    shutil.rmtree(tools)
    shutil.rmtree(root / "cache", ignore_errors=True)


def _environment(order: dict[str, object], root: Path, context: Path) -> dict[str, str]:
    """What uv and the store are called with; addresses and certificates come as secrets."""
    secret = _SECRETS / "sources"
    sources = json.loads(secret.read_text(encoding="utf-8")) if secret.exists() else {}
    certificates = _SECRETS / "certificates"
    if certificates.exists():
        sources["SSL_CERT_FILE"] = str(certificates)
    return {
        "PATH": f"{context}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",  # noqa: S108 - of the build's own container
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        # One file system for cache and workers: what two of them share is there once.
        "UV_CACHE_DIR": str(root / "cache"),
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
        "SOURCE_DATE_EPOCH": str(order["epoch"]),
        "PYTHONHASHSEED": "0",
        **sources,
    }


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode != 0:
        sys.stderr.write(f"build.py: {' '.join(command[:6])}: exit code {done.returncode}\n")
        raise SystemExit(done.returncode)


if __name__ == "__main__":
    os.umask(0o022)
    main()
