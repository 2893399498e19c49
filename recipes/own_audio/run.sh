#!/usr/bin/env bash
# Your own recordings in two languages, to a training config for NeMo: manifests, scores, a filter, a part for validation,
# shards, a blend with weights, bins.
#
#   FIRST=en:/data/english SECOND=it:/data/italian recipes/own_audio/run.sh
#                                        # folders of audio with a transcript beside each file: a.wav, a.txt
#   recipes/own_audio/run.sh --mini      # two speakers of the small corpus in this repository
#   TEMPERATURE=0.3 SHARDS=64 ...        # the smaller language more often (1: in proportion); more shards
#   KEEP='snr >= 20' DROP='clipped > 0' DEV=30m ...    # other rules for the records to use; more audio for validation
#   WORK=/data/mix recipes/own_audio/run.sh    # results elsewhere; default recipes/own_audio/work
#
# Safe to run again: finished work is kept. PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

shards=${SHARDS:-8}
bins=20
keep=${KEEP:-0.5 <= duration <= 40 and chars_per_second <= 40}
drop=${DROP:-clipped > 0.01 or peak_db < -50}
dev=${DEV:-0.02}
texts=(--text-suffix .txt)
if [[ ${1:-} == --mini ]]; then
    corpus=$PWD/tests/data/mini_corpus
    FIRST=en:$corpus/s01 SECOND=it:$corpus/s07
    texts=(--transcripts "$corpus/transcripts.txt")
    shards=2 bins=3 dev=1
elif [[ ${FIRST:-} != ?*:?* || ${SECOND:-} != ?*:?* ]]; then
    echo "own_audio: set FIRST and SECOND to LANGUAGE:FOLDER, or give --mini" >&2
    exit 2
fi
set_up score

sets=() langs=() parts=()
for one in "$FIRST" "$SECOND"; do
    lang=${one%%:*}
    show prepcli make-manifest "$(from_caller "${one#*:}")" "$WORK/$lang.json" "${texts[@]}" --lang "$lang"
    show prepcli score "$WORK/$lang.json" "$WORK/${lang}_scored.json"
    show prepcli filter "$WORK/${lang}_scored.json" "$WORK/${lang}_kept.json" --keep "$keep" --drop "$drop"
    show prepcli split "$WORK/${lang}_kept.json" "$WORK/${lang}_parts" --part train=rest --part dev="$dev"
    show prepcli manifest-to-tarred "$WORK/${lang}_parts/train.json" "$WORK/$lang" --num-shards "$shards" --shuffle
    show prepcli verify "$WORK/$lang"
    sets+=("$lang=$WORK/$lang") langs+=(--lang "$lang=$lang") parts+=("$WORK/${lang}_parts/dev.json")
done
show prepcli blend "${sets[@]}" "$WORK/input_cfg.yaml" --temperature "${TEMPERATURE:-0.5}" "${langs[@]}"

show prepcli filter "$(IFS=,; echo "${parts[*]}")" "$WORK/dev.json" # merges them

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
validation_ds:
  use_lhotse: true
  manifest_filepath: "$root$WORK/dev.json"
  sample_rate: 16000
  batch_duration: 600
END
fi
show prepcli estimate-bins "$WORK/input_cfg.yaml" -b "$bins" --write-config "$WORK/train.yaml"

cat <<END

What to look at
  $WORK/input_cfg.yaml
      the languages with their weights; the table at its top says how often each is seen
  $WORK/train.yaml
      train_ds for a NeMo training config, with input_cfg and bins, and validation_ds with $WORK/dev.json
  $WORK/<language>_kept.json.prepcli/rejects.jsonl
      the records that the rules have left out, each with its rule; the tables above have the hours that each rule costs
END
