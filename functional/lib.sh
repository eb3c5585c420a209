# Shared by the functional jobs, which are started by `nox -s functional_<job>` with the repository's
# root as working directory and the variables that docs/runs.md lists.
# shellcheck shell=bash
set -euo pipefail

: "${EXACTHEAD_ITEM_FOLDER:?start this job with nox -s functional_<job>}"

# The recipe that harness.toml declares for the job is $EXACTHEAD_RECIPE; these are the leg's
# overrides of it, one a line there, for the scripts that source this.
overrides=()
if [[ -n ${EXACTHEAD_OVERRIDES-} ]]; then
    # shellcheck disable=SC2034
    mapfile -t overrides <<<"$EXACTHEAD_OVERRIDES"
fi

# train RECIPE [KEY=VALUE ...]: one training run in the leg's own workers, into the item's folder.
train() { train_with posttrain.train "$@"; }

# single_controller RECIPE [KEY=VALUE ...]: the same by the single controller.
single_controller() { train_with posttrain.single_controller "$@"; }

# train_with MODULE RECIPE [KEY=VALUE ...]: Ray's folder lies where the harness takes its logs from
# when the leg is red.
train_with() {
    local module=$1 recipe=$2
    shift 2
    "$EXACTHEAD_PYTHON_POLICY" -m "$module" "$recipe" \
        "run.dir=$EXACTHEAD_ITEM_FOLDER" \
        "run.seed=$EXACTHEAD_SEED" \
        "cluster.temp_dir=$RAY_TMPDIR/ray" \
        "interpreters.policy=$EXACTHEAD_PYTHON_POLICY" \
        "interpreters.generation=$EXACTHEAD_PYTHON_GENERATION" \
        "interpreters.gym=$EXACTHEAD_PYTHON_GYM" \
        "$@"
}

# verify RECIPE [KEY=VALUE ...]: verdicts of Gym's verifiers, in the gym worker alone.
verify() {
    local recipe=$1
    shift
    "$EXACTHEAD_PYTHON_GYM" -m posttrain.verify "$recipe" \
        "run.dir=$EXACTHEAD_ITEM_FOLDER" \
        "interpreters.gym=$EXACTHEAD_PYTHON_GYM" \
        "$@"
}

# accept RECIPE [KEY=VALUE ...]: rollouts without training, in the generation and gym workers.
accept() {
    local recipe=$1
    shift
    "$EXACTHEAD_PYTHON_GENERATION" -m posttrain.accept "$recipe" \
        "run.dir=$EXACTHEAD_ITEM_FOLDER" \
        "run.seed=$EXACTHEAD_SEED" \
        "cluster.temp_dir=$RAY_TMPDIR/ray" \
        "interpreters.generation=$EXACTHEAD_PYTHON_GENERATION" \
        "interpreters.gym=$EXACTHEAD_PYTHON_GYM" \
        "$@"
}
