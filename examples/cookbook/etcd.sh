# One etcd member, or a client of the member on this host. Called by etcd.toml.
set -eu
export ETCDCTL_API=3
if [ "$1" = member ]; then
    name=$(hostname)
    address() { getent ahostsv4 "$1" | head -n 1 | cut -d' ' -f1; }
    url=http://$(address "$name")
    members=
    for member in n1 n2 n3; do
        members="$members,$member=http://$(address "$member"):2380"
    done
    exec etcd --name "$name" --data-dir "$(mktemp -d)" --initial-cluster "${members#,}" \
        --initial-advertise-peer-urls "$url:2380" --listen-peer-urls "$url:2380" \
        --advertise-client-urls "$url:2379" --listen-client-urls http://0.0.0.0:2379
fi
write() { etcdctl --command-timeout=2s put "$1" "$(date +%s%3N)" >/dev/null 2>&1; }
until write ready; do sleep 0.2; done
if [ "$1" = minority ]; then
    while write "$1"; do sleep 0.2; done
    echo "$(date +%T) n1 rejects a write"
    until write "$1"; do sleep 0.2; done
    echo "$(date +%T) n1 accepts writes"
    exit
fi
failed=0
number=0
while [ "$number" -lt 40 ]; do
    write "key$number" || failed=$((failed + 1))
    number=$((number + 1))
    sleep 0.3
done
echo "$failed of 40 writes failed"
[ "$failed" -le 3 ]
