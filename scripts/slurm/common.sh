# Sourced by submit.sh and submit_pipeline.sh: makes a Slurm job of a prepcli command.
# shellcheck shell=bash disable=SC2153
set -euo pipefail
slurm_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cluster_env=$(realpath -m "${CLUSTER_ENV:-$slurm_dir/cluster.env}")

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 2
}

[[ -f $cluster_env && -r $cluster_env ]] \
    || die "cannot read $cluster_env: CLUSTER_ENV names the settings of your site; $slurm_dir/cluster.env is a file to copy"
trap 'die "$cluster_env is wrong, see the line above: it is shell code, with NAME=VALUE and no blanks around the ="' ERR
# shellcheck source=/dev/null
source "$cluster_env"
trap - ERR
for name in ACCOUNT LOG_DIR REQUEUE SIGNAL PYTHON PREPCLI SUBMIT_PYTHON CONTAINER_IMAGE {CPU,GPU}_{PARTITION,TASKS,CPUS_PER_TASK,TIME}; do
    [[ -v $name ]] || die "$cluster_env does not set $name; $slurm_dir/cluster.env has all names, to copy from"
    if [[ $name == *TASKS || $name == *_PER_TASK ]]; then
        [[ ${!name} =~ ^[1-9][0-9]*$ ]] || die "$cluster_env: $name=${!name} is not a number of 1 or more"
    fi
done

