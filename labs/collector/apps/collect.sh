# Collects from what is cloned to this host, into $OUT/archive; tells at the end what it took.
set -eu
mkdir -p "$OUT"
cd "$OUT"
rm -rf archive
"${NETARIUM:-netarium}" collect --interface eth0 --router 10.9.0.1=64500 --out archive \
    --compress none --snapshot "0 s" --json >collected.json &
collector=$!
trap 'kill -TERM $collector' TERM
# The first wait ends with the signal, the second with the collector.
wait $collector || :
status=0
wait $collector || status=$?
cat collected.json
# User and system time: of this shell, then of the collector.
times
exit $status
