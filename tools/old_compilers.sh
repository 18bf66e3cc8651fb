#!/usr/bin/env bash
# Builds source forms of packages with the oldest compilers that they promise to support: GCC 9, GCC 10 and Clang 11,
# which Debian 11 has. Needs root, debootstrap and a Debian mirror; the system tree is made once (600 MB).
#
#   tools/old_compilers.sh ROOT SOURCE...     SOURCE: folders of `tfaot-pkg export --source`, or share/*/source of a prefix
#
# ROOT/installed/NAME-COMPILER gets what each compiler made: compare its answers with the published package's.
set -euo pipefail
root=$1
shift
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
if [[ ! -e $root/usr/bin/cmake ]]; then
  debootstrap --variant=minbase --include=g++-9,g++-10,clang-11,cmake,make bullseye "$root" "$mirror"
fi
mkdir -p "$root/sources" "$root/built" "$root/installed"
status=0
for source in "$@"; do
  name=$(sed -nE 's/^project\(([a-z0-9-]+) .*/\1/p' "$source/CMakeLists.txt")
  rm -rf "$root/sources/$name"
  cp -r "$source" "$root/sources/$name"
  for compiler in g++-9 g++-10 clang++-11; do
    here=$name-$compiler
    rm -rf "$root/built/$here" "$root/installed/$here"
    if chroot "$root" cmake -S "/sources/$name" -B "/built/$here" -DCMAKE_CXX_COMPILER="$compiler" \
      -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Werror" >"$root/built/log" 2>&1 &&
      chroot "$root" cmake --build "/built/$here" -j "$(nproc)" >"$root/built/log" 2>&1 &&
      chroot "$root" cmake --install "/built/$here" --prefix "/installed/$here" >"$root/built/log" 2>&1; then
      echo "$here: built"
    else
      tail -n 30 "$root/built/log" >&2
      echo "$here: failed"
      status=1
    fi
  done
done
exit "$status"
