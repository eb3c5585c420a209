#!/usr/bin/env bash
# L3: sixty steps after which the policy answers what it got wrong before
# (contract: learning.contract.toml; picture: artifacts/curve.svg; docs/learning.md).
source functional/lib.sh

# Also of a run that failed: its curve shows how far it came. A run without a step has no metrics.
draw() {
    if [[ -e $EXACTHEAD_ITEM_FOLDER/metrics.jsonl ]]; then
        "$EXACTHEAD_PYTHON_PLOT" -m posttrain.metrics.curve \
            "$EXACTHEAD_ITEM_FOLDER/metrics.jsonl" "$EXACTHEAD_ARTIFACTS/curve.svg" \
            --title "Learning what plus, minus and times mean"
    fi
}
trap draw EXIT

train "$EXACTHEAD_RECIPE" "${overrides[@]}"
