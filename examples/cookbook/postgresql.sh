# A PostgreSQL server with a new database, or its client. Called by postgresql.toml.
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
if [ "$1" = server ]; then
    folder=$(mktemp -d)
    cd "$folder"
    initdb --pgdata "$folder/data" --username lab --auth trust --no-sync >/dev/null
    echo "host all all 0.0.0.0/0 trust" >>"$folder/data/pg_hba.conf"
    postgres -D "$folder/data" -k "$folder" -c listen_addresses='*' -c fsync=off &
    until pgbench --host "$folder" --username lab --initialize --quiet postgres 2>/dev/null; do
        sleep 0.2
    done
    echo "the data is complete"
    wait
fi
measure() {
    pgbench --host server --username lab --transactions 5 --no-vacuum "$@" postgres |
        sed -n 's/^latency average = \([0-9]*\).*/\1/p'
}
echo 'select 1;' >"${script:=$(mktemp)}"
transaction=$(measure)
query=$(measure --file "$script")
echo "a transaction of seven statements: $transaction ms; one statement: $query ms"
[ "$transaction" -ge 1400 ]
[ "$query" -ge 200 ]
[ "$query" -lt "$transaction" ]
