#!/usr/bin/env bash
# Finds a decree to run: a released binary whose hash is known here, else one made from the source this file belongs to.
# In: WANTED, ACTION_REPOSITORY. Out: path.
set -euo pipefail

source_directory=$(cd "$(dirname "$0")/.." && pwd)
place=${RUNNER_TEMP:?}/decree-bin
mkdir -p "$place"

answer() {
  "$1" --version
  printf 'path=%s\n' "$1" >>"$GITHUB_OUTPUT"
  exit 0
}

if [[ $WANTED == installed ]]; then
  found=$(command -v decree) || {
    echo "::error title=decree::'version' is 'installed', and there is no decree in the PATH"
    exit 1
  }
  answer "$found"
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
  echo "::error title=decree::'version' is neither a release such as 0.1.0 nor 'source' or 'installed'"
  exit 2
fi

asset=decree-$version-$target.tar.gz
hash=$(awk -v asset="$asset" '$2 == asset { print $1 }' "$source_directory/action/checksums.txt")
if [[ -n $hash && -n ${ACTION_REPOSITORY:-} && ${RUNNER_OS:-} == Linux ]]; then
  url=${GITHUB_SERVER_URL:-https://github.com}/$ACTION_REPOSITORY/releases/download/v$version/$asset
  if curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$place/$asset" "$url"; then
    # Another file than the one that was released is not run, whoever hands it out.
    if ! echo "$hash  $place/$asset" | sha256sum --check --status; then
      echo "::error title=decree::$asset is not the file whose hash stands in action/checksums.txt"
      exit 1
    fi
    tar -xzf "$place/$asset" -C "$place" decree
    answer "$place/decree"
  fi
  echo "::warning title=decree::$asset could not be downloaded; decree is built from source instead"
elif [[ -n $WANTED && $version != source && $version != "$own_version" ]]; then
  echo "::error title=decree::no hash of $asset stands in action/checksums.txt: use the action at the commit of that release, or leave 'version' empty"
  exit 1
fi

if ! command -v cargo >/dev/null; then
  echo "::error title=decree::there is no released binary for this runner (${RUNNER_OS:-?}, ${RUNNER_ARCH:-?}), and no cargo to build one"
  exit 1
fi
echo "::group::Build decree $own_version from source"
target_directory=${CARGO_TARGET_DIR:-$RUNNER_TEMP/decree-target}
cargo build --release --locked --manifest-path "$source_directory/Cargo.toml" --target-dir "$target_directory"
cp "$target_directory/release/decree" "$place/decree"
echo "::endgroup::"
answer "$place/decree"
