#!/usr/bin/env bash
# Fisher English to tar shards: slices of one speaker, shards, and bins for the training config.
#
#   LDC_ROOT=/corpora/LDC recipes/fisher/run.sh   # a licensed copy of LDC2004S13, LDC2005S13 or both, with transcripts
#   recipes/fisher/run.sh --mini                  # a small tree of the same form with tones, without a licence
#   WORK=/data/fisher … recipes/fisher/run.sh     # results elsewhere than in recipes/fisher/work
#
# Safe to run again: finished work is kept. PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
if [[ -n ${LDC_ROOT:-} ]]; then LDC_ROOT=$(realpath "$LDC_ROOT"); fi
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

if [[ ${1:-} != --mini && -z ${LDC_ROOT:-} ]]; then
    echo "fisher: set LDC_ROOT to the folder with LDC2004S13 and LDC2005S13, or give --mini" >&2
    exit 2
fi

shards=512
bins=30
set_up none
if [[ ${1:-} == --mini ]]; then
    shards=2 bins=3
    LDC_ROOT=$WORK/ldc
    if [[ ! -e $LDC_ROOT ]]; then
        rm -rf "$LDC_ROOT.tmp"
        "$python" -m tests.commands.download.make_fisher "$LDC_ROOT.tmp" 20
        mv "$LDC_ROOT.tmp" "$LDC_ROOT"
    fi
fi

show prepcli download fisher --ldc-root "$LDC_ROOT" --dest-root "$WORK/fisher" --remove-noises
show prepcli manifest-to-tarred "$WORK/fisher/manifest_train.json" "$WORK/tarred" --num-shards "$shards" --shuffle
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$WORK/fisher/manifest_train.json" -b "$bins"

cat <<END

What to look at
  $WORK/fisher/train/
      the slices, each with one speaker, 8 kHz
  $WORK/fisher/manifest_train.json
      their texts; the manifests of validation and test are next to it
  $WORK/fisher.prepcli/rejects.jsonl
      the lines of the transcripts that are in no slice, and why
  $WORK/tarred/
      the shards for NeMo's loaders
END
