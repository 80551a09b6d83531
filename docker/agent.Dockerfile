# tickwheel-agent with bash, perl and Python; docs/agent.md explains its configuration file. Build from the root of the repository:
#   docker build --file docker/agent.Dockerfile --tag tickwheel-agent .
# For other languages, build upon it: FROM tickwheel-agent, USER root, RUN apt-get …, USER 10001.
FROM python:3.11-slim AS build

RUN python -m venv /opt/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH
COPY shared /src/shared
COPY executor_sdk /src/executor_sdk
RUN pip install --no-cache-dir /src/shared '/src/executor_sdk[agent]' && pip uninstall --yes pip

FROM python:3.11-slim

RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/tickwheel tickwheel
COPY --from=build /opt/tickwheel /opt/tickwheel

USER 10001
WORKDIR /var/lib/tickwheel
ENV PATH=/opt/tickwheel/bin:$PATH PYTHONUNBUFFERED=1 XDG_STATE_HOME=/var/lib/tickwheel
# The spool: results that no admin has acknowledged yet; the next process on the same volume delivers them.
VOLUME /var/lib/tickwheel

# Mount a directory with agent.toml and the token's file at /etc/tickwheel. Its scripts and commands run in this container, as this user.
STOPSIGNAL SIGTERM
CMD ["tickwheel-agent"]
