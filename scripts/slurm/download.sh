#!/usr/bin/env bash
# prepcli download as a Slurm job: one task fetches and unpacks; what is unpacked is converted by as many as you like.
#
#   download.sh librispeech --data-root data --data-sets dev_clean --fetch-only     # or where there is internet
#   download.sh --ntasks=8 -- librispeech --data-root data --data-sets dev_clean
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command cpu download "$@"
