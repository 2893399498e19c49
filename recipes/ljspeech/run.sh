#!/usr/bin/env bash
# LJSpeech for Tacotron 2 and WaveGlow: fetched (2.6 GB), and its mel-spectrograms with the file lists of
# DeepLearningExamples (ljs_mel_text_train_filelist.txt, ...).
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
show prepcli manifest-to-mels "$data/train_manifest.json,$data/val_manifest.json,$data/test_manifest.json" \
    "$WORK/LJSpeech-1.1"
show prepcli verify "$WORK/LJSpeech-1.1"

# The lists of mels under their published names: those of audio, with the mel of each utterance instead.
mkdir -p "$WORK/filelists"
for list in "$WORK"/data/filelists/ljs_audio_text_*_filelist.txt; do
    name=${list##*/}
    while IFS= read -r line; do
        path=${line%%|*}
        mel=${path/wavs/mels}
        mel=${mel%.wav}.pt
        if [[ -f $WORK/$mel ]]; then printf '%s|%s\n' "$mel" "${line#*|}"; fi
    done <"$list" >"$WORK/filelists/${name/audio/mel}"
done

cat <<END

What to look at
  $WORK/LJSpeech-1.1/mels
      a tensor of 80 bands for each utterance
  $WORK/filelists
      lists for Tacotron 2, whose dataset path is $WORK: ljs_mel_text_train_filelist.txt, ...
  $WORK/data/filelists
      lists for WaveGlow, whose dataset path is $WORK/data: ljs_audio_text_train_filelist.txt, ...
END
