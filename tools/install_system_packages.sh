#!/usr/bin/env bash
# What the tests need from the system, beside a C++ compiler and Python. Installs on Debian and Ubuntu where we may;
# elsewhere says what is missing and goes on: the tests that need it then skip, or fail where CI=true.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin # where nginx is, also for those who are not root

# program:package
wanted=(
  bwrap:bubblewrap
  clang:clang
  qemu-x86_64:qemu-user
  qemu-aarch64:qemu-user
  valgrind:valgrind
  pkg-config:pkg-config
  xmllint:libxml2-utils
  doxygen:doxygen
  readelf:binutils
  nginx:nginx
  strace:strace
  chromium:chromium
  chromedriver:chromium-driver
  aarch64-linux-gnu-g++:g++-aarch64-linux-gnu
  shellcheck:shellcheck
  systemd-analyze:systemd
  groovy:groovy
)

as_root=()
if ((EUID != 0)); then
  as_root=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT

install_now() { "${as_root[@]}" apt-get install --yes --no-install-recommends "$@" >"$log" 2>&1; }

# What is missing, by names of packages.
install() {
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "not installed, and this is not Debian or Ubuntu: $*" >&2
  elif ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    echo "not installed, and there is no right to: sudo apt-get install $*" >&2
  else
    echo "installing $*"
    install_now "$@" && return
    # The lists of packages may be old or missing (fresh container).
    "${as_root[@]}" apt-get update >/dev/null 2>&1
    install_now "$@" && return
    echo "could not be installed: $*" >&2
    tail -n 5 "$log" >&2
  fi
}

missing=()
for entry in "${wanted[@]}"; do
  command -v "${entry%%:*}" >/dev/null 2>&1 || missing+=("${entry#*:}")
done
if ((${#missing[@]})); then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  install "${missing[@]}"
fi

# Clang's sanitizers: a package of each of its versions, or a part of another one of them. A name that is not found is
# printed as it was asked for.
if command -v clang >/dev/null 2>&1 && [[ $(clang -print-file-name="libclang_rt.asan-$(uname -m).so") != /* ]]; then
  version=$(clang -dumpversion)
  install "libclang-rt-${version%%.*}-dev"
fi
exit 0
