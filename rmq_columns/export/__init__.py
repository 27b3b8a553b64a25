"""Messages as Parquet files, exactly once however often a task is repeated: `parquet` has the calls, `manifest` what counts."""
