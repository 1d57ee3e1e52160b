#!/usr/bin/env bash
# Installs what the tests need and this machine lacks: a C compiler (for the zstd library), `ip` and `tc` (two hosts in one
# machine; only root can have them, and other users' tests skip them), ext4 and xfs (made and mounted by root alone), fio (storage is
# held against it), strace (it slows the writes of a disk down), systemd (it judges the unit of the package), Node and
# Chromium for the page, Python's venv module, the Python packages of tests/python/requirements.txt in a virtual environment,
# and the packages of web/package-lock.json.
#
#   prepare.sh compiler      what a build needs
#   prepare.sh all VENV      the rest, too
set -euo pipefail
cd "$(dirname "$0")/.."
what=$1

# Installs Debian packages, as root or with sudo.
install() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            echo "missing: $*; install with: sudo apt-get install $*" >&2
            exit 1
        fi
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@"
}

command -v cc >/dev/null || install build-essential
[ "$what" = all ] || exit 0
venv=$2

missing=()
if [ "$(id -u)" -eq 0 ] && ! { command -v ip && command -v tc; } >/dev/null; then
    missing+=(iproute2)
fi
if [ "$(id -u)" -eq 0 ]; then
    command -v mkfs.ext4 >/dev/null || missing+=(e2fsprogs)
    command -v mkfs.xfs >/dev/null || missing+=(xfsprogs)
fi
command -v fio >/dev/null || missing+=(fio)
command -v strace >/dev/null || missing+=(strace)
command -v systemd-analyze >/dev/null || missing+=(systemd)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
[ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || missing+=(chromium)
python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)

[ ${#missing[@]} -eq 0 ] || install "${missing[@]}"

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
# Asked of the packages themselves first: a prepared machine needs no network.
stamp=$venv/requirements.installed
if ! cmp -s tests/python/requirements.txt "$stamp"; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r tests/python/requirements.txt
    cp tests/python/requirements.txt "$stamp"
fi

# Scripts of packages are not run: esbuild's program comes as a package of its own, Chromium from Debian.
if [ ! -e web/node_modules/.package-lock.json ] || [ web/package-lock.json -nt web/node_modules/.package-lock.json ]; then
    (cd web && npm ci --no-audit --no-fund --ignore-scripts --loglevel=error)
fi
