"""A server in this process that speaks S3, with an empty bucket (skips without `moto`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

KEYS: Final = {"access_key": "a", "secret_key": "b", "region": "us-east-1", "scheme": "http"}


def file_system(endpoint: str) -> Any:
    """PyArrow's view of the server there, `host:port`."""
    from pyarrow import fs

    return fs.S3FileSystem(endpoint_override=endpoint, allow_bucket_creation=True, **KEYS)


@contextmanager
def object_store() -> Iterator[str]:
    """Its `host:port`; the bucket's name is `bucket`, its keys are `KEYS`."""
    servers = pytest.importorskip("moto.server", reason="needs moto: the extra [s3]")
    server = servers.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        file_system(f"{host}:{port}").create_dir("bucket")
        yield f"{host}:{port}"
    finally:
        server.stop()
