#!/usr/bin/env bash
# L3: five steps of the single controller over TransferQueue. The leg `capture` rebuilds every row
# from staged tokens; `agreement` runs both ways and compares what they trained on, step by step.
source functional/lib.sh

recipe=$EXACTHEAD_RECIPE

leg=$1
case $leg in
    flag_off | capture) single_controller "$recipe" "${overrides[@]}" ;;
    agreement)
        plain=$EXACTHEAD_ARTIFACTS/plain captured=$EXACTHEAD_ARTIFACTS/captured
        EXACTHEAD_ITEM_FOLDER=$plain single_controller "$recipe" run.steps=2
        EXACTHEAD_ITEM_FOLDER=$captured EXACTHEAD_PYTHON_GENERATION=$EXACTHEAD_PYTHON_CAPTURING \
            single_controller "$recipe" run.steps=2 "${overrides[@]}"
        "$EXACTHEAD_PYTHON_POLICY" -m posttrain.capture.agreement \
            "$plain/samples.jsonl" "$captured/samples.jsonl" "$EXACTHEAD_ITEM_FOLDER"
        ;;
    *)
        echo "no leg $leg" >&2
        exit 2
        ;;
esac
