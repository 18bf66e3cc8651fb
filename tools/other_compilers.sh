#!/usr/bin/env bash
# Tries the headers with every compiler from the oldest that packages promise to support, GCC 9 and Clang 11, to the newest
# that Debian has, and prints a table of results. Needs root, debootstrap, bubblewrap, a Debian mirror and pip; 10 GB.
#
#   DEBIAN_MIRROR=... tools/other_compilers.sh ROOT [ARGUMENTS OF PYTEST]
#
# ROOT/bin gets g++-9, clang++-11 ...: compilers of other Debian releases as programs of this machine. With it in PATH, other
# tests of compilers try them, too (tests/README.md).
set -euo pipefail
root=$(realpath -m "$1")
mirror=${DEBIAN_MIRROR:?the address of a mirror of Debian}
export DEBIAN_FRONTEND=noninteractive
cd "$(dirname "$0")/.."
mkdir -p "$root/bin"

# release NAME PACKAGES COMPILER...: the system tree of a release with some compilers, made once.
release() {
  local tree=$root/$1 wanted=$2 compiler packages
  read -ra packages <<<"$2"
  shift 2
  if [[ $(cat "$tree/.complete" 2>/dev/null) != "$wanted" ]]; then
    rm -rf "$tree"
    debootstrap --variant=minbase "$(basename "$tree")" "$tree" "$mirror"
    # The lists of a mirror may be older than Debian lets them be.
    chroot "$tree" apt-get update -o Acquire::Check-Valid-Until=false
    chroot "$tree" apt-get install --yes --no-install-recommends libx11-dev "${packages[@]}"
    echo "$wanted" >"$tree/.complete"
  fi
  for compiler in "$@"; do
    program "$tree" "$compiler" >"$root/bin/${compiler%% *}"
    chmod +x "$root/bin/${compiler%% *}"
  done
}

# A script that runs a compiler, which may have options, in its tree. It sees this machine's files, except those of the
# system.
program() {
  cat <<END
#!/usr/bin/env bash
places=()
for place in /*; do
  case \$place in
    /bin | /boot | /dev | /etc | /lib* | /proc | /run | /sbin | /sys | /usr | /var) ;;
    *) [[ -d \$place ]] && places+=(--bind "\$place" "\$place") ;;
  esac
done
exec bwrap --bind $1 / "\${places[@]}" --dev-bind /dev /dev --proc /proc --chdir "\$PWD" /usr/bin/$2 "\$@"
END
}

# wheel VERSION COMPILER: Clang from a wheel of the Zig compiler, which contains it, with this machine's C++ library.
wheel() {
  local folder=$root/$2
  if [[ $(cat "$folder/.complete" 2>/dev/null) != "$1" ]]; then
    rm -rf "$folder"
    python3 -m pip install --quiet --no-deps --target "$folder" "ziglang==$1"
    echo "$1" >"$folder/.complete"
  fi
  cat >"$root/bin/$2" <<END
#!/usr/bin/env bash
folder=$folder
options=(--target=$(uname -m)-linux-gnu -resource-dir "\$folder/ziglang/lib" -Qunused-arguments --ld-path="\$folder/ld.lld")
exec "\$folder/ziglang/zig" clang --driver-mode=g++ "\${options[@]}" "\$@"
END
  # By this name, Clang gives it no plugin for optimization when linking.
  printf '#!/bin/sh\nexec "%s/ziglang/zig" ld.lld "$@"\n' "$folder" >"$folder/ld.lld"
  chmod +x "$root/bin/$2" "$folder/ld.lld"
}

# LLVM: the plugin of linkers. musl: another C library, for tools/make_macros.py.
release bullseye "g++-9 g++-10 clang-11 llvm-11-dev" g++-9 g++-10 clang++-11
release bookworm "g++-11 g++-12 clang-13 clang-14 clang-15 clang-16" g++-11 g++-12 clang++-{13,14,15,16}
# Clang 17 cannot read GCC 14's library as C++23.
release trixie "g++-13 g++-14 clang-17 clang-18 clang-19 clang-22" g++-13 g++-14 clang++-{18,19,22} \
  "clang++-17 --gcc-install-dir=/usr/lib/gcc/$(uname -m)-linux-gnu/13"
release sid "g++-15 g++-16 clang-21 clang-23 musl-tools" g++-15 g++-16 clang++-21 clang++-23 musl-gcc
# No release of Debian has these.
wheel 0.8.1 clang++-12
wheel 0.15.2 clang++-20

make venv
PATH=$root/bin:$PATH .venv/bin/python -m pytest -p tests.compiler_table tests/package/test_every_compiler.py "${@:2}"