# needs_program VARIABLE PROGRAM: says what to do where cluster.env names a program that is not there.
needs_program() {
    if command -v "$2" >/dev/null; then return 0; fi
    local advice="name another one in $cluster_env"
    if [[ $2 == */.venv/bin/* ]]; then advice="run ${slurm_dir%/scripts/slurm}/scripts/setup.sh, or $advice"; fi
    printf '%s: there is no %s (%s of %s): %s\n' "$(basename "$0")" "$2" "$1" "$(basename "$cluster_env")" "$advice" >&2
    return 1
}

# Whether prepcli has a command of this name; without its source any name may be one.
is_command() {
    [[ $1 =~ ^[a-z][a-z0-9-]*$ ]] || return 1
    local list=${slurm_dir%/scripts/slurm}/prepcli/interface/commands.py
    [[ ! -f $list || $(<"$list") =~ _command\([[:space:]]*f?\"$1[\ \"] ]]
}

# In a dry run: says that the program of the jobs is not on this machine.
note_missing_prepcli() {
    if [[ -n $CONTAINER_IMAGE ]] || "${PREPCLI[@]}" --version >/dev/null 2>&1; then return 0; fi
    printf 'note: prepcli does not run on this machine (%s, from %s): run %s, or name another program there. ' \
        "$(quoted "${PREPCLI[@]}")" "$cluster_env" "${slurm_dir%/scripts/slurm}/scripts/setup.sh" >&2
    printf 'If only the nodes of the cluster have it, this is not a problem.\n' >&2
}

# note_missing_input COMMAND WORD: prints a note if WORD, the first argument of the command, is a path of nothing.
note_missing_input() {
    if [[ $1 == download || $1 == blend || $2 =~ ^- || $2 =~ [][{}()\<\>,=:] || -e $2 ]]; then return 0; fi
    printf 'note: %s is not there, as seen from %s on this machine; if only the nodes of the cluster have it, this is not a problem.\n' \
        "$2" "$PWD" >&2
}

# The long options of sbatch, of Slurm 20.11 to 25.05.
sbatch_options=" account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment consolidate-segments
    constraint container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
    dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid gpu-bind gpu-freq
    gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags help hint hold ignore-pbs input job-name kill-on-invalid-dep
    licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile
    nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode output overcommit
    oversubscribe parsable partition power prefer priority profile propagate qos quiet reboot requeue reservation resv-ports segment
    share signal sockets-per-node spread-job spread-segments stepmgr switches tasks-per-node test-only thread-spec threads-per-core
    time time-min tmp tres-bind tres-per-task uid usage use-min-nodes verbose version wait wait-all-nodes wckey wrap "

# wrong_sbatch_option OPTIONS: prints what is wrong with options of sbatch, which refuses them only when a job is submitted.
wrong_sbatch_option() {
    local before="" word name known near
    for word in "$@"; do
        if [[ $word == --dry-run ]]; then continue; fi
        name=${word#--} name=${name%%=*}
        if [[ $word == --?* && ! $sbatch_options =~ [[:space:]]"$name"[[:space:]] ]]; then
            near=""
            for known in $sbatch_options; do
                if [[ ${known:0:3} == "${name:0:3}" && ${#known} -ge ${#name} && ( -z $near || ${#known} -lt ${#near} ) ]]; then near=$known; fi
            done
            printf 'sbatch has no option --%s%s; one of a newer Slurm belongs in SBATCH_EXTRA of %s' \
                "$name" "${near:+ (did you mean --$near?)}" "$cluster_env"
            return
        elif [[ $word != -* && ($before != -* || $before == *=*) ]]; then
            printf '%s is not an option of sbatch: write --NAME=VALUE, such as --ntasks=8' "$word"
            return
        elif [[ $word == --time=* && ! ${word#*=} =~ ^([0-9]+(-[0-9]+)?(:[0-9]+){0,2}|UNLIMITED|INFINITE)$ ]]; then
            printf '%s is not a time of sbatch: write minutes, H:MM:SS or DAYS-HH:MM:SS' "$word"
            return
        fi
        before=$word
    done
}

# wrong_option prepcli|python ARGUMENTS: prints what is wrong with the options of a step, if its program runs on this
# machine. With --help a command of prepcli and a recipe check names and values of options, and do nothing else.
wrong_option() {
    local program=() message result=0
    if [[ -n $CONTAINER_IMAGE ]]; then return 0; fi
    if [[ $1 == prepcli ]]; then
        program=("${PREPCLI[@]}" "$2")
        if [[ $2 == download ]]; then
            program+=("${3:-}")
            shift
        fi
    elif [[ $2 == "${slurm_dir%/scripts/slurm}"/recipes/* && -f $2 ]]; then # another script may not know --help
        program=("${PYTHON[@]}" "$2")
    else
        return 0
    fi
    message=$("${program[@]}" --help "${@:3}" 2>&1 >/dev/null) || result=$?
    if ((result == 2)); then sed -n 's/^[a-z_]*: //p' <<<"$message"; fi
}

# submit cpu|gpu DATA_SET STEP [SBATCH OPTIONS] -- prepcli|python ARGUMENTS
# Sets `job`. With --dry-run among the options it prints the sbatch line only.
submit() {
    local kind=$1 data_set=$2 step=$3 array="" dry_run=0 options=()
    shift 3
    while [[ $1 != -- ]]; do
        case $1 in
            --dry-run) dry_run=1 ;;
            --array=*) array=${1#*=} ;;
            --array | -a) die "write the tasks of the array as --array=0-15" ;;
            *) options+=("$1") ;;
        esac
        shift
    done
    shift
    local words=("$@") tasks cpus partition time
    case $kind in
        cpu) tasks=$CPU_TASKS cpus=$CPU_CPUS_PER_TASK partition=$CPU_PARTITION time=$CPU_TIME ;;
        gpu) tasks=$GPU_TASKS cpus=$GPU_CPUS_PER_TASK partition=$GPU_PARTITION time=$GPU_TIME ;;
        *) die "a step runs on cpu or gpu, not on '$kind'" ;;
    esac
    case ${words[1]:-} in # one process, unless --ntasks is given
        estimate-* | blend | download | inspect | verify) tasks=1 ;;
    esac
    local ids=%j
    if [[ -n $array ]]; then
        tasks=1 ids=%A_%a
        options+=("--array=$array")
        # Slurm's count of tasks is wrong as soon as a part of the array is submitted again.
        if ! has_word --world-size "${words[@]}"; then
            [[ $array =~ ^0-([0-9]+)(%[0-9]+)?$ ]] \
                || die "--array=$array is a part of an array: give the number of all tasks, with --world-size N among the arguments"
            words+=(--world-size $((BASH_REMATCH[1] + 1)))
        fi
    fi
    local log
    log=$(realpath -m "$LOG_DIR")/$(file_name "$data_set.$step")
    local line=(
        sbatch --parsable "--job-name=$data_set.$step" "--output=$log-$ids.log" --open-mode=append "--signal=$SIGNAL"
        "--partition=$partition" "--time=$time" "--ntasks=$tasks" "--cpus-per-task=$cpus"
    )
    if [[ -n $ACCOUNT ]]; then line+=("--account=$ACCOUNT"); fi
    if [[ $kind == gpu ]]; then line+=(${GPU_OPTIONS[@]+"${GPU_OPTIONS[@]}"}); fi
    if [[ $REQUEUE == 1 ]]; then line+=(--requeue); else line+=(--no-requeue); fi
    line+=(${SBATCH_EXTRA[@]+"${SBATCH_EXTRA[@]}"} ${options[@]+"${options[@]}"})
    line+=("$slurm_dir/batch.sh" "$slurm_dir" "$cluster_env" "$log" "$REQUEUE" "$(again)" "${words[@]}")
    if ((dry_run)); then
        printf '%q ' "${line[@]}"
        printf '\n'
        job=JOB_OF_$step
        return
    fi
    command -v sbatch >/dev/null || die "there is no sbatch here: run this on the login node of a Slurm cluster"
    # In a container, or in an environment that the job activates, it may be only there; the default must be here.
    if [[ -z $CONTAINER_IMAGE && ${PYTHON[0]} == "${slurm_dir%/scripts/slurm}/.venv/bin/python" ]]; then
        needs_program PYTHON "${PYTHON[0]}" || exit 2
    fi
    mkdir -p "$(dirname "$log")"
    job=$("${line[@]}") || {
        local asked="${kind^^}_PARTITION=$partition"
        if [[ $kind == gpu ]]; then asked+=" GPU_OPTIONS=(${GPU_OPTIONS[*]-})"; fi
        printf '%s: sbatch took no job; it was asked with %s of %s\n' "$data_set.$step" "$asked" "$cluster_env" >&2
        return 1
    }
    job=${job%%;*} # on federations the cluster's name follows
    printf '%s: job %s, logs %s-%s*.log\n' "$data_set.$step" "$job" "$log" "$job"
}

# The line that submits the same again, for `prepcli status` to show.
again() {
    local word line=()
    for word in "${submitted_with[@]}"; do
        case $word in
            --overwrite | --dry-run | --dependency=*) ;;
            *) line+=("$word") ;;
        esac
    done
    if [[ -n ${CLUSTER_ENV:-} ]]; then line=("CLUSTER_ENV=$cluster_env" "${line[@]}"); fi
    if [[ -n ${DATA_SET:-} ]]; then line=("DATA_SET=$DATA_SET" "${line[@]}"); fi
    printf '%s' "$(quoted "${line[@]}")"
}

quoted() {
    local text
    text=$(printf '%q ' "$@")
    printf '%s' "${text% }"
}

has_word() {
    local wanted=$1 word
    shift
    for word in "$@"; do
        if [[ $word == "$wanted" || $word == "$wanted="* ]]; then return 0; fi
    done
    return 1
}

# train.json -> train; an option names no data set
stem() {
    local name
    if [[ $1 == -* ]]; then set -- data; fi
    name=$(basename -- "$1")
    file_name "${name%%.*}"
}

# A name that can be part of a file name; Slurm would expand a %.
file_name() {
    local name=${1//[^A-Za-z0-9._-]/_}
    printf '%s' "${name:-data}"
}

submitted_with=("$(realpath "$0")" "$@")
