# The container image of decree; docs/container.md describes its use.
#
#   docker build -t decree .                                      plain: bash, git, CA certificates
#   docker build -t decree:notebook --target notebook .           with Python and papermill
#
# The base images are pinned by release tag, so that a rebuild picks up security fixes; .github/dependabot.yml proposes newer tags.
# Both have to be of the same Debian release, because the binary is linked against its C library.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# Build the dependencies in a separate layer, which stays cached until one of them changes; the two files below stand in for the sources.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
 && touch src/lib.rs \
 && echo 'fn main() {}' > src/main.rs \
 && cargo build --release --locked --bin decree
COPY templates templates
COPY src src
# cargo compares times, and the stand-ins are newer than the sources.
RUN touch src/lib.rs src/main.rs \
 && cargo build --release --locked --bin decree

FROM debian:bookworm-slim AS system
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash git ca-certificates tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
# The user mounts a repository to have it processed; git's ownership check would only be in the way in this container.
RUN git config --system safe.directory '*'
COPY --chmod=755 docker/entrypoint.sh /usr/local/bin/decree-entrypoint
WORKDIR /repo
# tini is PID 1: it forwards signals to decree and reaps orphaned processes.
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/decree-entrypoint"]
CMD ["--help"]
LABEL org.opencontainers.image.title="decree" \
      org.opencontainers.image.description="Runs AI coding agents unattended: keeps what passes your check, and reverts every byte of what fails" \
      org.opencontainers.image.licenses="MIT"

FROM system AS system-notebook
COPY docker/requirements.txt /opt/decree-venv/
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
 && python3 -m venv /opt/decree-venv \
 && /opt/decree-venv/bin/pip install --no-cache-dir --disable-pip-version-check -r /opt/decree-venv/requirements.txt
ENV DECREE_VENV=/opt/decree-venv

# What changes with every build comes last, so that the layers above stay cached.
FROM system-notebook AS notebook
COPY --from=build /build/target/release/decree /usr/local/bin/decree
ARG VERSION=""
ARG SOURCE=""
ARG REVISION=""
ARG CREATED=""
LABEL org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"

FROM system AS plain
COPY --from=build /build/target/release/decree /usr/local/bin/decree
ARG VERSION=""
ARG SOURCE=""
ARG REVISION=""
ARG CREATED=""
LABEL org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
