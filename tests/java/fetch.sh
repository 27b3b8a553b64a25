#!/bin/sh
# Brings the jars of one stock Apache RocketMQ version into tests/java/lib-VERSION, by plain Maven.
#
#   tests/java/fetch.sh 5.5.0|5.3.3|4.9.8|4.9.7...
#
# Idempotent: does nothing when the directory is complete for the present pom.xml.  Quiet unless something fails.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || { echo "usage: $0 VERSION..." >&2; exit 2; }
# One run at a time: two would put one's directory inside the other's.  (Where there is no flock, be alone.)
if [ -z "${RMQ_FETCH_LOCKED:-}" ] && command -v flock >/dev/null 2>&1; then
    RMQ_FETCH_LOCKED=1 exec flock "$here/fetch.sh" "$0" "$@"
fi
for version in "$@"; do
    pom=$here/reference/$version/pom.xml
    lib=$here/lib-$version
    [ -f "$pom" ] || { echo "$0: no such version here: $version (see tests/java/reference)" >&2; exit 2; }
    want=$(cksum <"$pom")
    [ "$(cat "$lib/.complete" 2>/dev/null || true)" = "$want" ] && continue
    part=$lib.part.$$
    trap 'rm -rf "$part"' EXIT
    log=$(mvn -B -q -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$part" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
    printf '%s\n' "$want" >"$part/.complete"
    rm -rf "$lib"
    mv "$part" "$lib"
done
