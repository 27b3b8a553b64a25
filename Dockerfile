# Our name server and broker: an unprivileged user, a health check, a clean stop on SIGTERM.
# BASE is any Debian-like image with Python 3.11 or newer and pip.
ARG BASE=python:3.12-slim
FROM ${BASE}
COPY . /opt/rmq-src
RUN python3 -m venv /opt/rmq && /opt/rmq/bin/pip install -q --no-cache-dir /opt/rmq-src && rm -rf /opt/rmq-src \
 && useradd --uid 3000 --create-home rmq && mkdir -p /var/lib/rmq && chown rmq /var/lib/rmq
ENV PATH=/opt/rmq/bin:$PATH PYTHONOPTIMIZE=1
USER rmq
VOLUME /var/lib/rmq
EXPOSE 9876 10911
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=2s --timeout=3s --start-period=5s CMD ["python", "-m", "rmq_cli.ready", "127.0.0.1:9876"]
CMD ["rmq", "dev", "--bind", "0.0.0.0", "--store", "/var/lib/rmq"]
