# The admin server with its console. Build from the root of the repository:
#   docker build --file docker/admin.Dockerfile --tag tickwheel-admin .
FROM python:3.11-slim AS build

RUN python -m venv /opt/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH
COPY shared /src/shared
COPY admin /src/admin
RUN pip install --no-cache-dir /src/shared '/src/admin[apprise]' && pip uninstall --yes pip

FROM python:3.11-slim

# A fixed number, so that a volume keeps its owner from one image to the next.
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tickwheel tickwheel
COPY --from=build /opt/tickwheel /opt/tickwheel

USER 10001
WORKDIR /var/lib/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH PYTHONUNBUFFERED=1 \
    TICKWHEEL_HOST=0.0.0.0 TICKWHEEL_PORT=8500 TICKWHEEL_DATA_DIR=/var/lib/tickwheel
EXPOSE 8500
VOLUME /var/lib/tickwheel

HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 CMD ["python", "-m", "tickwheel_admin.healthz"]
STOPSIGNAL SIGTERM
CMD ["tickwheel", "serve"]
