#!/bin/sh
# run_zarrita.sh STORES NODE_FOLDER: installs zarrita, as pinned by the lockfile, into NODE_FOLDER once and lets it read the stores.
# Exit code 77: node or npm is not installed, or npm cannot fetch. With CRATON_REQUIRE_INTEROP set these are failures.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
stores=$1 folder=$2

skip() {
  echo "skipped: $1"
  [ -z "${CRATON_REQUIRE_INTEROP:-}" ] || exit 1
  exit 77
}

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are not installed"
mkdir -p "$folder"
if ! cmp -s "$here/package-lock.json" "$folder/installed.json"; then
  cp "$here/package.json" "$here/package-lock.json" "$folder/"
  (cd "$folder" && npm ci --no-audit --no-fund --silent) || skip "npm could not install zarrita"
  cp "$here/package-lock.json" "$folder/installed.json"
fi
cp "$here/read_with_zarrita.mjs" "$folder/"
exec node "$folder/read_with_zarrita.mjs" "$stores"
