#!/usr/bin/env bash
# Makes .venv in the repository root and installs prepcli into it, in editable form.
#
#   scripts/setup.sh                       # everything: NeMo, plots, the tools that tests need (all,dev)
#   PREPCLI_EXTRAS=dev scripts/setup.sh    # only these extras and dependency groups (commas between several; "none" for
#                                          # none); the group dev brings the extras that tests need, all but nemo
#   scripts/setup.sh -v                    # shows what the installer says
#
# Uses uv if it is installed, else venv and pip. A second run does nothing unless pyproject.toml or the extras have
# changed; installed extras stay. Nothing is installed into a .venv that is a link to an environment elsewhere.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

quiet=(--quiet)
case "${1:-}" in
    "") ;;
    -v | --verbose) quiet=() ;;
    *) die "unknown argument: $1 (see the head of scripts/setup.sh)" ;;
esac

wanted=${PREPCLI_EXTRAS:-all,dev}
wanted=${wanted// /}
[[ $wanted =~ ^[a-z0-9,_-]+$ ]] || die "PREPCLI_EXTRAS must be names with commas between them, not: $wanted"

# What is installed, in three lines. It is written last, so an interrupted run does not look finished.
stamp=.venv/.prepcli-setup
ground=$(cksum <pyproject.toml) # changes when the dependencies do
old_root="" old_ground="" old_extras=""
if [[ -f $stamp ]]; then
    { read -r old_root && read -r old_ground && read -r old_extras; } <"$stamp" || true
fi

# The extras and dependency groups to install: the requested ones and those that are installed already.
is_known() { grep -q "^$1 = \[" pyproject.toml; }
extras=""
IFS=, read -r -a names <<<"$old_extras"
for name in ${names[@]+"${names[@]}"}; do
    if is_known "$name"; then extras=${extras:+$extras,}$name; fi # older versions had others
done
IFS=, read -r -a names <<<"$wanted"
for name in "${names[@]}"; do
    [[ -z $name || $name == none ]] && continue
    is_known "$name" || die "no such extra or dependency group in pyproject.toml: $name"
    [[ ,$extras, == *,"$name",* ]] && continue
    [[ ,$extras, == *,all,* && ! $name =~ ^(dev|docs|dask|ray)$ ]] && continue
    extras=${extras:+$extras,}$name
done
has() { [[ ,$extras, =~ ,($1), ]]; } # extended regular expression: has "models|all"

venv_works() { .venv/bin/python -c "import sys; sys.exit(sys.version_info < (3, 10))" 2>/dev/null; }

activate() { say "to use it: source $(printf '%q' "$PWD/.venv/bin/activate")"; }

# lhotse 2 judges indexes in tests. It lies aside, because NeMo 3.0 needs lhotse 1.
lhotse2=lhotse==2.0.0a7
has_lhotse2() { [[ -d .venv/lhotse2/${lhotse2/==/-}.dist-info ]]; }
# PyAV decodes AAC, in its tests. It lies aside, so that all others are with ffmpeg, which most users have.
has_pyav() { [[ -d .venv/pyav/av ]]; }
# What --normalize imports, for its test. It lies aside, because it brings a package that is called tests.
normalizer=nemo_text_processing==1.2.0
with_it=(pynini cdifflib editdistance inflect typeguard more_itertools jaraco.functools sacremoses wget)
has_normalizer() { [[ -d .venv/normalizer/${normalizer/==/-}.dist-info ]]; }
without_normalizer=.venv/normalizer/cannot-be-installed
# The object store of tests, in an environment of its own.
swift=swift==2.38.3
has_swift() { .venv/object_store/bin/python -c "import sys, swift; sys.exit('swift==' + swift.__version__ != '$swift')" 2>/dev/null; }
without_store=.venv/object_store/cannot-be-installed

if [[ $old_root == "$PWD" && $old_ground == "$ground" && $old_extras == "$extras" ]] && venv_works \
    && { { has_lhotse2 && has_pyav && { has_normalizer || [[ -e $without_normalizer ]]; } && { has_swift || [[ -e $without_store ]]; }; } || ! has dev; }; then
    say "up to date: .venv has prepcli${extras:+[$extras]}"
    activate
    exit 0
fi

if [[ -L .venv ]] && venv_works; then
    say "up to date: .venv is a link to $(realpath .venv), which is used as it is"
    activate
    exit 0
fi

# A command that cannot run (such as a pyenv shim) does not count.
uv=""
if uv --version >/dev/null 2>&1; then uv=uv; fi

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11 python3.10 python; do
        "$candidate" -c "import sys; assert sys.version_info >= (3, 10); print(sys.executable)" 2>/dev/null && return
    done
    return 1
}

