#!/usr/bin/env bash
# AN4 for NeMo: fetched (64 MB), converted from SPHERE, tarred, checked, and with its bucket bins.
#
#   recipes/an4/run.sh                   # from any folder; results in recipes/an4/work
#   recipes/an4/run.sh --mini            # no internet: a miniature that is made (with sox) and served here
#   WORK=/data/an4 recipes/an4/run.sh    # results elsewhere
#
# Safe to run again: what is finished is kept, and a download goes on where it stopped. PREPCLI_PYTHON names another Python than .venv's.
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
      the manifests; each .wav lies beside the .sph that it was made of
  $WORK/tarred
      the shards for training; verify has decoded them all
END
