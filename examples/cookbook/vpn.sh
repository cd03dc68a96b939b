# One end of a WireGuard tunnel. Called by vpn.toml.
#
# Both ends derive their keys from fixed bytes, so that each knows the other's public key. Never do
# this outside of a lab.
set -eu
key() { printf "%-32.32s" "lab key of $1" | base64; }
case $1 in
    left) peer=right own=10.99.0.1 other=10.99.0.2 ;;
    right) peer=left own=10.99.0.2 other=10.99.0.1 ;;
esac
tunnel=wg-$1
mkdir -p /var/run/wireguard
WG_PROCESS_FOREGROUND=1 wireguard-go -f "$tunnel" &
tunnel_pid=$!
until wg show "$tunnel" >/dev/null 2>&1; do sleep 0.1; done
folder=$(mktemp -d)
key "$1" >"$folder/key"
wg set "$tunnel" listen-port 51820 private-key "$folder/key" \
    peer "$(key "$peer" | wg pubkey)" allowed-ips "$other/32" \
    endpoint "$(getent ahostsv4 "$peer" | head -n 1 | cut -d' ' -f1):51820"
ip address add "$own/24" dev "$tunnel"
ip link set "$tunnel" mtu 1320 up
if [ "$1" = right ]; then
    echo "tunnel up"
    wait
fi
ping -c 5 -i 0.5 -W 1 "$other" | tee "$folder/ping"
grep -q ' 0% packet loss' "$folder/ping"
curl -sS --fail -o /dev/null -w '%{size_download} B in %{time_total} s\n' "http://$other/file"
kill "$tunnel_pid"
