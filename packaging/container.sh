#!/bin/bash
# Makes an image of the program from Containerfile with whichever engine is here.
#
#     container.sh NAME ─► an image of that name
set -euo pipefail
cd "$(dirname "$0")/.."

for engine in podman docker; do
    if ! command -v "$engine" >/dev/null; then
        continue
    elif ! "$engine" info >/dev/null 2>&1; then
        echo "$engine is installed and does not answer (\`$engine info\` says why)" >&2
    else
        exec "$engine" build --file packaging/Containerfile --tag "$1" .
    fi
done
echo "no container engine can be used: install podman (\`apt install podman\`) or start the docker service, then \`make container\` again" >&2
exit 1
