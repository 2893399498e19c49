#!/usr/bin/env bash
# Runs every command of prepcli with the tree of a commit and with this one, on the same inputs, and compares what a
# user can see: exit codes, what is printed, --json, the files of OUT byte by byte, rejects and reports.
#
#   scripts/compare_with.sh v0.3.0              # all calls (tests/golden/calls.py): exit code 1 if anything differs
#   scripts/compare_with.sh HEAD~3 'tarred/*'   # only scenarios of these names
#   scripts/compare_with.sh HEAD --lines 100    # shows more of each difference
#
# tests/golden/wanted_differences.yaml lists the differences that are intended. Both trees use this one's environment
# (.venv, or PREPCLI_PYTHON), unless their dependencies differ: then the commit gets one of its own.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if (($# == 0)); then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 2
fi
commit=$(git -C "$root" rev-parse --verify --quiet "$1^{commit}") || {
    printf 'compare_with: there is no commit %s\n' "$1" >&2
    exit 2
}
shift
python=${PREPCLI_PYTHON:-$root/.venv/bin/python}

folder=$(mktemp -d)
remove() {
    git -C "$root" worktree remove --force "$folder/before" 2>/dev/null || true
    rm -rf "$folder"
}
trap remove EXIT
git -C "$root" worktree add --quiet --detach "$folder/before" "$commit"

# The lists of dependencies stand above the settings of tools.
dependencies() { sed '/^\[tool\./,$d' "$1/pyproject.toml"; }
before=$python
if [[ $(dependencies "$folder/before") != "$(dependencies "$root")" ]]; then
    printf 'compare_with: the dependencies of %s are others: it gets an environment of its own\n' "$commit"
    PREPCLI_EXTRAS=dev bash "$folder/before/scripts/setup.sh"
    before=$folder/before/.venv/bin/python
fi
cd "$root"
PYTHONPATH=$root "$python" -m tests.golden.compare --before "$folder/before" --before-python "$before" "$@"
