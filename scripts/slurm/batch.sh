#!/usr/bin/env bash
# What a job runs, on its first node: one srun step with all ranks. Submitted by common.sh:
#
#   batch.sh SLURM_DIR CLUSTER_ENV LOG REQUEUE CONTINUE_WITH prepcli|python ARGUMENTS
#
# Exit code: the ranks' highest. 4 means interrupted: with REQUEUE the job then goes back into the queue.
set -uo pipefail
# shellcheck disable=SC2034 # cluster.env may want it
slurm_dir=$1
cluster_env=$2 log=$3 requeue=$4 continue_with=$5 word=$6
shift 6
# shellcheck source=/dev/null
source "$cluster_env"

# The last task of an array has the id of the array as SLURM_JOB_ID: requeueing that would requeue all tasks.
job=$SLURM_JOB_ID rank=%t
if [[ -n ${SLURM_ARRAY_TASK_ID:-} ]]; then
    job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID rank=$SLURM_ARRAY_TASK_ID
fi
case $word in
    prepcli) program=("${PREPCLI[@]}") ;;
    python) program=("${PYTHON[@]}") ;;
    *)
        echo "batch.sh: a step begins with prepcli or python, not $word" >&2
        exit 2
        ;;
esac
export PREPCLI_CONTINUE_WITH=$continue_with
restarts=${SLURM_RESTART_COUNT:-0}
say() { printf '%s job %s: %s\n' "$(date +%Y-%m-%dT%H:%M:%S)" "$job" "$*"; }

# Ranks end at different times, and the failure of one does not stop the others, whatever the defaults of the site are.
step=(srun "--ntasks=$SLURM_NTASKS" "--cpus-per-task=${SLURM_CPUS_PER_TASK:-1}" --wait=0 --kill-on-bad-exit=0
    --open-mode=append "--output=$log-$job-rank$rank.log")
if [[ -n $CONTAINER_IMAGE ]]; then step+=("--container-image=$CONTAINER_IMAGE"); fi
if [[ -n $CONTAINER_MOUNTS ]]; then step+=("--container-mounts=$CONTAINER_MOUNTS"); fi

activate || exit 1
say "start $((restarts + 1)) on $SLURM_JOB_NODELIST, $SLURM_NTASKS ranks: ${program[*]} $*"
say "logs of the ranks: $log-$job-rank${rank/\%t/*}.log"
"${step[@]}" "${program[@]}" "$@"
code=$?
say "ended with exit code $code after $SECONDS s"
if ((code == 4)) && [[ $requeue == 1 ]]; then
    if ((restarts < MAX_RESTARTS)); then
        say "interrupted: back into the queue, to continue"
        scontrol requeue "$job"
    else
        say "interrupted, and restarted $restarts times already (MAX_RESTARTS): giving up"
    fi
fi
exit "$code"
