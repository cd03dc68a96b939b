# Server and client of ngtcp2. Called by quic.toml.
set -eu
folder=$(mktemp -d)
cd "$folder"
if [ "$1" = server ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=server -keyout key -out cert 2>/dev/null
    head -c 500000 /dev/zero >file
    PATH=$PATH:/usr/sbin
    exec gtlsserver --quiet --htdocs "$folder" 0.0.0.0 4433 key cert
fi
start=$(date +%s%3N)
timeout 30 gtlsclient --quiet --exit-on-all-streams-close --download "$folder" \
    server 4433 https://server/file
echo "$(($(date +%s%3N) - start)) ms, $(wc -c <file) B"
[ "$(wc -c <file)" = 500000 ]
