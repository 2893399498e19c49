#!/usr/bin/env bash
# The first look at prepcli: a small corpus becomes a tarred data set, is checked, and gets its bucket bins; then, for
# TTS with in-context voices, every record gets context audio and the result becomes Lhotse Shar.
#
#   recipes/demo/run.sh                  # from any folder; results in recipes/demo/work
#   WORK=/data/demo recipes/demo/run.sh  # results elsewhere
#
# Safe to run again: what is finished is kept.
set -euo pipefail
WORK=${WORK:-recipes/demo/work}
case $WORK in
    /* | recipes/demo/work) ;;
    *) WORK=$PWD/$WORK ;; # relative to where it was called
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

PREPCLI_EXTRAS=demo bash scripts/setup.sh
manifest=tests/data/mini_corpus/manifest.json
mkdir -p "$WORK"

# Shows a command as one would type it, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    ".venv/bin/$1" "${@:2}"
}

show prepcli manifest-to-tarred "$manifest" "$WORK/tarred" --num-shards 4
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$manifest" -b 5 --plot "$WORK/durations.png"
show prepcli extend-context-audio "$manifest" "$WORK/context" --speaker-model resemblyzer --devices cpu \
    --plot "$WORK/contexts.png"
extended=$WORK/context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json
show prepcli manifest-to-shar "$extended" "$WORK/shar" --audio-base-dir tests/data/mini_corpus --shard-size 16
show prepcli verify "$WORK/shar"

cat <<END

What to look at
  $WORK/tarred/audio_0.tar
      the first of four shards; tar -tvf lists its FLAC files, copied as they were
  $WORK/tarred/sharded_manifests/manifest_0.json
      its records, one JSON object a line
  $WORK/tarred.prepcli/report.json
      what went in and what came out
  $WORK/context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json
      the records, each with the most similar other utterance of its voice; how similar: $WORK/contexts.png
  $WORK/durations.png
      the histogram of durations with the bin edges
  $WORK/shar/
      cuts, target audio and context audio in three shards, side by side
Run this again: finished work is kept, and nothing is done twice. To read the shards in NeMo:
  manifest_filepath=$WORK/tarred/sharded_manifests/manifest__OP_0..3_CL_.json
  tarred_audio_filepaths=$WORK/tarred/audio__OP_0..3_CL_.tar
END
