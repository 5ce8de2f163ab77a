# One image for all of KubeNexus; the first argument says what it is: agent, webhook, scheduler, doctor, cleanup.
#   docker build --tag REGISTRY/kubenexus:0.1.0 .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY setup.cfg pyproject.toml README.md LICENSE ./
COPY common common
COPY agent agent
COPY webhook webhook
COPY scheduler scheduler
# Compiled once here: at run time the file system is read-only.
RUN python -m venv /opt/kubenexus \
    && /opt/kubenexus/bin/pip install --only-binary=:all: . \
    && /opt/kubenexus/bin/pip uninstall --yes pip \
    && /opt/kubenexus/bin/python -m compileall -q /opt/kubenexus/lib

FROM python:${PYTHON}-slim-bookworm
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="KubeNexus" \
      org.opencontainers.image.description="A Kubernetes scheduler for GPU clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH=/opt/kubenexus/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/kubenexus /opt/kubenexus
USER 65532:65532
ENTRYPOINT ["kubenexus"]
CMD ["--help"]
