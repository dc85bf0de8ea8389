# The client: podman build -f deploy/containers/client.Dockerfile -t roofline-client .
# BASE: a Debian with Python 3.10 to 3.13 and venv; by digest for what you keep (docs/cluster/containers.md).
ARG BASE=python:3.12-slim-bookworm

FROM ${BASE} AS build
# For a network without an index: --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=/wheels --volume ...:/wheels
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY proto proto
COPY agent agent
COPY server server
COPY client client
RUN python3 -m venv /opt/roofline \
    && /opt/roofline/bin/pip install --no-cache-dir '.[client]' \
    && /opt/roofline/bin/python -m pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/roofline /opt/roofline
# What it was let in with is kept there: a volume, if it is to last.
RUN useradd --uid 10001 --home-dir /home/roofline --create-home --shell /usr/sbin/nologin roofline
ENV PATH=/opt/roofline/bin:$PATH
USER 10001:10001
WORKDIR /home/roofline
ENTRYPOINT ["roofline-client"]
CMD ["--help"]
