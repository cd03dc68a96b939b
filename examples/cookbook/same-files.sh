# A web server or a Redis server with fixed paths, or their client. Called by same-files.toml.
set -eu
case $1 in
    web)
        cat >/tmp/nginx.conf <<-'END'
	user root;
	daemon off;
	master_process off;
	pid /run/nginx.pid;
	events {}
	http {
	    access_log off;
	    client_body_temp_path /tmp/body;
	    proxy_temp_path /tmp/proxy;
	    fastcgi_temp_path /tmp/fastcgi;
	    uwsgi_temp_path /tmp/uwsgi;
	    scgi_temp_path /tmp/scgi;
	    server { listen 80; return 200 "$hostname\n"; }
	}
	END
        exec /usr/sbin/nginx -e stderr -c /tmp/nginx.conf
        ;;
    store)
        exec redis-server --dir /var/lib/redis --pidfile /run/redis.pid --appendonly yes \
            --save '' --protected-mode no
        ;;
esac
for host in red blue; do redis-cli -h "$host" set owner "$host" >/dev/null; done
for host in red blue; do
    owner=$(redis-cli -h "$host" get owner)
    page=$(curl -s "http://$host/")
    echo "$host: Redis has $owner, nginx has $page"
    [ "$owner" = "$host" ]
    [ "$page" = "$host" ]
done
