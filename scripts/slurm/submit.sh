#!/usr/bin/env bash
# Submits a prepcli command as a Slurm job: submit.sh COMMAND [--dry-run] [SBATCH OPTIONS --] ARGUMENTS
#
#   submit.sh manifest-to-tarred train.json tarred --num-shards 512
#   submit.sh manifest-to-tarred --ntasks=32 --time=1:00:00 -- train.json tarred --num-shards 512
#   submit.sh manifest-to-shar --array=0-15 -- train.json shar
#   submit.sh extend-context-audio --dry-run -- train.json context     # prints the sbatch line
#
# Without a --, all arguments but --dry-run belong to the command. Commands with a model and manifest-to-mels run on the GPU partition, one
# rank per GPU; the others on the CPU partition. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

case ${1:-} in
    "" | -h | --help)
        sed -n '2,10s/^# \?//p' "${BASH_SOURCE[0]}"
        exit 0
        ;;
esac
command=$1
shift
if [[ $command == -* ]]; then die "COMMAND comes first: submit.sh COMMAND $command -- ARGUMENTS"; fi
is_command "$command" \
    || die "'$command' is not a command of prepcli (prepcli --help lists them): submit.sh COMMAND [SBATCH OPTIONS --] ARGUMENTS"

kind=cpu
case $command in
    extend-context-audio | extend-codec-codes | manifest-to-mels | estimate-batch-sizes) kind=gpu ;; # as in pipeline_steps.py
    find-duplicates) if has_word --speaker-model "$@"; then kind=gpu; fi ;;
esac
options=()
if has_word -- "$@"; then
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
elif has_word --dry-run "$@"; then
    options=(--dry-run)
    arguments=()
    for word in "$@"; do
        if [[ $word != --dry-run ]]; then arguments+=("$word"); fi
    done
    set -- ${arguments[@]+"${arguments[@]}"}
fi
(($#)) || die "$command needs arguments: prepcli $command --help lists them"
if has_word --dry-run ${options[@]+"${options[@]}"}; then note_missing_prepcli; fi
wrong=$(wrong_sbatch_option ${options[@]+"${options[@]}"})
[[ -z $wrong ]] || die "$wrong"
wrong=$(wrong_option prepcli "$command" "$@")
[[ -z $wrong ]] || die "$wrong; options of sbatch stand before a --: submit.sh $command --ntasks=8 -- ARGUMENTS"
if has_word --dry-run ${options[@]+"${options[@]}"}; then note_missing_input "$command" "$1"; fi
submit "$kind" "${DATA_SET:-$(stem "$1")}" "$command" ${options[@]+"${options[@]}"} -- prepcli "$command" "$@"
