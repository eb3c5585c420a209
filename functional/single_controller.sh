#!/usr/bin/env bash
# L3: five steps of the single controller over TransferQueue. The leg `capture` rebuilds every row
# from staged tokens; `agreement` runs both ways and compares what they trained on, step by step.
source functional/lib.sh

recipe=functional/recipes/single_controller.yaml
on=(
    token_capture.enabled=true
    token_capture.deadline_s=10
    token_capture.gate_memory_mb=1024
    token_capture.turns=2
)

leg=$1
case $leg in
    flag_off) single_controller "$recipe" ;;
    capture) single_controller "$recipe" "${on[@]}" ;;
    agreement)
        plain=$EXACTHEAD_ARTIFACTS/plain captured=$EXACTHEAD_ARTIFACTS/captured
        EXACTHEAD_ITEM_FOLDER=$plain single_controller "$recipe" run.steps=2
        EXACTHEAD_ITEM_FOLDER=$captured EXACTHEAD_PYTHON_GENERATION=$EXACTHEAD_PYTHON_CAPTURING \
            single_controller "$recipe" run.steps=2 "${on[@]}"
        "$EXACTHEAD_PYTHON_POLICY" -m posttrain.capture.agreement \
            "$plain/samples.jsonl" "$captured/samples.jsonl" "$EXACTHEAD_ITEM_FOLDER"
        ;;
    *)
        echo "no leg $leg" >&2
        exit 2
        ;;
esac
