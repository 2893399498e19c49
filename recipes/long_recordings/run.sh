#!/usr/bin/env bash
# Long recordings with subtitles, to shards and a training config for NeMo: segments with texts, scores, a filter, a part
# for validation, shards, bins; and segments of speech without texts, for pre-training or for a recognizer.
#
#   TALKS=/data/talks recipes/long_recordings/run.sh   # a folder of recordings and their subtitles: a.mp3, a.srt
#   TALKS=/data/talks TIMES=/data/aligned ...          # texts with times in another folder, or one file, such as a CTM
#   recipes/long_recordings/run.sh --mini              # three recordings of the small corpus in this repository
#   LONGEST=30 SHARDS=64 BINS=30 ...                   # longer segments (seconds), shards, bins
#   KEEP='snr >= 20' DROP='clipped > 0' DEV=30m ...    # other rules for the segments to use; more audio for validation
#   BY=none ...                                        # one or two recordings: each segment is drawn for itself
#   WORK=/data/segments recipes/long_recordings/run.sh # results elsewhere; default recipes/long_recordings/work
#
# Safe to run again: finished work is kept. PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

longest=${LONGEST:-20}
shards=${SHARDS:-8}
bins=${BINS:-20}
keep=${KEEP:-1 <= duration and 2 <= chars_per_second <= 30}
drop=${DROP:-clipped > 0.01 or peak_db < -50}
dev=${DEV:-0.02}
by=${BY:-audio_filepath}
if [[ ${1:-} == --mini ]]; then
    longest=10 shards=2 bins=3 dev=0.3
elif [[ -z ${TALKS:-} ]]; then
    echo "long_recordings: set TALKS to a folder of recordings with subtitles, or give --mini" >&2
    exit 2
fi
set_up score # with Silero's detector of speech

if [[ ${1:-} == --mini ]]; then
    # The folder gets its final name when all recordings are in it.
    if [[ ! -d $WORK/talks ]]; then
        rm -rf "$WORK/new_talks"
        show python recipes/long_recordings/make_recordings.py "$WORK/new_talks"
        mv "$WORK/new_talks" "$WORK/talks"
    fi
    talks=$WORK/talks times=$talks
else
    talks=$(from_caller "$TALKS")
    times=$(from_caller "${TIMES:-$TALKS}")
fi

show prepcli segment "$talks" "$WORK/texts.json" --by times --times "$times" --max "$longest"
show prepcli segment "$talks" "$WORK/speech.json" --by speech --max "$longest"
show prepcli inspect "$WORK/texts.json"
show prepcli score "$WORK/texts.json" "$WORK/scored.json"
show prepcli filter "$WORK/scored.json" "$WORK/kept.json" --keep "$keep" --drop "$drop"
# All segments of a recording are in one part, so that no speaker is in two.
show prepcli split "$WORK/kept.json" "$WORK/parts" --by "$by" --part train=rest --part dev="$dev" || {
    code=$?
    echo "long_recordings: put DEV=1h, or another amount, or BY=none before the same command; BY=none draws each segment for itself" >&2
    exit "$code"
}
# Each segment becomes a file of its own; else the shards would hold the whole recordings.
show prepcli manifest-to-tarred "$WORK/parts/train.json" "$WORK/tarred" --num-shards "$shards" --shuffle \
    --slice-with-offset --force-codec flac --target-sample-rate 16000
show prepcli verify "$WORK/tarred"
if [[ ! -f $WORK/train.yaml ]]; then
    case $WORK in /*) root= ;; *) root=$PWD/ ;; esac
    cat >"$WORK/train.yaml" <<END
train_ds:
  use_lhotse: true
  tarred_audio_filepaths: "$root$WORK/tarred/audio__OP_0..$((shards - 1))_CL_.tar"
  manifest_filepath: "$root$WORK/tarred/sharded_manifests/manifest__OP_0..$((shards - 1))_CL_.json"
  sample_rate: 16000
  shuffle: true
  batch_duration: 600
validation_ds:
  use_lhotse: true
  manifest_filepath: "$root$WORK/parts/dev.json"
  sample_rate: 16000
  batch_duration: 600
END
fi
show prepcli estimate-bins "$WORK/tarred" -b "$bins" --write-config "$WORK/train.yaml"

cat <<END

What to look at
  $WORK/texts.json
      the segments with their texts, by offset and duration in the recordings; no audio was copied
  $WORK/speech.json
      the speech of all recordings, also of those without subtitles
  $WORK/texts.json.prepcli/report.json
      each second of the recordings is in a segment, in a pause, in overlap, or rejected
  $WORK/texts.json.prepcli/rejects.jsonl
      the recordings without subtitles, and the parts that are left out, each with its reason
  $WORK/train.yaml
      train_ds for a NeMo training config, with shards and bins, and validation_ds with $WORK/parts/dev.json
END
