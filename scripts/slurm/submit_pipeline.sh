#!/usr/bin/env bash
# Submits the steps of several data sets, those of one data set after each other; a data set that fails stops no other.
#
#   submit_pipeline.sh CONFIG.yaml                    # all data sets
#   submit_pipeline.sh CONFIG.yaml libritts hifitts   # these
#   submit_pipeline.sh --dry-run CONFIG.yaml          # prints the sbatch lines
#
# What CONFIG.yaml looks like: recipes/magpietts/config.yaml. What is finished is a quiet no-op: after a failure was
# mended, submit the same again. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

dry_run=()
arguments=()
for word in "$@"; do
    case $word in
        -h | --help)
            sed -n '2,9s/^# \?//p' "${BASH_SOURCE[0]}"
            exit 0
            ;;
        --dry-run) dry_run=(--dry-run) ;;
        -*) die "unknown option: $word" ;;
        *) arguments+=("$word") ;;
    esac
done
((${#arguments[@]})) || die "which pipeline? submit_pipeline.sh CONFIG.yaml [DATA_SET...]"
steps=$("${SUBMIT_PYTHON[@]}" "$slurm_dir/pipeline_steps.py" "${arguments[@]}") || exit 2

failed=()
data_set="" previous=""
while IFS= read -r line; do
    # Every word of the line is quoted by pipeline_steps.py: DATA_SET STEP KIND [SBATCH OPTIONS] -- COMMAND
    eval "words=($line)"
    if [[ ${words[0]} != "$data_set" ]]; then
        data_set=${words[0]} previous=""
    elif [[ -z $previous ]]; then
        continue # a step before could not be submitted
    fi
    after=()
    # Never satisfied, when the step before fails: then the job leaves the queue by itself.
    if [[ -n $previous ]]; then after=("--dependency=afterok:$previous" --kill-on-invalid-dep=yes); fi
    submitted_with=("$slurm_dir/submit_pipeline.sh" "${arguments[0]}" "$data_set")
    if submit "${words[2]}" "$data_set" "${words[1]}" ${dry_run[@]+"${dry_run[@]}"} ${after[@]+"${after[@]}"} \
        "${words[@]:3}"; then
        previous=$job
    else
        previous=""
        failed+=("$data_set.${words[1]}")
    fi
done <<<"$steps"

if ((${#failed[@]})); then
    printf 'submit_pipeline.sh: not submitted, with the steps after: %s\n' "${failed[*]}" >&2
    exit 1
fi
