#!/usr/bin/env bash
# AN4 for NeMo: fetched (64 MB), converted from SPHERE, tarred, checked, and with its bins for bucketed training.
#
#   recipes/an4/run.sh                   # from any folder; results in recipes/an4/work
#   recipes/an4/run.sh --mini            # without internet: makes a miniature (with sox) and serves it from this machine
#   WORK=/data/an4 recipes/an4/run.sh    # results elsewhere
#
# Safe to run again: finished work is kept, and a download continues where it stopped. PREPCLI_PYTHON names a Python to
# use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

shards=8
bins=10
set_up none
if [[ ${1:-} == --mini ]]; then
    shards=2 bins=2
    serve_miniatures an4_sphere.tar.gz
fi

show prepcli download an4 --data-root "$WORK/data" ${site[@]+"${site[@]}"}
show prepcli manifest-to-tarred "$WORK/data/an4/train_manifest.json" "$WORK/tarred" --num-shards "$shards"
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$WORK/data/an4/train_manifest.json" -b "$bins"

cat <<END

What to look at
  $WORK/data/an4/train_manifest.json, $WORK/data/an4/test_manifest.json
      the manifests; each .wav is next to its .sph
  $WORK/tarred
      the shards for training; verify has decoded all of them
END
