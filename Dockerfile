# The server in a container. Build: docker build -t repltool .
#
# Sandboxes are made of the kernel's own namespaces, which a stock container profile refuses. What has to be let through,
# and nothing more (docs/operations.md; `repltool doctor` in the container names what is still missing):
#
#   docker run --init -p 127.0.0.1:8000:8000 -v repltool:/var/lib/repltool \
#     -v /etc/repltool/secret:/run/secrets/repltool:ro \
#     --security-opt seccomp=deploy/seccomp.json --security-opt apparmor=unconfined --security-opt systempaths=unconfined repltool
#
# - seccomp: so does a profile of your own that lets clone3, unshare, setns, mount, umount2, pivot_root, open_tree,
#   move_mount, fsopen, fsmount, fsconfig, mount_setattr and seccomp through
# - AppArmor: a profile with `userns,` and mounts serves as well
# - systempaths: a fresh /proc cannot be mounted where the container's own is masked
# Not --privileged: it gives devices and the host's own powers, which nothing here needs.
# The secret must be a file of user 10001 with mode 0600: openssl rand -hex 32. Nothing may listen beyond loopback without.
# The image takes it that what publishes the port encrypts (REPLTOOL_EDGE__TLS_BY_PROXY); for TLS of its own set
# REPLTOOL_EDGE__TLS_CERT and REPLTOOL_EDGE__TLS_KEY, and replace the health check.

FROM node:22-bookworm-slim AS node

FROM rust:1.95-slim-bookworm AS build
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# What `make build` needs; its own check of the machine would install what only tests need.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev libseccomp-dev make pkg-config python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
# Node and npm build the web page; they are not in the image that runs.
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=node /usr/local/lib/node_modules /usr/local/lib/node_modules
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm \
    && ln -s ../lib/node_modules/npm/bin/npx-cli.js /usr/local/bin/npx
WORKDIR /src
COPY . .
RUN make web compile

FROM debian:bookworm-slim
# The interpreters of sessions; curl asks whether the server is ready. Packages that programs may import go here.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends bash curl nodejs python3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --user-group --no-create-home --home-dir /var/lib/repltool --shell /usr/sbin/nologin repltool \
    && install -d -m 700 -o repltool -g repltool /var/lib/repltool
COPY --from=build /src/target/release/repltool /usr/local/bin/repltool
USER 10001:10001
ENV REPLTOOL_DATA_DIR=/var/lib/repltool \
    REPLTOOL_EDGE__LISTEN=0.0.0.0:8000 \
    REPLTOOL_EDGE__TLS_BY_PROXY=true \
    REPLTOOL_AUTH__KEY_FILE=/run/secrets/repltool
VOLUME /var/lib/repltool
EXPOSE 8000
# Drains: running requests have edge.drain_s (10) seconds, so give `docker stop` more: --time 20.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
    CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:8000/readyz"]
ENTRYPOINT ["repltool"]
CMD ["serve"]
