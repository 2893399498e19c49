#!/usr/bin/env bash
# prepcli manifest-to-tarred as a Slurm job: shards are the units.
#
#   manifest_to_tarred.sh train.json tarred --num-shards 512
#   manifest_to_tarred.sh --ntasks=32 --time=1:00:00 -- train.json tarred --num-shards 512
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command cpu manifest-to-tarred "$@"
