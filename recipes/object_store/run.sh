#!/usr/bin/env bash
# From a manifest and audio in an object store to a tarred set, a Lhotse Shar set and codec codes there.
#
#   export AWS_ENDPOINT_URL=http://store:9000 AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=...
#   MANIFEST=s3://corpora/train.json STORE=s3://sets/train CODEC=codec.nemo WORK=/shared/work recipes/object_store/run.sh
#
# WORK is a folder that all machines share: it holds the state of the runs and the manifest with contexts. LAUNCH starts the ranks,
# in a job of Slurm for example LAUNCH="srun --ntasks=8". Others: NUM_SHARDS, SHARD_SIZE, SPEAKER_MODEL, DEVICES, PREPCLI_PYTHON.
#
# Safe to run again: finished work is kept.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

: "${MANIFEST:?the address of the manifest, such as s3://corpora/train.json}"
: "${STORE:?where the sets go, such as s3://sets/train}"
: "${CODEC:?a .nemo file, or the name of a codec}"
set_up s3,nemo
manifest_stem=$(basename "$MANIFEST" .json)

# step ARGUMENTS: prints a command of prepcli, then runs it, with all ranks where there are several.
step() {
    printf '\n$ prepcli %s\n' "$*"
    ${LAUNCH:-} "$python" -m "${PREPCLI_MODULE:-prepcli}" "$@"
}

step manifest-to-tarred "$MANIFEST" "$STORE/tarred" --num-shards "${NUM_SHARDS:-64}" --work-dir "$WORK"
step extend-context-audio "$MANIFEST" "$WORK/context" --speaker-model "${SPEAKER_MODEL:-titanet_large}" --devices "${DEVICES:-auto}"
step manifest-to-shar "$WORK/context/${manifest_stem}_withContextAudioMinDur3.0MinSSIM0.6.json" "$STORE/shar" \
    --audio-base-dir "${MANIFEST%/*}" --shard-size "${SHARD_SIZE:-4096}" --work-dir "$WORK"
step extend-codec-codes "$STORE/shar" --codec-model "$CODEC" --work-dir "$WORK" --devices "${DEVICES:-auto}"

LAUNCH=
step verify "$STORE/tarred" --work-dir "$WORK" --quick
step verify "$STORE/shar" --work-dir "$WORK" --quick
