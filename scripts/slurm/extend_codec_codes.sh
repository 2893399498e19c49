#!/usr/bin/env bash
# prepcli extend-codec-codes as a Slurm job: one rank a GPU.
#
#   extend_codec_codes.sh shar --codec-model codec.nemo
#   extend_codec_codes.sh --ntasks=16 -- shar --codec-model codec.nemo
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command gpu extend-codec-codes "$@"
