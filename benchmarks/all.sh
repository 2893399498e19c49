#!/usr/bin/env bash
# All benchmarks but those of GPUs and of ten million lines (scale.py), one after the other, for an idle machine.
#
#   bash benchmarks/all.sh FOLDER      # FOLDER/<name>.txt has what each has printed, FOLDER/machine.txt the versions
#   WENET_PYTHON=VENV/bin/python bash benchmarks/all.sh FOLDER      # see exports.py
set -uo pipefail # without -e: when one fails, the others still run
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
folder=${1:?"where to: bash benchmarks/all.sh FOLDER"}
mkdir -p "$folder"
export PYTHONPATH=$PWD

{
    printf 'commit %s, %s\n' "$(git describe --always --dirty)" "$(date -u '+%F %H:%M UTC')"
    printf '%s, %s cores, %s\n' "$(sed -n 's/^model name.*: //p;T;q' /proc/cpuinfo)" "$(nproc)" "$(uname -sr)"
    printf 'load %s\n' "$(cut -d ' ' -f 1-3 /proc/loadavg)"
    .venv/bin/python - <<'EOF'
import platform
from importlib.metadata import PackageNotFoundError, version

print("Python", platform.python_version())
peers = "lhotse nemo_toolkit torch torchaudio soundfile datasets silero-vad webdataset pyarrow smart_open obstore librosa pyloudnorm"
for name in peers.split():
    try:
        print(name, version(name))
    except PackageNotFoundError:
        print(name, "is not installed")
EOF
    tar --version | sed -n 1p
    sox --version
} >"$folder/machine.txt" 2>&1

measure() {
    local name=$1 script=benchmarks/$2 start=$SECONDS
    shift 2
    .venv/bin/python "$script" "$@" >"$folder/$name.txt" 2>"$folder/$name.err" ||
        echo "$name: FAILED, see $folder/$name.err"
    echo "$name: $((SECONDS - start)) s"
}

measure exports exports.py --files 1500 --runs 3 ${WENET_PYTHON:+--wenet-python "$WENET_PYTHON"}
measure object_store object_store.py --files 1000 --few 100 --written 2000 --runs 2
measure mels mels.py --files 3000 --runs 2
measure bins bins.py
measure bins_2d bins.py --two-d --lines 200000
measure shar shar.py
measure index index.py --lhotse .venv/lhotse2
measure context context.py --large 50000
measure codes codes.py --records 96 --shard-size 48 --runs 1
measure resample resample.py
measure corpora corpora.py
measure make_manifest make_manifest.py
measure lhotse_join lhotse_join.py
measure filter filter.py
measure score score.py
measure segment segment.py
measure tarred tarred.py --files 8000
measure containers containers.py
measure small_files small_files.py
measure duplicates duplicates.py
measure duplicates_by_hours duplicates.py --hours 10 30
measure passports passports.py
measure stealing stealing.py
