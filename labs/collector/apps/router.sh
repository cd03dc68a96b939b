# Runs the router: BIRD, FRR's bgpd or GoBGP. It dumps what it hears to $OUT/router.mrt.
set -eu
files=$PWD/files
mkdir -p "$OUT"
cd "$OUT"
rm -f router.mrt
# FRR's daemons have no place on PATH.
PATH=$PATH:/usr/sbin:/usr/lib/frr
case $ROUTER in
    bird) exec bird -f -c "$files/bird.conf" -s bird.ctl ;;
    frr)
        # It reads its configuration as another user might, and must find a folder for its sockets.
        cp "$files/frr.conf" frr.conf
        exec bgpd -n -S -Z --vty_socket "$PWD" -i "$PWD/bgpd.pid" -f "$PWD/frr.conf"
        ;;
    gobgp) exec gobgpd -t toml -f "$files/gobgp.toml" --api-hosts 127.0.0.1:50051 ;;
    *) echo "no router $ROUTER: bird, frr or gobgp" >&2; exit 2 ;;
esac
