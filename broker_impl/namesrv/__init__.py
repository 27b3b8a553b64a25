"""The name server: other capabilities on the same engine; `server` puts it together, `routes` has the tables."""
