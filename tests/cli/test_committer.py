"""Which committer `--out` uses, by the settings of Spark and Hadoop, and where it is not safe."""

from __future__ import annotations

import pytest

from rmq_spark.committer import MORE, committer_by

SPARKS = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
CLOUD = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
S3A = {"mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"}
ABFS = {"mapreduce.outputcommitter.factory.scheme.abfs": "org.apache.hadoop.fs.azurebfs.commit.AzureManifestCommitterFactory"}


@pytest.mark.parametrize(
    ("protocol", "settings", "directory", "name", "is_safe"),
    [
        (SPARKS, {}, "/out", "FileOutputCommitter, algorithm 1", True),
        (SPARKS, {}, "hdfs://nn/out", "FileOutputCommitter, algorithm 1", True),
        (SPARKS, {"mapreduce.fileoutputcommitter.algorithm.version": "2"}, "/out", "FileOutputCommitter, algorithm 2", False),
        (SPARKS, {}, "s3a://bucket/out", "FileOutputCommitter, algorithm 1", False),
        (SPARKS, S3A | {"fs.s3a.committer.name": "magic"}, "s3a://bucket/out", "FileOutputCommitter, algorithm 1", False),
        (CLOUD, S3A | {"fs.s3a.committer.name": "magic"}, "s3a://bucket/out", "S3A committer magic", True),
        (CLOUD, S3A | {"fs.s3a.committer.name": "file"}, "s3a://bucket/out", "FileOutputCommitter, algorithm 1", False),
        (CLOUD, ABFS, "abfs://c@a.dfs.core.windows.net/out", "manifest committer", True),
        (SPARKS, {}, "gs://bucket/out", "FileOutputCommitter, algorithm 1", False),
        ("com.databricks.DirectoryAtomicCommitProtocol", {}, "s3://bucket/out", "DirectoryAtomicCommitProtocol", True),
    ],
)
def test_which(protocol: str, settings: dict[str, str], directory: str, name: str, is_safe: bool) -> None:
    found = committer_by(protocol, settings, directory)
    assert (found.name, not found.warning) == (name, is_safe)
    assert found.line() == name if is_safe else found.line().endswith(MORE)
    assert "\n" not in found.line()
