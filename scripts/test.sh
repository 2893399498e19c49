#!/usr/bin/env bash
# All checks that must pass before a commit: ruff, mypy, shellcheck, and pytest without the tests marked `slow`.
#
#   scripts/test.sh                          # runs scripts/setup.sh first
#   scripts/test.sh --all                    # also the slow tests: kill matrices, soak, Slurm, fuzzing, recipes
#   scripts/test.sh tests/manifest -k gz     # other arguments go to pytest
#   PREPCLI_PYTHON=python3 scripts/test.sh   # uses this interpreter, without set-up
#
# All steps run even when one fails; the exit code is 1 if any did.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'test: %s\n' "$*"; }

chosen=(-m "not slow")
if [[ ${1:-} == --all ]]; then
    chosen=()
    shift
fi

failed=()
step() {
    local name=$1 result=ok
    shift
    SECONDS=0
    "$@" || result=FAILED
    say "$name: $result, $SECONDS s"
    if [[ $result != ok ]]; then failed+=("$name"); fi
}

python=${PREPCLI_PYTHON:-}
if [[ -z $python ]]; then
    step setup bash scripts/setup.sh
    if ((${#failed[@]})); then exit 1; fi
    python=$PWD/.venv/bin/python
fi

# Hundreds of processes start: each would compile the modules that it imports, NeMo's for ten seconds, if none kept them.
unset PYTHONDONTWRITEBYTECODE

step "ruff check" "$python" -m ruff check .
step "ruff format" "$python" -m ruff format --check .
MYPY_NUM_WORKERS=2 step mypy "$python" -m mypy # from mypy 2 on; more than a few do not help

if command -v shellcheck >/dev/null; then
    shopt -s nullglob
    shell_files=(scripts/*.sh scripts/*/*.sh scripts/*/*.env recipes/*.sh recipes/*/*.sh .ci/run)
    step shellcheck shellcheck -x "${shell_files[@]}"
elif [[ ${CI:-} == true ]]; then
    say "shellcheck is missing: sudo apt-get install shellcheck"
    failed+=(shellcheck)
else
    say "shellcheck: not installed, skipped"
fi

# tests/support/scheduling.py says which process runs which tests.
step pytest "$python" -m pytest -n auto --maxprocesses 8 ${chosen[@]+"${chosen[@]}"} "$@"

if ((${#failed[@]})); then
    printf -v list '%s, ' "${failed[@]}"
    say "FAILED: ${list%, }"
    exit 1
fi
say "all green"
