# Sourced by the recipes, which continue in the root of the repository: sets where results go, which Python runs, and
# the source of --mini.
#
#   WORK=FOLDER             results, relative to the current folder; default recipes/NAME/work
#   PREPCLI_PYTHON=PYTHON   a Python with prepcli; by default .venv is set up and used
#
# shellcheck shell=bash disable=SC2034
recipe=$(basename "$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)")
case ${WORK:-} in
    "") WORK=recipes/$recipe/work ;;
    /*) ;;
    *) WORK=$PWD/$WORK ;;
esac
called_in=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
if [[ -n ${1:-} && $1 != --mini ]]; then
    echo "$recipe: the only option is --mini, not $1" >&2
    exit 2
fi

# from_caller FOLDER: its absolute path; a relative one starts from the folder in which the recipe was called.
from_caller() {
    case $1 in
        /*) printf '%s' "$1" ;;
        *) printf '%s/%s' "$called_in" "$1" ;;
    esac
}

# set_up EXTRAS: finds the Python; .venv gets these extras ("none": no further ones).
set_up() {
    python=${PREPCLI_PYTHON:-}
    if [[ -z $python ]]; then
        PREPCLI_EXTRAS=$1 bash scripts/setup.sh
        python=.venv/bin/python
    fi
    mkdir -p "$WORK"
}

# show prepcli|python ARGUMENTS: prints a command as a user types it, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    if [[ $1 == prepcli ]]; then set -- python -m "$@"; fi
    "$python" "${@:2}"
}

# serve_miniatures ARCHIVE...: makes miniatures of published archives and serves them from this machine until the recipe
# ends. Their checksums replace the published ones; `site` has the options of `prepcli download` for both.
site=()
serve_miniatures() {
    rm -rf "$WORK/site"
    "$python" -m tests.commands.download "$WORK/site" "$@" &
    trap 'kill %1' EXIT
    until [[ -f $WORK/site/url ]]; do
        kill -0 %1
        sleep 0.1
    done
    export no_proxy=127.0.0.1 # no proxy for this server
    site=(--base-url "$(<"$WORK/site/url")" --checksums "$WORK/site/md5sum.txt")
}
