# Collects what is cloned to this host into $OUT/archive; $OUT/collected.json tells what came of it.
set -eu
mkdir -p "$OUT"
cd "$OUT"
rm -rf archive
exec "${NETARIUM:-netarium}" collect --interface eth0 --router 10.9.0.1=64500 --out archive \
    --compress none --snapshot "0 s" --json >collected.json
