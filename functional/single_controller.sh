#!/usr/bin/env bash
# L3: five steps of the single controller over TransferQueue (contract:
# single_controller.contract.toml). The leg `capture` rebuilds every row from staged tokens.
source functional/lib.sh

leg=$1
case $leg in
flag_off) single_controller functional/recipes/single_controller.yaml ;;
capture)
    single_controller functional/recipes/single_controller.yaml \
        token_capture.enabled=true \
        token_capture.deadline_s=10 \
        token_capture.gate_memory_mb=1024 \
        token_capture.turns=2
    ;;
*)
    echo "no leg $leg" >&2
    exit 2
    ;;
esac
