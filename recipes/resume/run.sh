#!/usr/bin/env bash
# Training that is killed in the middle of an epoch and continues there: a Shar set with indexes, read by lhotse 2.
#
#   recipes/resume/run.sh                   # from any folder; results in recipes/resume/work
#   WORK=/data/resume recipes/resume/run.sh # results elsewhere
#
# The set is made of the small corpus in this repository. The training script is train.py beside this file; its model
# counts how often it has seen each cut.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

set_up dev
show prepcli manifest-to-shar tests/data/mini_corpus/manifest.json "$WORK/shar" --indexed --shard-size 16
show prepcli index --check "$WORK/shar"
rm -rf "$WORK/training"

# A job that is killed twice, and started again each time.
for batches in 5 9; do
    show python recipes/resume/train.py "$WORK/shar" "$WORK/training" --kill-after "$batches" || echo "(killed)"
done
show python recipes/resume/train.py "$WORK/shar" "$WORK/training"
