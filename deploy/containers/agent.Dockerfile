# The agent, and the webhook of deploy/kubernetes: podman build -f deploy/containers/agent.Dockerfile -t roofline-agent .
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
    && /opt/roofline/bin/pip install --no-cache-dir '.[webhook]' \
    && /opt/roofline/bin/python -m pip uninstall --yes pip setuptools

FROM ${BASE}
COPY --from=build /opt/roofline /opt/roofline
ENV PATH=/opt/roofline/bin:$PATH
# It runs as root with three capabilities in place of root's (CAP_PERFMON, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH), as
# container runtimes give capabilities to no other user, and in the host's PID namespace.
# hadolint ignore=DL3002
USER 0:0
VOLUME /var/lib/roofline/agent
ENTRYPOINT ["roofline-agent"]
CMD ["--state", "/var/lib/roofline/agent", "--socket", "/run/roofline/agent.sock"]
