#!/usr/bin/env bash
# L3: the single controller with token capture, broken on purpose; a leg is one fault
# (functional/faults/legs.py; contract: single_controller_chaos.contract.toml).
source functional/lib.sh

"$EXACTHEAD_PYTHON_POLICY" -m functional.faults "$1"
