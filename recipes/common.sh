# Sourced by the recipes, which go on in the repository's root: where results go, which Python runs, and what --mini
# downloads from.
#
#   WORK=FOLDER             results, relative to where the recipe is called; without it recipes/NAME/work
#   PREPCLI_PYTHON=PYTHON   one that has prepcli, taken as it is; without it .venv is set up and used
#
# shellcheck shell=bash disable=SC2034
recipe=$(basename "$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)")
case ${WORK:-} in
    "") WORK=recipes/$recipe/work ;;
    /*) ;;
    *) WORK=$PWD/$WORK ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
if [[ -n ${1:-} && $1 != --mini ]]; then
    echo "$recipe: the only option is --mini, not $1" >&2
    exit 2
fi

# set_up EXTRAS: finds the Python; .venv gets these extras ("none": it keeps those that it has).
set_up() {
    python=${PREPCLI_PYTHON:-}
    if [[ -z $python ]]; then
        PREPCLI_EXTRAS=$1 bash scripts/setup.sh
        python=.venv/bin/python
    fi
    mkdir -p "$WORK"
}

# show prepcli|python ARGUMENTS: prints a command as one would type it, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    if [[ $1 == prepcli ]]; then set -- python -m "$@"; fi
    "$python" "${@:2}"
}

# serve_miniatures ARCHIVE...: makes miniatures of published archives and serves them here until the recipe ends. Their
# checksums take the place of the published ones; `site` has the options of `prepcli download` for both.
site=()
serve_miniatures() {
    rm -rf "$WORK/site"
    "$python" -m tests.corpora "$WORK/site" "$@" &
    trap 'kill %1' EXIT
    until [[ -f $WORK/site/url ]]; do
        kill -0 %1
        sleep 0.1
    done
    export no_proxy=127.0.0.1 # however the rest of the web is reached
    site=(--base-url "$(<"$WORK/site/url")" --checksums "$WORK/site/md5sum.txt")
}
