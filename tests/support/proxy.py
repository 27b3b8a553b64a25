"""The stock Proxy 5.5.0 in cluster mode as a process, and the stock gRPC client that speaks to it (`tests/java/grpc`)."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from conformance.subjects.jars import COPY, maven_environment, shared_classes
from conformance.subjects.java import OPENED, JavaServer, java_command, rocketmq_home
from tests.support.java import HERE, REFERENCE, SMALL, classpath, compiled, java, missing

GRPC = HERE / "grpc"
POOLS = ("grpc", "grpcProducer", "grpcConsumer", "grpcRoute", "grpcClientManager", "grpcTransaction")
"""Of threads: each has sixteen and more by default."""


class JavaProxy(JavaServer):
    """`org.apache.rocketmq.proxy.ProxyStartup`.  `endpoints`: where its gRPC clients connect."""

    main_class = "org.apache.rocketmq.proxy.ProxyStartup"
    logging = "rmq.proxy.logback.xml"
    offsets = (1,)

    def __init__(self, directory: Path, namesrv: str, *, cluster: str = "DefaultCluster") -> None:
        super().__init__("proxy", directory, version=REFERENCE, heap="384m")
        self.namesrv = namesrv
        self.cluster = cluster
        self.endpoints = self.address
        self.remoting = f"127.0.0.1:{self.port + 1}"

    def classpath(self) -> str:
        return classpath(self.version)

    def command(self) -> Sequence[str]:
        config = self.directory / "rmq-proxy.json"
        settings: dict[str, object] = {
            "rocketMQClusterName": self.cluster,
            "proxyClusterName": "proxy",
            "localServeAddr": "127.0.0.1",
            "grpcServerPort": self.port,
            "remotingListenPort": self.port + 1,
            "useEndpointPortFromRequest": True,
            **{f"{pool}ThreadPoolNums": 4 for pool in POOLS},
        }
        config.write_text(json.dumps(settings))
        flags = [*self.jvm, *OPENED, f"-Duser.home={self.directory}", f"-Drmq.logback.configurationFile={self.logging}"]
        arguments = ["-pc", str(config), "-n", self.namesrv, "-pm", "cluster"]
        java = java_command(self.java)
        return [java, *shared_classes(self.version, java), *flags, "-cp", self.classpath(), self.main_class, *arguments]

    def environment(self) -> Mapping[str, str]:
        return rocketmq_home(self.directory)

    def ready(self) -> bool:
        socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        return True


def grpc_client(*words: str) -> list[str]:
    """The command line of `GrpcClient` with these arguments."""
    jars = f"{_library()}/*"
    classes = compiled("grpc", [GRPC / "GrpcClient.java"], jars)
    return [java(), *SMALL, "-cp", os.pathsep.join((jars, str(classes))), "GrpcClient", *words]


def _library() -> Path:
    """The client's jar, fetched when it is not there."""
    directory = HERE / "lib-grpc"
    pom = (GRPC / "pom.xml").read_bytes()
    stamp = directory / ".fetched"
    with (HERE / ".fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_bytes() != pom:
            maven = shutil.which("mvn") or missing("java", "no `mvn` to fetch the gRPC client with")
            shutil.rmtree(directory, ignore_errors=True)
            command = [maven, "-B", "-q", "-f", str(GRPC / "pom.xml"), COPY, "-DincludeScope=runtime"]
            command += [f"-DoutputDirectory={directory}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=maven_environment())
            if done.returncode != 0:
                missing("java", f"the gRPC client cannot be fetched: {done.stdout[-300:]}")
            stamp.write_bytes(pom)
    return directory
