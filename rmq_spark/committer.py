"""By what Spark makes the files of `--out` appear: which committer it will use for a place, and whether that is safe there.

`FileOutputCommitter` renames.  Where a rename is no single step, as in object stores, readers see half of a result, and a task
that is repeated or late can leave its rows twice; committers of the store's own exist.
Sources: Spark's `HadoopMapReduceCommitProtocol`, `PathOutputCommitProtocol`; Hadoop's `PathOutputCommitterFactory`,
`FileOutputCommitter`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from rmq_columns.files.filesystem import SCHEME

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROTOCOL: Final = "spark.sql.sources.commitProtocolClass"
PATH_PROTOCOL: Final = "PathOutputCommitProtocol"
"""Of spark-hadoop-cloud: asks the committer's factory of a scheme.  Spark's own protocol knows renames only."""
FACTORY: Final = "mapreduce.outputcommitter.factory.scheme.{}"
ALGORITHM: Final = "mapreduce.fileoutputcommitter.algorithm.version"
S3A_NAME: Final = "fs.s3a.committer.name"
BY_RENAMES: Final = "FileOutputCommitter"
OBJECT_STORES: Final = frozenset(("s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "cosn", "obs"))
"""Schemes in which a rename is a copy of each object."""
SAFE_S3A: Final = frozenset(("magic", "directory", "partitioned"))
MORE: Final = "docs/spark.md names safe ones"


class Committer(NamedTuple):
    """name: with its algorithm.  warning: why it is not safe at this place; empty where it is."""

    name: str
    warning: str

    def line(self) -> str:
        """As it is said to the user."""
        return f"{self.name}: {self.warning}; {MORE}" if self.warning else self.name


def committer_of(spark: SparkSession, directory: str) -> Committer:
    """For whatever Spark writes there."""
    # Private, since `spark.conf` knows of Hadoop's settings only those that were given to Spark: not core-site.xml, not defaults.
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()

    def setting(name: str) -> str:
        return str(hadoop.get(name) or "")

    return committer_by(spark.conf.get(PROTOCOL) or "", setting, directory)


def committer_by(protocol: str, setting: Callable[[str], str] | Mapping[str, str], directory: str) -> Committer:
    """setting: of Hadoop, by its name; empty where there is none."""
    of = setting if callable(setting) else lambda name: setting.get(name, "")
    scheme = directory.partition(SCHEME)[0].lower() if SCHEME in directory else "file"
    own = protocol.rpartition(".")[2]
    if own == PATH_PROTOCOL:
        factory = of(FACTORY.format(scheme)).rpartition(".")[2].rpartition("$")[2]
        if factory == "S3ACommitterFactory" and (name := of(S3A_NAME)) in SAFE_S3A:
            return Committer(f"S3A committer {name}", "")
        if factory == "ManifestCommitterFactory" or "Manifest" in factory:
            return Committer("manifest committer", "")
    elif own and own not in ("SQLHadoopMapReduceCommitProtocol", "HadoopMapReduceCommitProtocol"):
        return Committer(own, "")
    algorithm = of(ALGORITHM) or "1"
    name = f"{BY_RENAMES}, algorithm {algorithm}"
    if scheme in OBJECT_STORES:
        return Committer(name, f"a rename is a copy in {scheme}, and readers see half of it")
    if algorithm == "2":
        return Committer(name, "a task that is repeated can leave its rows twice")
    return Committer(name, "")
