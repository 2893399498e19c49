#!/usr/bin/env bash
# Runs the pipeline of a config.yaml on this machine: the steps of each data set one after the other, on all CPU cores
# and GPUs. On a Slurm cluster: scripts/slurm/submit_pipeline.sh with the same config.
#
#   recipes/magpietts/run.sh my_config.yaml                # all data sets
#   recipes/magpietts/run.sh my_config.yaml libritts mine  # these
#
# A data set that fails does not stop the others. Run it again to continue: finished steps do nothing.
# PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${PREPCLI_PYTHON:-$root/.venv/bin/python}
if (($# == 0)) || [[ $1 == -h || $1 == --help ]]; then
    sed -n '2,9s/^# \?//p' "${BASH_SOURCE[0]}"
    exit $(($# == 0 ? 2 : 0))
fi

steps=$("$python" "$root/scripts/slurm/pipeline_steps.py" "$@") || exit 2
failed=""
while IFS= read -r line; do
    # Every word of the line is quoted by pipeline_steps.py: DATA_SET STEP KIND [SBATCH OPTIONS] -- COMMAND
    eval "words=($line)"
    data_set=${words[0]} step=${words[1]}
    if [[ $failed == *" $data_set."* ]]; then continue; fi
    while [[ ${words[0]} != -- ]]; do words=("${words[@]:1}"); done
    command=("$python" "${words[@]:2}")
    if [[ ${words[1]} == prepcli ]]; then command=("$python" -m prepcli "${words[@]:2}"); fi
    printf '\n== %s: %s\n' "$data_set" "$step"
    "${command[@]}" </dev/null || failed+=" $data_set.$step"
done <<<"$steps"

if [[ -n $failed ]]; then
    printf '\nfailed, and the steps after it left out:%s\n' "$failed" >&2
    exit 1
fi
