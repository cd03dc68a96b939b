# Reads the capture $TABLE into an archive in $OUT/table, whose first session speakers replay.
set -eu
mkdir -p "$OUT"
[ ! -e "$OUT/table" ] || exit 0
rm -rf "$OUT/reading"
"${NETARIUM:-netarium}" collect --read "$TABLE" --out "$OUT/reading" --compress none \
    --snapshot "0 s"
mv "$OUT/reading" "$OUT/table"
