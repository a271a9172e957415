#!/usr/bin/env bash
# Installs decree: a released binary whose hash is listed here, else one built from the source that this file belongs to.
# In: WANTED, ACTION_REPOSITORY. Out: path.
set -euo pipefail

source_directory=$(cd "$(dirname "$0")/.." && pwd)
place=${RUNNER_TEMP:?}/decree-bin
mkdir -p "$place"

use() {
  "$1" --version
  printf 'path=%s\n' "$1" >>"$GITHUB_OUTPUT"
  exit 0
}

if [[ $WANTED == installed ]]; then
  found=$(command -v decree) || {
    echo "::error title=decree::'version' is 'installed', but there is no decree on the PATH"
    exit 1
  }
  use "$found"
fi

case ${RUNNER_ARCH:-} in
  X64) target=x86_64-unknown-linux-musl ;;
  ARM64) target=aarch64-unknown-linux-musl ;;
  *) target=none ;;
esac
own_version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$source_directory/Cargo.toml" | head -n 1)
version=${WANTED:-$own_version}
version=${version#v}
if [[ $version != source && ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]]; then
  echo "::error title=decree::'version' has to be a release such as 0.1.0, or 'source' or 'installed'"
  exit 2
fi

asset=decree-$version-$target.tar.gz
hash=$(awk -v asset="$asset" '$2 == asset { print $1 }' "$source_directory/action/checksums.txt")
if [[ -n $hash && -n ${ACTION_REPOSITORY:-} && ${RUNNER_OS:-} == Linux ]]; then
  url=${GITHUB_SERVER_URL:-https://github.com}/$ACTION_REPOSITORY/releases/download/v$version/$asset
  if curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$place/$asset" "$url"; then
    # Run only the exact file that was released, whatever server it came from.
    if ! echo "$hash  $place/$asset" | sha256sum --check --status; then
      echo "::error title=decree::$asset does not have the hash in action/checksums.txt"
      exit 1
    fi
    tar -xzf "$place/$asset" -C "$place" decree
    use "$place/decree"
  fi
  echo "::warning title=decree::cannot download $asset; building decree from source instead"
elif [[ -n $WANTED && $version != source && $version != "$own_version" ]]; then
  echo "::error title=decree::action/checksums.txt has no hash of $asset: use the action at the commit of that release, or leave 'version' empty"
  exit 1
fi

if ! command -v cargo >/dev/null; then
  echo "::error title=decree::there is no released binary for this runner (${RUNNER_OS:-?}, ${RUNNER_ARCH:-?}), and cargo is not installed to build one"
  exit 1
fi
echo "::group::Build decree $own_version from source"
target_directory=${CARGO_TARGET_DIR:-$RUNNER_TEMP/decree-target}
cargo build --release --locked --manifest-path "$source_directory/Cargo.toml" --target-dir "$target_directory"
cp "$target_directory/release/decree" "$place/decree"
echo "::endgroup::"
use "$place/decree"
