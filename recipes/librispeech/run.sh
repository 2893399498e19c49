#!/usr/bin/env bash
# LibriSpeech for NeMo: fetched, tarred, checked, and with its bucket bins.
#
#   recipes/librispeech/run.sh                                # train_clean_100 and dev_clean: 6.7 GB to fetch
#   DATA_SETS=mini TRAIN=train_clean_5 recipes/librispeech/run.sh   # Mini LibriSpeech: 0.5 GB
#   recipes/librispeech/run.sh --mini                         # no internet: a miniature that is made and served here
#   WORK=/data/librispeech recipes/librispeech/run.sh         # results elsewhere (default: recipes/librispeech/work)
#
# Safe to run again: what is finished is kept, and a download goes on where it stopped.
set -euo pipefail
DATA_SETS=${DATA_SETS:-train_clean_100,dev_clean}
TRAIN=${TRAIN:-train_clean_100}
SHARDS=${SHARDS:-64}
WORK=${WORK:-recipes/librispeech/work}
case $WORK in
    /* | recipes/librispeech/work) ;;
    *) WORK=$PWD/$WORK ;; # relative to where it was called
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source=()
bins=30
PREPCLI_EXTRAS=${PREPCLI_EXTRAS:-none} bash scripts/setup.sh
if [[ ${1:-} == --mini ]]; then
    DATA_SETS=mini TRAIN=train_clean_5 SHARDS=2 bins=4
    rm -rf "$WORK/site"
    .venv/bin/python -m tests.corpora "$WORK/site" dev-clean-2.tar.gz train-clean-5.tar.gz &
    trap 'kill %1' EXIT
    until [[ -f $WORK/site/url ]]; do
        kill -0 %1
        sleep 0.1
    done
    # Miniatures are not what is published, so their checksums take the place of the published ones.
    source=(--base-url "$(<"$WORK/site/url")" --checksums "$WORK/site/md5sum.txt")
fi

# Shows a command as one would type it, then runs it.
show() {
    printf '\n$ %s\n' "$*"
    ".venv/bin/$1" "${@:2}"
}

show prepcli download librispeech --data-root "$WORK/data" --data-sets "$DATA_SETS" ${source[@]+"${source[@]}"}
show prepcli manifest-to-tarred "$WORK/data/$TRAIN.json" "$WORK/tarred" --num-shards "$SHARDS" --shuffle
show prepcli verify "$WORK/tarred"
show prepcli estimate-bins "$WORK/data/$TRAIN.json" -b "$bins"
show prepcli status "$WORK/data"

cat <<END

What to look at
  $WORK/data/$TRAIN.json
      the manifest, its paths relative to itself, so that $WORK/data can be moved
  $WORK/tarred
      the shards for training; verify has decoded them all
END
