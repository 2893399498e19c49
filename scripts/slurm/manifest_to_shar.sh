#!/usr/bin/env bash
# prepcli manifest-to-shar as a Slurm job: shards are the units.
#
#   manifest_to_shar.sh train_withContextAudio.json shar --shard-size 4096
#   manifest_to_shar.sh --array=0-15 -- train_withContextAudio.json shar --shard-size 4096
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command cpu manifest-to-shar "$@"
