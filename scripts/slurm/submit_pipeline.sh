#!/usr/bin/env bash
# Submits the steps of several data sets. Steps of one data set wait for each other; other data sets are independent.
#
#   submit_pipeline.sh CONFIG.yaml                    # all data sets
#   submit_pipeline.sh CONFIG.yaml libritts hifitts   # these
#   submit_pipeline.sh --dry-run CONFIG.yaml          # prints a table of the steps (stderr) and the sbatch lines
#
# recipes/magpietts/config.yaml explains CONFIG.yaml. After a failure, repair the cause and submit the same again:
# finished steps do nothing. Settings of the site: cluster.env. See README.md.
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
needs_program SUBMIT_PYTHON "${SUBMIT_PYTHON[0]}" || exit 2
steps=$("${SUBMIT_PYTHON[@]}" "$slurm_dir/pipeline_steps.py" "${arguments[@]}") || exit 2
if ((${#dry_run[@]})); then
    "${SUBMIT_PYTHON[@]}" "$slurm_dir/pipeline_table.py" "$CPU_TASKS" "$GPU_TASKS" <<<"$steps" >&2
    note_missing_prepcli
    printf '\n' >&2
fi

# A wrong option of the last step would be found after the steps with a model. Steps that differ in paths only are
# checked once.
declare -A checked=()
wrong=0
while IFS= read -r line; do
    eval "words=($line)"
    options=()
    while [[ ${words[3]} != -- ]]; do
        options+=("${words[3]}")
        words=("${words[@]:0:3}" "${words[@]:4}")
    done
    found=$(wrong_sbatch_option ${options[@]+"${options[@]}"})
    if [[ -n $found && -z ${checked[${words[1]}: $found]:-} ]]; then
        checked[${words[1]}: $found]=1
        printf 'submit_pipeline.sh: step %s of %s: %s\n' "${words[1]}" "${words[0]}" "$found" >&2
        wrong=1
    fi
    names=${words[*]:4:2}
    for word in "${words[@]:6}"; do
        if [[ $word == -*=*/* ]]; then word=${word%%=*}; fi
        if [[ $word != */* ]]; then names+=" $word"; fi
    done
    if [[ -n ${checked[$names]:-} ]]; then continue; fi
    checked[$names]=1
    found=$(wrong_option "${words[@]:4}")
    if [[ -n $found && -z ${checked[${words[1]}: $found]:-} ]]; then
        checked[${words[1]}: $found]=1 # said once of a step, not for every data set
        printf 'submit_pipeline.sh: step %s of %s: %s\n' "${words[1]}" "${words[0]}" "$found" >&2
        wrong=1
    fi
done <<<"$steps"
if ((wrong)); then exit 2; fi

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
    # If the step before fails, the dependency is never satisfied, and the job leaves the queue.
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
    printf 'submit_pipeline.sh: not submitted, and neither are the steps after: %s\n' "${failed[*]}" >&2
    exit 1
fi
