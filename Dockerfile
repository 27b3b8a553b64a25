# Our name server and broker: an unprivileged user, a health check, a clean stop on SIGTERM.
#
#   docker build -t rmq-py-broker .
#
# Where no image can be pulled, BASE is any Debian-like image; python3-venv comes by apt when it has no Python.  Where the build
# reaches no package index either, put the wheels into build/wheels first and use nothing else:
#   pip wheel -w build/wheels . 'setuptools>=68'
#   docker build -t rmq-py-broker --build-arg BASE=debian:12 --build-arg PIP_OPTIONS="--no-index --find-links build/wheels" .
ARG BASE=python:3.12-slim
FROM ${BASE}
USER root
RUN set -eu; python3 -c 'import venv, ensurepip' 2>/dev/null || { \
        export DEBIAN_FRONTEND=noninteractive; apt-get update -q; \
        apt-get install -qy --no-install-recommends python3 python3-venv; rm -rf /var/lib/apt/lists/*; }; \
    python3 -m venv /opt/rmq
# A base may have a user 3000 already (the images of Apache RocketMQ have): the stores of both are then of the same owner.
RUN set -eu; getent passwd 3000 >/dev/null || useradd --no-log-init --uid 3000 --create-home rmq; \
    install -d -o 3000 -g "$(id -g "$(id -nu 3000)")" /var/lib/rmq
WORKDIR /opt/rmq-src
ARG PIP_OPTIONS=""
COPY . .
# Before the installation: what is compiled here is then what runs.  The user cannot write there, so what is not compiled now
# would be compiled at every start: the standard library too, which comes without byte code of this level, or without any.
ENV PATH=/opt/rmq/bin:$PATH PYTHONOPTIMIZE=1 PYTHONUNBUFFERED=1
RUN set -eu; /opt/rmq/bin/pip install -q --no-cache-dir --disable-pip-version-check ${PIP_OPTIONS} .; rm -rf /opt/rmq-src/*; \
    library=$(python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))'); \
    python -m compileall -q -j 0 -x '/(test|tests|idlelib|lib2to3|tkinter|turtledemo|ensurepip|site-packages|dist-packages)/' "$library"

USER 3000
WORKDIR /var/lib/rmq
VOLUME /var/lib/rmq
EXPOSE 9876 10911
STOPSIGNAL SIGTERM
# A command with other ports says where its name server is: -e RMQ_NAMESRV=127.0.0.1:19876.
ENV RMQ_NAMESRV=127.0.0.1:9876
HEALTHCHECK --interval=2s --timeout=3s --start-period=5s CMD python -m rmq_cli.ready "$RMQ_NAMESRV"
ENTRYPOINT []
CMD ["rmq", "dev", "--bind", "0.0.0.0", "--store", "/var/lib/rmq"]
