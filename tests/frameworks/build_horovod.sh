#!/usr/bin/env bash
# Builds Horovod 0.28.1 into an environment: build_horovod.sh PYTHON tensorflow|torch. Some minutes; needs cmake, g++
# and, for MPI beside gloo, libopenmpi-dev. Horovod is built against the framework that is installed there.
set -euo pipefail
python=$1 framework=$2 version=0.28.1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m pip install --quiet --disable-pip-version-check "setuptools<81" wheel cffi psutil pyyaml packaging cloudpickle
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation \
  --dest "$work" "horovod==$version"
tar -xzf "$work/horovod-$version.tar.gz" -C "$work"
cd "$work/horovod-$version"
# PyTorch's headers from 2.1 on need C++17.
sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' CMakeLists.txt horovod/torch/CMakeLists.txt
# Tests need it soon, not fast: its -O3 and -g are a quarter to a half of the compiler's time.
sed -i 's/"-O2" "-O3"/"-O2 -g" "-O1"/' CMakeLists.txt

case $framework in
  tensorflow) export HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 ;;
  torch) export HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITH_PYTORCH=1 ;;
  *) echo "build_horovod.sh: $framework is neither tensorflow nor torch" >&2; exit 2 ;;
esac
if command -v mpicxx >/dev/null; then export HOROVOD_WITH_MPI=1; else export HOROVOD_WITHOUT_MPI=1; fi
export HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MXNET=1 MAKEFLAGS="-j$(nproc)"
# pip would take a wheel it built before, whatever it was built with.
"$python" -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-cache-dir .
