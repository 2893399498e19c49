#!/usr/bin/env bash
# LJSpeech for Tacotron 2 and WaveGlow: fetched (2.6 GB), and its mel-spectrograms with their file lists.
#
#   recipes/ljspeech/run.sh                     # from any folder; results in recipes/ljspeech/work
#   recipes/ljspeech/run.sh --mini              # without internet: makes a miniature and serves it from this machine
#   WORK=/data/ljspeech recipes/ljspeech/run.sh # results elsewhere
#
# Safe to run again: finished work is kept, and a download continues where it stopped. PREPCLI_PYTHON names a Python to
# use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

set_up models
parts=()
if [[ ${1:-} == --mini ]]; then
    parts=(--val-size 1 --test-size 1)
    serve_miniatures LJSpeech-1.1.tar.bz2
fi

show prepcli download ljspeech --data-root "$WORK/data" ${parts[@]+"${parts[@]}"} ${site[@]+"${site[@]}"}
data="$WORK/data/LJSpeech-1.1"
show prepcli manifest-to-mels "$data/train_manifest.json,$data/val_manifest.json,$data/test_manifest.json" "$WORK/mels"
show prepcli verify "$WORK/mels"

cat <<END

What to look at
  $WORK/mels/mels
      a tensor of 80 bands for each utterance
  $WORK/mels/filelists
      lists for training: $WORK/mels is the dataset path of Tacotron 2
END
