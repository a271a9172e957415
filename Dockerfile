# decree as a container image; docs/container.md tells how to use it.
#
#   docker build -t decree .                                      the plain image: bash, git, CA certificates
#   docker build -t decree:notebook --target notebook .           the same with Python and papermill
#
# The base images are pinned to a release by tag, so that a rebuild brings their security fixes; .github/dependabot.yml proposes newer tags.
# Both have to be of the same Debian release: the binary is linked against its C library.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# Dependencies have a layer of their own, which lasts until one of them changes: the two files below stand in for the sources.
COPY Cargo.toml Cargo.lock ./
RUN mkdir src \
 && touch src/lib.rs \
 && echo 'fn main() {}' > src/main.rs \
 && cargo build --release --locked --bin decree
COPY templates templates
COPY src src
# cargo goes by time, and the stand-ins are younger than the sources.
RUN touch src/lib.rs src/main.rs \
 && cargo build --release --locked --bin decree

FROM debian:bookworm-slim AS system
RUN apt-get update \
 && apt-get install -y --no-install-recommends bash git ca-certificates tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
# Whoever mounts a repository here wants it to be worked on, whoever owns it: git's doubt has no place in this container.
RUN git config --system safe.directory '*'
COPY --chmod=755 docker/entrypoint.sh /usr/local/bin/decree-entrypoint
WORKDIR /repo
# tini is PID 1: it hands signals on to decree, and reaps what routines leave behind.
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/decree-entrypoint"]
CMD ["--help"]
LABEL org.opencontainers.image.title="decree" \
      org.opencontainers.image.description="Carries out specs with AI agents unattended, and puts every byte back when they fail" \
      org.opencontainers.image.licenses="MIT"

FROM system AS system-notebook
COPY docker/requirements.txt /opt/decree-venv/
RUN apt-get update \
 && apt-get install -y --no-install-recommends python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log \
 && python3 -m venv /opt/decree-venv \
 && /opt/decree-venv/bin/pip install --no-cache-dir --disable-pip-version-check -r /opt/decree-venv/requirements.txt
ENV DECREE_VENV=/opt/decree-venv

# What changes with every build comes last, so that nothing above is made again for it.
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
