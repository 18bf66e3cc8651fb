#!/usr/bin/env bash
# `make demo`: from a model's spec to its accuracy computed in C++. All output is below build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."

model=recipes/tfaot-model-digits/all
demo=build/demo
export TFAOT_HOME=${TFAOT_HOME:-$PWD/$demo/home}

step() {
  printf '\n$ %s\n' "$*"
  "$@"
}

step tfaot-pkg publish "$model/spec.yaml" --registry "$demo/registry"
step tfaot-pkg install tfaot-model-digits --registry "$demo/registry" --prefix "$demo/prefix"
step cmake -S examples/cmake-consumer -B "$demo/consumer" -G Ninja -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$PWD/$demo/prefix"
step cmake --build "$demo/consumer"
step "$demo/consumer/digits-accuracy" "$model/data/held-out.csv"

printf '\nThe registry, the prefix and the program are in %s.\n' "$demo"
