# Two DNS servers, and a client that measures queries. Called by dns.toml, which takes the link to
# the authoritative server down.
set -eu
address() { getent ahostsv4 "$1" | head -n 1 | cut -d' ' -f1; }
case $1 in
    authority) option=--address=/example.test/192.0.2.1 ;;
    resolver) option=--server=$(address authority) ;;
esac
if [ "$1" != client ]; then
    # In the foreground, as this user, and without the configuration and names of the machine.
    exec /usr/sbin/dnsmasq --no-daemon --conf-file=/dev/null --no-hosts --no-resolv \
        --local-ttl=60 "$option"
fi
server=$(address resolver)
query() { dig +tries=1 +time=1 "@$server" "$1" A; }
query_ms() { query "$1" | sed -n 's/.*Query time: \([0-9]*\) msec.*/\1/p'; }
first=$(query_ms www.example.test)
second=$(query_ms www.example.test)
echo "from the authoritative server: $first ms; from the cache: $second ms"
[ "$first" -ge 300 ]
[ "$second" -lt 150 ]
number=0
while query "new$number.example.test" >/dev/null; do
    number=$((number + 1))
    sleep 0.2
done
echo "new$number.example.test does not resolve"
query www.example.test | grep -q 192.0.2.1
echo "www.example.test still resolves"
