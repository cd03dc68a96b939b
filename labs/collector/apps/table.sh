# Reads the capture $TABLE into an archive in $TABLES/table, whose first session speakers replay.
set -eu
mkdir -p "$TABLES"
[ ! -e "$TABLES/table" ] || exit 0
rm -rf "$TABLES/reading"
"${NETARIUM:-netarium}" collect --read "$TABLE" --out "$TABLES/reading" --compress none \
    --snapshot "0 s"
mv "$TABLES/reading" "$TABLES/table"
