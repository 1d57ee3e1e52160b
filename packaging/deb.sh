#!/bin/bash
# Makes a Debian package of a program that is built already.
#
#     deb.sh PROGRAM FOLDER ─► FOLDER/thalweg_VERSION_ARCHITECTURE.deb, whose path is printed
set -euo pipefail

program=$(realpath "$1")
mkdir -p "$2"
folder=$(realpath "$2")
cd "$(dirname "$0")/.."

for tool in dpkg-deb objdump gzip; do
    if ! command -v "$tool" >/dev/null; then
        echo "$tool is not installed: \`apt install dpkg binutils gzip\` has it" >&2
        exit 1
    fi
done

version=$("$program" --version | cut -d ' ' -f 2)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# What mktemp makes is for its owner alone, and this becomes / of the package.
chmod 755 "$root"

install -D -m 755 "$program" "$root/usr/bin/thalweg"
strip --strip-debug "$root/usr/bin/thalweg"
install -D -m 644 packaging/thalweg@.service "$root/lib/systemd/system/thalweg@.service"
install -D -m 644 packaging/run.toml "$root/etc/thalweg/run.toml"

documents=$root/usr/share/doc/thalweg
install -d "$documents/examples"
cp -r --no-preserve=mode,ownership examples/. packaging/capabilities.conf "$documents/examples"
install -m 644 LICENSE-MIT LICENSE-APACHE "$documents"
printf 'thalweg is licensed under MIT or Apache-2.0, at your choice: see LICENSE-MIT and LICENSE-APACHE.\n' >"$documents/copyright"
gzip -9n <CHANGELOG.md >"$documents/changelog.gz"

# Manual and completions come from the program, so that they are those of this version.
pages=$root/usr/share
install -d "$pages/man/man1" "$pages/bash-completion/completions" "$pages/zsh/vendor-completions" "$pages/fish/vendor_completions.d"
"$program" manual | gzip -9n >"$pages/man/man1/thalweg.1.gz"
"$program" completions bash >"$pages/bash-completion/completions/thalweg"
"$program" completions zsh >"$pages/zsh/vendor-completions/_thalweg"
"$program" completions fish >"$pages/fish/vendor_completions.d/thalweg.fish"

# The C library that the program was linked against, or a later one.
library=$(objdump -T "$program" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
install -d "$root/DEBIAN"
install -m 755 packaging/debian/postinst packaging/debian/prerm packaging/debian/postrm "$root/DEBIAN"
echo /etc/thalweg/run.toml >"$root/DEBIAN/conffiles"
cat >"$root/DEBIAN/control" <<CONTROL
Package: thalweg
Version: $version
Architecture: $architecture
Maintainer: The thalweg developers <maintainers@thalweg.invalid>
Installed-Size: $(du -sk "$root" | cut -f 1)
Depends: libc6 (>= ${library#GLIBC_}), libgcc-s1, passwd
Section: science
Priority: optional
Homepage: https://github.com/thalweg-daq/thalweg
Description: network data acquisition for physics
 Receives the data of front-end boards over UDP and TCP, orders hits in time,
 builds events of triggered boards, counts every loss, and records Arrow files
 that pyarrow, polars and DuckDB read. With a live page and a systemd service.
CONTROL

package=$folder/thalweg_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
