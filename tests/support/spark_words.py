"""Words of a job's command, made of what the job declares."""

from __future__ import annotations

from rmq_cli.spark_job import option_of
from rmq_spark.jobs import Job


def needed(job: Job, **values: str) -> list[str]:
    """Of each parameter that it cannot do without: a value, `new` where none is given."""
    return [word for one in job.parameters if one.is_required for word in (option_of(one.name), values.get(one.name, "new"))]
