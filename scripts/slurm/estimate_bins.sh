#!/usr/bin/env bash
# prepcli estimate-bins as a Slurm job: one task; the bins are in the log of rank 0.
#
#   estimate_bins.sh train.json -b 30 --json
#   estimate_bins.sh --cpus-per-task=16 -- train.json -b 30 --json
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command cpu estimate-bins "$@"
