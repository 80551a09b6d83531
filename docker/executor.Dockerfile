# The example executor: a node that runs executor_sdk/examples/demo_executor.py. Build from the root of the repository:
#   docker build --file docker/executor.Dockerfile --tag tickwheel-executor .
FROM python:3.11-slim AS build

RUN python -m venv /opt/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH
COPY shared /src/shared
COPY executor_sdk /src/executor_sdk
RUN pip install --no-cache-dir /src/shared /src/executor_sdk && pip uninstall --yes pip

FROM python:3.11-slim

RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tickwheel tickwheel
COPY --from=build /opt/tickwheel /opt/tickwheel
COPY executor_sdk/examples /app

USER 10001
WORKDIR /var/lib/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH PYTHONUNBUFFERED=1 XDG_STATE_HOME=/var/lib/tickwheel
# The SDK keeps its spool below XDG_STATE_HOME: results that no admin has acknowledged yet; the next process on the same volume delivers them.
VOLUME /var/lib/tickwheel

# A node listens on no port, so there is nothing to probe from outside: the console shows whether it is alive.
STOPSIGNAL SIGTERM
CMD ["python", "/app/demo_executor.py"]
