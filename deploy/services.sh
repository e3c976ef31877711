#!/bin/sh
# Redis and Postgres on loopback, for several workers on this machine: `make services`.
#
#   deploy/services.sh start|stop FOLDER
#
# Data, logs and process ids are in FOLDER (.dagster/services), and `env`, which a shell reads to
# use them. REDIS_PORT and POSTGRES_PORT name the ports. Postgres asks for no password: whoever
# may use this machine may use it.
set -eu
action=${1:?start or stop} folder=${2:?the folder of their data}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
redis=${REDIS_PORT:-6379} postgres=${POSTGRES_PORT:-5432}

need() { # a program's path, or the package that has it
    found=$(command -v "$1" || ls -d /usr/lib/postgresql/*/bin/"$1" 2>/dev/null | tail -1)
    [ -n "$found" ] || { echo "no $1; Debian: apt install $2" >&2; exit 1; }
    echo "$found"
}

runs() { # whether a file's first line is the id of a process of this name
    [ -s "$1" ] && [ "$(ps -o comm= -p "$(head -1 "$1")")" = "$2" ]
}

as_server() { # Postgres refuses to be run by root
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

start() {
    redis_server=$(need redis-server redis-server)
    pg_ctl=$(need pg_ctl postgresql) initdb=$(need initdb postgresql)
    mkdir -p "$folder/redis" "$folder/postgres"
    if ! runs "$folder/redis/pid" redis-server; then
        rm -f "$folder/redis/log"
        "$redis_server" --port "$redis" --bind 127.0.0.1 --dir "$folder/redis" --save "" \
            --appendonly yes --daemonize yes --pidfile "$folder/redis/pid" \
            --logfile "$folder/redis/log" >/dev/null
        tries=0
        until runs "$folder/redis/pid" redis-server && grep -q "Ready to accept" "$folder/redis/log"; do
            tries=$((tries + 1))
            if [ $tries -gt 100 ] || grep -q "bind: \|Failed listening" "$folder/redis/log"; then
                echo "Redis does not start on port $redis (REDIS_PORT):" >&2
                tail -3 "$folder/redis/log" >&2
                exit 1
            fi
            sleep 0.1
        done
    fi
    if ! runs "$folder/postgres/data/postmaster.pid" postgres; then
        if [ "$(id -u)" = 0 ]; then chown -R postgres "$folder/postgres"; fi
        cd "$folder/postgres"
        if [ ! -s data/PG_VERSION ]; then
            as_server "$initdb" -D "$folder/postgres/data" --auth=trust --username=dagster \
                --encoding=UTF8 --locale=C >/dev/null
        fi
        as_server "$pg_ctl" -D "$folder/postgres/data" -l "$folder/postgres/log" -w -s \
            -o "-p $postgres -c listen_addresses=127.0.0.1 -c unix_socket_directories=" start ||
            { tail -3 "$folder/postgres/log" >&2
              echo "Postgres does not start on port $postgres (POSTGRES_PORT)" >&2
              exit 1; }
    fi
    cp "$here/instances/postgres.yaml" "$folder/dagster.yaml"
    cat >"$folder/env" <<END
export DAGSTER_HOME='$folder'
export DAGSTER_POSTGRES_URL=postgresql+psycopg2://dagster@127.0.0.1:$postgres/postgres
export RAG_EXECUTOR=celery RAG_CELERY_BROKER=redis://127.0.0.1:$redis/0
END
    echo "Redis on port $redis, Postgres on port $postgres. In each shell that is to use them:"
    echo "    . $folder/env"
}

end() { # the process of a file: Redis saves, Postgres ends its sessions
    if runs "$1" "$2"; then
        id=$(head -1 "$1")
        kill -INT "$id"
        while kill -0 "$id" 2>/dev/null; do sleep 0.1; done
    fi
}

stop() {
    end "$folder/redis/pid" redis-server
    end "$folder/postgres/data/postmaster.pid" postgres
    rm -f "$folder/env"
    echo "stopped; the data stays in $folder"
}

case $action in
start) start ;;
stop) stop ;;
*) echo "usage: $0 start|stop FOLDER" >&2; exit 2 ;;
esac
