# Two network namespaces with BIRD (10.9.1.1, AS 65001) and FRR (10.9.1.2, AS 65002) that announce
# routes to each other. Leaves the capture and both routers' dumps in the folder $1.
set -e
cd "$1"
ip link set lo up
unshare --net sleep 100 & PEER=$!
trap 'kill $(jobs -p) 2>/dev/null' EXIT
ip link add d0 type veth peer name d1
until test "$(readlink /proc/$PEER/ns/net)" != "$(readlink /proc/$$/ns/net)"; do sleep 0.1; done
ip link set d1 netns $PEER
in_peer() { nsenter --target $PEER --net "$@"; }
ip addr add 10.9.1.1/24 dev d0
in_peer ip addr add 10.9.1.2/24 dev d1
in_peer ip link set lo up
ip link set d0 up
in_peer ip link set d1 up
python3 sniff.py d0 capture.pcap &
until test -s capture.pcap; do sleep 0.1; done
bird -f -c bird.conf -s bird.ctl -P bird.pid & BIRD=$!
in_peer /usr/lib/frr/bgpd -n -S -Z -f frr.conf -i frr.pid --vty_socket "$1" --log file:frr.log &
FRR=$!
# Both tables were exchanged when both dumps have most of what they will have, and stop growing.
size() { cat "$@" 2>/dev/null | wc -c; }
last=-1
for second in $(seq 60); do
  sleep 2
  now=$(size bird.mrt frr.mrt)
  test "$(size bird.mrt)" -gt 150000 && test "$(size frr.mrt)" -gt 400000 &&
    test "$now" = "$last" && break
  last=$now
done
kill $FRR
wait $FRR || true
sleep 1
kill $BIRD
wait $BIRD || true
sleep 1
