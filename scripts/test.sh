#!/usr/bin/env bash
# All checks that must pass before a commit: ruff, mypy, shellcheck, and pytest without the tests marked `slow`.
#
#   scripts/test.sh                          # runs scripts/setup.sh first
#   scripts/test.sh --all                    # also the slow tests: kill matrices, soak, Slurm, fuzzing, recipes
#   scripts/test.sh --coverage               # all tests, 1.3 to 1.5 times as long; prints the branch coverage of
#                                            # engine, formats and manifest
#   scripts/test.sh tests/manifest -k gz     # other arguments go to pytest
#   PREPCLI_PYTHON=python3 scripts/test.sh   # uses this interpreter, without set-up
#
# All steps run even when one fails; the exit code is 1 if any did.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'test: %s\n' "$*"; }

chosen=(-m "not slow")
kinds=(torch store)
measuring=
if [[ ${1:-} == --all || ${1:-} == --coverage ]]; then
    chosen=()
    kinds=(nemo torch store)
    if [[ $1 == --coverage ]]; then measuring=tests.support.measuring; fi
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
# And what is written to a closed pipe is only noticed where Python buffers it, as it does for users.
unset PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED

step "ruff check" "$python" -m ruff check .
step "ruff format" "$python" -m ruff format --check .
if [[ ,${PREPCLI_EXTRAS:-all}, == *,all,* ]]; then
    MYPY_NUM_WORKERS=2 step mypy "$python" -m mypy # from mypy 2 on; more than a few do not help
else
    say "mypy: skipped, because it needs the types of all extras"
fi

if command -v shellcheck >/dev/null; then
    shopt -s nullglob
    shell_files=(benchmarks/*.sh scripts/*.sh scripts/*/*.sh scripts/*/*.env recipes/*.sh recipes/*/*.sh .ci/run)
    step shellcheck shellcheck -x "${shell_files[@]}"
elif [[ ${CI:-} == true ]]; then
    say "shellcheck is missing: sudo apt-get install shellcheck"
    failed+=(shellcheck)
else
    say "shellcheck: not installed, skipped"
fi

# One call of pytest per kind of test (KINDS in tests/conftest.py), all at once; what is light is shared by a few processes.
pytest_by_kind() {
    local kind code result=0 started=() cores
    logs=$(mktemp -d)
    cores=$(nproc)
    export PREPCLI_TEST_SEED=${PREPCLI_TEST_SEED:-$RANDOM}
    trap 'kill "${started[@]}" 2>/dev/null || true; rm -rf "$logs"; exit 1' INT TERM
    for kind in "${kinds[@]}"; do
        PYTEST_PLUGINS=$measuring "$python" -m pytest --kind "$kind" "$@" >"$logs/$kind" 2>&1 &
        started+=($!)
    done
    PYTEST_PLUGINS=$measuring "$python" -m pytest --kind light \
        --dist loadfile --no-loadscope-reorder -n $((cores < 8 ? cores + 1 : 8)) "$@" || result=$?
    for kind in "${!kinds[@]}"; do
        code=0
        wait "${started[kind]}" || code=$?
        say "pytest --kind ${kinds[kind]}:"
        cat "$logs/${kinds[kind]}"
        if ((code != 5 && (code || result == 5))); then result=$code; fi # 5: none of the tests is of this kind
    done
    rm -rf "$logs"
    trap - INT TERM
    return "$result"
}
if [[ -n $measuring ]]; then rm -f .coverage*; fi # only then: a test runs this script while others are measured
step pytest pytest_by_kind ${chosen[@]+"${chosen[@]}"} "$@"

# What the tests reach in the processes that run them, and the lines that they do not.
coverage() {
    local package
    "$python" -m coverage combine -q || return 1
    for package in engine formats manifest; do
        say "coverage of $package:"
        "$python" -m coverage report --include "prepcli/$package/*"
    done
}
if [[ -n $measuring ]]; then step coverage coverage; fi

if ((${#failed[@]})); then
    printf -v list '%s, ' "${failed[@]}"
    say "FAILED: ${list%, }"
    exit 1
fi
say "all green"
