# A Redis server, or a client of the primary that checks with WAIT when the replica has its writes.
# Called by redis.toml.
set -eu
if [ "$1" = server ]; then
    shift
    cd "$(mktemp -d)"
    exec redis-server --save '' --protected-mode no "$@"
fi
log() { echo "$(date +%T.%3N) $*"; }
# WAIT counts the replicas that have the writes of its own connection.
write_and_wait() { printf 'incr counter\nwait 1 500\n' | redis-cli | tail -n 1; }
wait_until() {
    until [ "$(write_and_wait)" = "$1" ]; do sleep 0.1; done
    log "WAIT reports $1"
}

head -c 2000000 /dev/urandom | base64 -w 0 | redis-cli -x set blob >/dev/null
until [ "$(redis-cli -h replica exists blob)" = 1 ]; do sleep 0.1; done
log "the replica has the data"
wait_until 1
wait_until 0 # the link has failed
wait_until 1 # the replica has caught up
[ "$(redis-cli get counter)" = "$(redis-cli -h replica get counter)" ]
