#!/usr/bin/env bash
# AN4 for NeMo: fetched (64 MB), converted from SPHERE, tarred, checked, and with its bucket bins.
#
#   recipes/an4/run.sh                   # from any folder; results in recipes/an4/work
#   recipes/an4/run.sh --mini            # no internet: a miniature that is made (with sox) and served here
#   WORK=/data/an4 recipes/an4/run.sh    # results elsewhere
#
# Safe to run again: what is finished is kept, and a download goes on where it stopped.
set -euo pipefail
WORK=${WORK:-recipes/an4/work}
case $WORK in
    /* | recipes/an4/work) ;;
    *) WORK=$PWD/$WORK ;; # relative to where it was called
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source=()
shards=8
bins=10
PREPCLI_EXTRAS=${PREPCLI_EXTRAS:-none} bash scripts/setup.sh
if [[ ${1:-} == --mini ]]; then
    shards=2 bins=2
    rm -rf "$WORK/site"
    .venv/bin/python -m tests.corpora "$WORK/site" an4_sphere.tar.gz &
    trap 'kill %1' EXIT
    until [[ -f $WORK/site/url ]]; do
        kill -0 %1
        sleep 0.1
    done
    source=(--base-url "$(<"$WORK/site/url")" --checksums "$WORK/site/md5sum.txt")
fi

# Shows a command as one would type it, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    ".venv/bin/$1" "${@:2}"
}

show prepcli download an4 --data-root "$WORK/data" ${source[@]+"${source[@]}"}
show prepcli manifest-to-tarred "$WORK/data/an4/train_manifest.json" "$WORK/tarred" --num-shards "$shards"
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$WORK/data/an4/train_manifest.json" -b "$bins"

cat <<END

What to look at
  $WORK/data/an4/train_manifest.json, $WORK/data/an4/test_manifest.json
      the manifests; each .wav lies beside the .sph that it was made of
  $WORK/tarred
      the shards for training; verify has decoded them all
END
