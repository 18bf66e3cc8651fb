#!/usr/bin/env bash
# Compilers of other Debian releases, as programs of this machine: from the oldest that packages promise to support, GCC 9
# and Clang 11, to the newest that Debian has. Needs root, debootstrap, bubblewrap and a Debian mirror; 5 GB.
#
#   DEBIAN_MIRROR=... tools/other_compilers.sh ROOT
#
# ROOT/bin gets g++-9, clang++-11 ... With it in PATH, tests of compilers try them, too:
#
#   PATH=ROOT/bin:$PATH make test-nightly test-release PYTEST_ARGS='-k every_compiler'
set -euo pipefail
root=$(realpath -m "$1")
mirror=${DEBIAN_MIRROR:?the address of a mirror of Debian}
export DEBIAN_FRONTEND=noninteractive
mkdir -p "$root/bin"

# release NAME PACKAGES COMPILER...: the system tree of a release with some compilers, made once.
release() {
  local tree=$root/$1 compiler packages
  read -ra packages <<<"$2"
  shift 2
  if [[ ! -e $tree/.complete ]]; then
    rm -rf "$tree"
    debootstrap --variant=minbase "$(basename "$tree")" "$tree" "$mirror"
    # The lists of a mirror may be older than Debian lets them be.
    chroot "$tree" apt-get update -o Acquire::Check-Valid-Until=false
    chroot "$tree" apt-get install --yes --no-install-recommends libx11-dev "${packages[@]}"
    touch "$tree/.complete"
  fi
  for compiler in "$@"; do
    program "$tree" "$compiler" >"$root/bin/$compiler"
    chmod +x "$root/bin/$compiler"
  done
}

# A script that runs a compiler in its tree, where it sees this machine's files, except those of the system.
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

# LLVM: the plugin of linkers. musl: another C library, for tools/make_macros.py.
release bullseye "g++-9 g++-10 clang-11 llvm-11-dev" g++-9 g++-10 clang++-11
release trixie "g++-13 g++-14 clang-17 clang-19 clang-22" g++-13 g++-14 clang++-17 clang++-19 clang++-22
release sid "g++-15 g++-16 clang-21 clang-23 musl-tools" g++-15 g++-16 clang++-21 clang++-23 musl-gcc
