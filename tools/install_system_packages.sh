#!/usr/bin/env bash
# Programs that the tests need, beside a C++ compiler and Python. Installs them on Debian and Ubuntu if it has the rights;
# else it prints what is missing and succeeds: the tests that need it then skip, or fail if CI=true.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin # nginx is there, which the PATH of other users than root lacks

# program:package
wanted=(
  bwrap:bubblewrap
  clang:clang
  g++-11:g++-11
  clang++-13:clang-13
  clang++-19:clang-19
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
  groff:groff-base
  systemd-analyze:systemd
  groovy:groovy
  zsh:zsh
  fish:fish
  node:nodejs
  npm:npm
  munged:munge
  slurmctld:slurmctld
  slurmd:slurmd
  sbatch:slurm-client
  docker-registry:docker-registry
  skopeo:skopeo
  dh:debhelper
  nix-build:nix-bin
)

# header:package
headers=(
  eigen3/unsupported/Eigen/CXX11/ThreadPool:libeigen3-dev
  tbb/parallel_for.h:libtbb-dev
)

as_root=()
if ((EUID != 0)); then
  as_root=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT

install_now() { "${as_root[@]}" apt-get install --yes --no-install-recommends "$@" >"$log" 2>&1; }

# Installs the packages that are given by name.
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
for entry in "${headers[@]}"; do
  [[ -e /usr/include/${entry%%:*} ]] || missing+=("${entry#*:}")
done
if ((${#missing[@]})); then
  mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
  install "${missing[@]}"
fi

# Clang's sanitizers: each version has its own package, or includes them in another one. If clang does not find a file,
# it prints the name unchanged, without a path.
if command -v clang >/dev/null 2>&1 && [[ $(clang -print-file-name="libclang_rt.asan-$(uname -m).so") != /* ]]; then
  version=$(clang -dumpversion)
  install "libclang-rt-${version%%.*}-dev"
fi
exit 0
