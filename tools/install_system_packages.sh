#!/usr/bin/env bash
# What the tests need from the system, beside a C++ compiler and Python. Installs on Debian and Ubuntu where we may;
# elsewhere says what is missing and goes on: the tests that need it then skip, or fail where CI=true.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin # where nginx is, also for those who are not root

# program:package
wanted=(
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

missing=()
for entry in "${wanted[@]}"; do
  command -v "${entry%%:*}" >/dev/null 2>&1 || missing+=("${entry#*:}")
done
((${#missing[@]})) || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

as_root=()
if ((EUID != 0)); then
  as_root=(sudo -n)
fi
if ! command -v apt-get >/dev/null 2>&1; then
  echo "not installed, and this is not Debian or Ubuntu: ${missing[*]}" >&2
  exit 0
fi
if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
  echo "not installed, and there is no right to: sudo apt-get install ${missing[*]}" >&2
  exit 0
fi

echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { "${as_root[@]}" apt-get install --yes --no-install-recommends "${missing[@]}" >"$log" 2>&1; }
if ! install; then
  # The lists of packages may be old or missing (fresh container).
  "${as_root[@]}" apt-get update >/dev/null 2>&1
  if ! install; then
    echo "could not be installed: ${missing[*]}" >&2
    tail -n 5 "$log" >&2
  fi
fi
exit 0
