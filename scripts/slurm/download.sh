#!/usr/bin/env bash
# prepcli download as a Slurm job: archives are the units, a rank takes one at a time.
#
#   download.sh librispeech --data-root data --data-sets dev_clean,test_clean
#   download.sh --ntasks=2 -- librispeech --data-root data --data-sets dev_clean,test_clean
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command cpu download "$@"
