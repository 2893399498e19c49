#!/usr/bin/env bash
# Your own recordings in two languages, to a training config for NeMo: manifests, shards, a blend with weights, bins.
#
#   FIRST=en:/data/english SECOND=it:/data/italian recipes/own_audio/run.sh
#                                        # folders of audio with a transcript beside each file: a.wav, a.txt
#   recipes/own_audio/run.sh --mini      # two speakers of the small corpus in this repository
#   TEMPERATURE=0.3 SHARDS=64 ...        # the smaller language more often (1: in proportion); more shards
#   WORK=/data/mix recipes/own_audio/run.sh    # results elsewhere; default recipes/own_audio/work
#
# Safe to run again: finished work is kept. PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

shards=${SHARDS:-8}
bins=20
texts=(--text-suffix .txt)
check=()
if [[ ${1:-} == --mini ]]; then
    corpus=$PWD/tests/data/mini_corpus
    FIRST=en:$corpus/s01 SECOND=it:$corpus/s07
    texts=(--transcripts "$corpus/transcripts.txt")
    shards=2 bins=4 check=(--no-check)
elif [[ ${FIRST:-} != ?*:?* || ${SECOND:-} != ?*:?* ]]; then
    echo "own_audio: set FIRST and SECOND to LANGUAGE:FOLDER, or give --mini" >&2
    exit 2
fi
set_up none

sets=() langs=()
for one in "$FIRST" "$SECOND"; do
    lang=${one%%:*}
    show prepcli make-manifest "$(from_caller "${one#*:}")" "$WORK/$lang.json" "${texts[@]}" --lang "$lang"
    show prepcli manifest-to-tarred "$WORK/$lang.json" "$WORK/$lang" --num-shards "$shards" --shuffle
    show prepcli verify "$WORK/$lang"
    sets+=("$lang=$WORK/$lang") langs+=(--lang "$lang=$lang")
done
show prepcli blend "${sets[@]}" "$WORK/input_cfg.yaml" --temperature "${TEMPERATURE:-0.5}" "${langs[@]}" \
    ${check[@]+"${check[@]}"}

if [[ ! -f $WORK/train.yaml ]]; then
    case $WORK in /*) root= ;; *) root=$PWD/ ;; esac
    cat >"$WORK/train.yaml" <<END
train_ds:
  use_lhotse: true
  input_cfg: "$root$WORK/input_cfg.yaml"
  sample_rate: 16000
  shuffle: true
  batch_duration: 600
  use_bucketing: true
END
fi
show prepcli estimate-bins "$WORK/input_cfg.yaml" -b "$bins" --write-config "$WORK/train.yaml"

cat <<END

What to look at
  $WORK/input_cfg.yaml
      the languages with their weights; the table at its top says how often each is seen
  $WORK/train.yaml
      train_ds for a NeMo training config, with input_cfg and bins
END
