#!/usr/bin/env bash
# prepcli extend-context-audio as a Slurm job: one rank a GPU.
#
#   extend_context_audio.sh train.json context --audio-base-dir audio
#   extend_context_audio.sh --ntasks=16 -- train.json context --audio-base-dir audio
#
# Before the -- stand options of sbatch, or --dry-run. Settings of the site: cluster.env. See README.md.
# shellcheck source=scripts/slurm/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
submit_command gpu extend-context-audio "$@"
