#!/usr/bin/env bash
# Makes a TTS data set of the small corpus in this repository: context audio for every record, Lhotse Shar and codec
# codes; and also tar shards for ASR and bins for bucketed training. Each result is checked. demo.py does the same through Python.
#
#   recipes/demo/run.sh                  # from any folder; results in recipes/demo/work
#   WORK=/data/demo recipes/demo/run.sh  # results elsewhere
#
# Safe to run again: finished work is kept. PREPCLI_PYTHON names a Python to use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

set_up nemo,plot
manifest=tests/data/mini_corpus/manifest.json
SECONDS=0

show prepcli manifest-to-tarred "$manifest" "$WORK/tarred" --num-shards 4
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$manifest" -b 5 --plot "$WORK/durations.png"
show prepcli extend-context-audio "$manifest" "$WORK/context" --speaker-model resemblyzer --devices cpu \
    --plot "$WORK/contexts.png"
extended=$WORK/context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json
show prepcli manifest-to-shar "$extended" "$WORK/shar" --audio-base-dir tests/data/mini_corpus --shard-size 16

# There is no trained codec in this repository, so one with random weights is made; do not train on its codes. Another
# file gives other codes, so it is made only once, and it gets its final name when it is complete.
codec=$WORK/random_codec.nemo
if [[ ! -f $codec ]]; then
    show python recipes/demo/make_codec.py "$WORK/new_codec.nemo"
    mv "$WORK/new_codec.nemo" "$codec"
fi
show prepcli extend-codec-codes "$WORK/shar" --codec-model "$codec" --devices cpu
show prepcli verify "$WORK/shar"

# One line for each step: how many records, how much audio, how many bytes.
printf '\nWhat each step made, in %d s\n' "$SECONDS"
"$python" - "$WORK" <<'END'
import json, pathlib, sys

work = pathlib.Path(sys.argv[1])
steps = {
    "tarred.prepcli": "tar shards and manifests for ASR",
    "context.prepcli": "a context for every record",
    "shar.prepcli": "cuts, target and context audio",
    "shar.prepcli/codes_random_codec": "codec codes of targets and contexts",
}
print(f"  {'step':<22}{'records':>8}{'rejects':>9}{'minutes':>9}{'bytes':>12}  what")
for folder, what in steps.items():
    report = json.loads((work / folder / "report.json").read_text())
    print(
        f"  {report['command']:<22}{report['records_out']:>8}{report['rejects']:>9}{report['seconds'] / 60:>9.2f}"
        f"{report['num_bytes']:>12,}  {what}"
    )
END

cat <<END

What to look at
  $WORK/tarred/audio_0.tar
      the first of four shards; tar -tvf lists its FLAC files, which are unchanged
  $WORK/tarred/sharded_manifests/manifest_0.json
      its records, one JSON object per line
  $WORK/context/manifest_withContextAudioMinDur3.0MinSSIM0.6.json
      the records, each with the most similar other utterance of its voice; $WORK/contexts.png shows the similarities
  $WORK/durations.png
      the histogram of durations with the bin edges
  $WORK/shar/
      cuts, target audio and context audio in three shards; codes_random_codec/ has their codes
  $WORK/tarred.prepcli/report.json, $WORK/shar.prepcli/codes_random_codec/report.json
      the counts of records, rejects, seconds and bytes
Run this again: finished work is kept, and nothing is done twice. To read the shards in NeMo:
  manifest_filepath=$WORK/tarred/sharded_manifests/manifest__OP_0..3_CL_.json
  tarred_audio_filepaths=$WORK/tarred/audio__OP_0..3_CL_.tar
  shar_path={cuts: $WORK/shar/cuts/cuts._OP_000000..000002_CL_.jsonl.gz,
             target_audio: $WORK/shar/target_audio/recording._OP_000000..000002_CL_.tar,
             context_audio: $WORK/shar/context_audio/recording._OP_000000..000002_CL_.tar,
             target_codes: $WORK/shar/codes_random_codec/target_codes/codes._OP_000000..000002_CL_.tar,
             context_codes: $WORK/shar/codes_random_codec/context_codes/codes._OP_000000..000002_CL_.tar}
END
