# The server with its live page: podman build -f deploy/containers/server.Dockerfile -t roofline-server .
# BASE: a Debian with Python 3.10 to 3.13 and venv; by digest for what you keep (docs/cluster/containers.md).
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
# For a network without an index: --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=/wheels --volume ...:/wheels
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
# Smaller, without the live page: --build-arg EXTRAS=server
ARG EXTRAS=server,page
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proto proto
COPY agent agent
COPY server server
COPY client client
RUN python3 -m venv /opt/roofline \
    && /opt/roofline/bin/pip install --no-cache-dir ".[${EXTRAS}]" \
    && /opt/roofline/bin/python -m pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/roofline /opt/roofline
RUN useradd --uid 10001 --home-dir /var/lib/roofline --create-home --shell /usr/sbin/nologin roofline \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/roofline/server
ENV PATH=/opt/roofline/bin:$PATH
# It needs its directory, its ports, and no capability.
USER 10001:10001
VOLUME /var/lib/roofline
EXPOSE 7642 7643 7644 7645
ENTRYPOINT ["roofline-server"]
CMD ["--data", "/var/lib/roofline/server"]
