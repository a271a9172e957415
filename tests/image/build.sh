# Builds the image from the Dockerfile as it stands, without a registry of images: the two base images are made here with debootstrap and put in
# place of the named ones. The toolchain and what this machine needs to reach package registries are lent to the build as volumes,
# of which only empty mount points stay in the image. Sourced.

# The bases as the Dockerfile names them, and what stands in for them.
rust_named=$(sed -n 's/^FROM \(rust:[^ ]*\) AS .*/\1/p' "$root/Dockerfile")
debian_named=$(sed -n 's/^FROM \(debian:[^ ]*\) AS .*/\1/p' "$root/Dockerfile")
release=${debian_named#debian:}
release=${release%-slim}
[[ $rust_named == *-slim-$release ]] || fail "$rust_named is not built on $debian_named"
debian_base=localhost/decree-test/debian:$release
rust_base=localhost/decree-test/rust:$release

# debian:…-slim, near enough: a minimal system without documentation.
make_debian_base() {
  command podman image exists "$debian_base" && return
  step "making a base image of Debian $release"
  local system=$cache/debian-$release
  if [ ! -e "$system.made" ]; then
    rm -rf "$system"
    debootstrap --variant=minbase "$release" "$system" >"$cache/debootstrap.log" || fail "debootstrap; see $cache/debootstrap.log"
    printf 'path-exclude /usr/share/%s/*\n' doc man locale info >"$system/etc/dpkg/dpkg.cfg.d/slim"
    touch "$system.made"
  fi
  local useless=('./var/cache/apt/*' './var/lib/apt/lists/*' './usr/share/doc/*' './usr/share/man/*' './usr/share/locale/*' './usr/share/info/*')
  tar -C "$system" "${useless[@]/#/--exclude=}" -c . | podman import --quiet --change 'CMD ["bash"]' - "$debian_base" >/dev/null
}

# rust:…-slim-…, near enough: the same system with a linker; the toolchain is this machine's, lent to the build.
make_rust_base() {
  command podman image exists "$rust_base" && return
  step "making a base image for Rust"
  podman build --isolation chroot --pull=never --tag "$rust_base" - >"$cache/build.log" 2>&1 <<CONTAINERFILE || build_failed "$rust_base"
FROM $debian_base
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev ca-certificates && rm -rf /var/lib/apt/lists/*
ENV CARGO_HOME=/usr/local/cargo CARGO_NET_OFFLINE=true PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
CONTAINERFILE
}

# Sets lent: the options of podman that lend the build a toolchain, the crates, and the way to Python's packages.
lend() {
  local cargo_home=${CARGO_HOME:-$HOME/.cargo} certificates=/etc/ssl/certs/ca-certificates.crt index
  cargo fetch --quiet --locked --manifest-path "$root/Cargo.toml"
  lent=(
    --volume "$(rustc --print sysroot):/usr/local/rust:ro"
    --volume "$cargo_home/registry:/usr/local/cargo/registry"
  )
  [ ! -e "$cargo_home/config.toml" ] || lent+=(--volume "$cargo_home/config.toml:/usr/local/cargo/config.toml:ro")

  echo '[global]' >"$cache/pip.conf"
  index=$(python3 -m pip config get global.index-url 2>/dev/null || :)
  [ -z "$index" ] || echo "index-url = $index" >>"$cache/pip.conf"
  if [ -e "$certificates" ]; then
    echo 'cert = /etc/ssl/lent.crt' >>"$cache/pip.conf"
    lent+=(--volume "$certificates:/etc/ssl/lent.crt:ro")
  fi
  lent+=(--volume "$cache/pip.conf:/etc/pip.conf:ro")
}

# build_image NAME TARGET. The version is always the same: podman 4's cache takes a label for unchanged whatever the argument in it is.
build_image() {
  local name=$1
  podman build --isolation chroot --pull=never \
    --build-context "$rust_named=docker-image://$rust_base" \
    --build-context "$debian_named=docker-image://$debian_base" \
    --build-arg "VERSION=$version" --target "$2" "${lent[@]}" --tag "$name" "$root" >"$cache/build.log" 2>&1 || build_failed "$name"
}

build_failed() {
  tail -n 40 "$cache/build.log" >&2
  fail "building $1; the whole log is in $cache/build.log"
}
