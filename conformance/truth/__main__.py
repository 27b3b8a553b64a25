"""`python -m conformance.truth [VERSION... | bodies]`: extract the truth again out of the published jars (JDK 17 and Maven)."""

from __future__ import annotations

import sys

from conformance.truth.extract import extract

if __name__ == "__main__":
    sys.exit(extract(sys.argv[1:]))
