#!/usr/bin/env bash
# LibriSpeech for NeMo: fetched, tarred, checked, and with its bins for bucketed training; and the same for WeNet and as Parquet.
#
#   recipes/librispeech/run.sh                                # train_clean_100 and dev_clean: 6.7 GB to fetch
#   DATA_SETS=mini TRAIN=train_clean_5 recipes/librispeech/run.sh   # Mini LibriSpeech: 0.5 GB
#   recipes/librispeech/run.sh --mini                         # without internet: makes a miniature and serves it from this machine
#   WORK=/data/librispeech recipes/librispeech/run.sh         # results elsewhere (default: recipes/librispeech/work)
#
# Safe to run again: finished work is kept, and a download continues where it stopped. PREPCLI_PYTHON names a Python to
# use instead of .venv.
set -euo pipefail
# shellcheck source=recipes/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"
DATA_SETS=${DATA_SETS:-train_clean_100,dev_clean}
TRAIN=${TRAIN:-train_clean_100}
SHARDS=${SHARDS:-64}

bins=30
set_up parquet
if [[ ${1:-} == --mini ]]; then
    DATA_SETS=mini TRAIN=train_clean_5 SHARDS=2 bins=4
    serve_miniatures dev-clean-2.tar.gz train-clean-5.tar.gz
fi

show prepcli download librispeech --data-root "$WORK/data" --data-sets "$DATA_SETS" ${site[@]+"${site[@]}"}
show prepcli manifest-to-tarred "$WORK/data/$TRAIN.json" "$WORK/tarred" --num-shards "$SHARDS" --shuffle
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$WORK/data/$TRAIN.json" -b "$bins"
show prepcli manifest-to-wenet "$WORK/data/$TRAIN.json" "$WORK/wenet" --target-sample-rate 16000 --relative-to "$WORK"
show prepcli manifest-to-parquet "$WORK/data/$TRAIN.json" "$WORK/parquet"
show prepcli status "$WORK/data"

cat <<END

What to look at
  $WORK/data/$TRAIN.json
      the manifest; its paths are relative to its folder, so $WORK/data can be moved
  $WORK/tarred
      the shards for training; verify has decoded all of them
  $WORK/wenet/shards.list
      the shards for WeNet; their paths start from $WORK
  $WORK/parquet
      the same as Parquet, for Hugging Face datasets and NeMo
END