hint=""
# A virtual environment that was copied or moved still points to the old folder: make it again.
if [[ -n $old_root && $old_root != "$PWD" ]] || ! venv_works; then
    if [[ -e .venv ]]; then say "removing .venv: it is broken, or was made for another folder"; fi
    rm -rf .venv
    python=$(find_python) || python=""
    hint=" (without a warm cache this fetches PyTorch: gigabytes, several minutes)"
    if [[ -n $uv ]]; then
        say "making .venv with $(uv --version | cut -d' ' -f1,2)${python:+ and $python}"
        uv venv --quiet --python "${python:->=3.10}" .venv
    elif [[ -z $python ]]; then
        die "no Python 3.10 or newer on PATH (python3 there: $(python3 --version 2>/dev/null || echo none))" \
            "install one (Debian 12, Ubuntu 22.04 or newer: sudo apt-get install python3 python3-venv), or uv"
    elif ! "$python" -c "import venv, ensurepip" 2>/dev/null; then
        minor=$("$python" -c "import sys; print('%d.%d' % sys.version_info[:2])")
        die "$python has no venv module: sudo apt-get install python$minor-venv (Debian, Ubuntu)"
    else
        say "making .venv with venv and $python"
        "$python" -m venv .venv
    fi
fi

if [[ -n $uv ]]; then
    # As pip does. Else the first imports compile, NeMo's for half a minute, and in each rank where .venv is read-only.
    install=(uv pip install --compile-bytecode --python .venv/bin/python)
else
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null 2>&1 \
        || die ".venv was made by uv and has no pip: delete it and run this again"
    install=(.venv/bin/python -m pip install --disable-pip-version-check)
fi
say "installing prepcli${extras:+[$extras]} with ${uv:-pip}$hint"
SECONDS=0
rm -f "$stamp"
listed=,$extras,
groups=()
for name in dev docs; do
    if has "$name"; then groups+=(--group "$name"); fi
    listed=${listed/,$name,/,}
done
# A group cannot name extras of prepcli itself: the installer would look for it in the package index.
if has dev; then listed=${listed}models,lhotse,s3,parquet,plot,hf,score; fi
listed=${listed#,}
listed=${listed%,}
failed="the installation failed, see above; it is safe to run this again (-v shows more)"
if [[ -z $uv ]] && ((${#groups[@]})); then # Debian 12 has pip 23
    "${install[@]}" ${quiet[@]+"${quiet[@]}"} "pip>=25.1" || die "$failed"
fi
"${install[@]}" ${quiet[@]+"${quiet[@]}"} -e ".${listed:+[$listed]}" ${groups[@]+"${groups[@]}"} || die "$failed"
# NeMo's models import librosa, which compiles functions with Numba for 15 seconds, and keeps them. Beside what follows.
if has "nemo|all"; then .venv/bin/python -c "import librosa.core.pitch" &>/dev/null & fi
# Only the weights of Resemblyzer are used. It requires a package that must be compiled with Python's headers.
if has "models|nemo|dev|all"; then
    "${install[@]}" ${quiet[@]+"${quiet[@]}"} --no-deps "Resemblyzer>=0.1.4" || die "$failed"
fi
if has dev && ! has_lhotse2; then
    rm -rf .venv/lhotse2
    "${install[@]}" ${quiet[@]+"${quiet[@]}"} --no-deps --target .venv/lhotse2 "$lhotse2" || die "$failed"
fi
if has dev && ! has_pyav; then
    "${install[@]}" ${quiet[@]+"${quiet[@]}"} --no-deps --target .venv/pyav "av>=14,<19" || die "$failed"
fi
if has dev && ! has_normalizer; then
    rm -rf .venv/normalizer
    if ! "${install[@]}" ${quiet[@]+"${quiet[@]}"} --no-deps --target .venv/normalizer "$normalizer" "${with_it[@]}"; then
        say "nemo_text_processing cannot be installed here, see above; its test is skipped"
        mkdir -p .venv/normalizer && touch "$without_normalizer"
    fi
fi
install_object_store() {
    rm -rf .venv/object_store .venv/boto3
    if [[ -n $uv ]]; then
        uv venv --quiet --python .venv/bin/python .venv/object_store || return
        in_store=(uv pip install --compile-bytecode --python .venv/object_store/bin/python)
    else
        .venv/bin/python -m venv .venv/object_store || return
        in_store=(.venv/object_store/bin/python -m pip install --disable-pip-version-check)
    fi
    "${in_store[@]}" ${quiet[@]+"${quiet[@]}"} "$swift" "setuptools>=75,<81" || return
    # What lhotse and NeMo read s3:// with; aside, because it needs older packages than other parts.
    "${install[@]}" ${quiet[@]+"${quiet[@]}"} --target .venv/boto3 "boto3>=1.40"
}
if has dev && ! has_swift && ! install_object_store; then
    # It has parts in C, and not every machine has a wheel or a compiler for them.
    say "the object store of the tests cannot be installed here, see above; the tests that need it are skipped"
    mkdir -p .venv/object_store && touch "$without_store"
fi
.venv/bin/python -m compileall -qq prepcli || true
wait
printf '%s\n' "$PWD" "$ground" "$extras" >"$stamp"
say "done in $SECONDS s"
activate
