"""Whether it is sound: `verify` runs the checks of `rmq_columns.checks` in processes here, `state` looks at small files."""
