"""``python -m exacthead.images.inside.workers ORDER.json``: the store at work in an image."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

from exacthead.errors import HarnessError
from exacthead.workers.local import LocalPackage
from exacthead.workers.spec import Interpreter, Spec
from exacthead.workers.store import Store

_KEPT = ("UV_CACHE_DIR", "UV_DEFAULT_INDEX", "UV_INDEX", "SSL_CERT_FILE", "UV_PYTHON_DOWNLOADS")


def main() -> None:
    """Build what the order says."""
    order_file = Path(sys.argv[1])
    order = json.loads(order_file.read_text(encoding="utf-8"))
    store = Store(Path(order["root"]))
    # Hashes of sets decide what byte code looks like.
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    for each in order["workers"]:
        spec = read_spec(each["spec"])
        if spec.key != each["key"]:
            raise HarnessError(
                f"worker {spec.name!r} of key {each['key']}",
                f"its spec has key {spec.key}",
                "the order and this harness are of two versions: write it again",
            )
        built = store.ensure(
            spec,
            progress=partial(_tell, spec.name),
            uv_arguments=tuple(each["uv_arguments"]),
            uv_environment={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], **environment},
            patches=tuple(order_file.parent / path for path in each["patches"]),
            local_packages={
                name: LocalPackage(order_file.parent / path)
                for name, path in each["local_packages"].items()
            },
        )
        _say(f"worker {spec.name}: {built.key[:12]} at {built.root}")


def read_spec(data: dict[str, Any]) -> Spec:
    """A spec from its JSON form."""
    interpreter = Interpreter(**{**data["interpreter"], "path": Path(data["interpreter"]["path"])})
    fields = {
        **data,
        "interpreter": interpreter,
        "environment": tuple((name, value) for name, value in data["environment"]),
        "local_packages": tuple((name, digest) for name, digest in data["local_packages"]),
    }
    for name in ("patches", "sources", "probes", "notes"):
        fields[name] = tuple(data[name])
    return Spec(**fields)


def _tell(worker: str, stage: str) -> None:
    _say(f"worker {worker}: {stage}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.stderr.write(f"exacthead: {error}\n")
        sys.exit(1)
