#!/bin/sh
# What the workload `oltp` runs inside an instance. OLTP_PASSWORD goes on by pipes alone: no argv
# and no file has it, but for what the database itself keeps of it.
#
#   oltp.sh run DRIVER ARGUMENT...         sysbench as the user of the database
#   oltp.sh make DATABASE DIRECTORY SUBNET a database with that user, empty; SUBNET may be ''
#   oltp.sh fill DRIVER PORT WHERE TABLES ROWS SEED SIGNAL READY SERVER...
#                                          sysbench's tables, while the server runs
set -eu
umask 022
user=ullage
postgresql=/usr/lib/postgresql/15/bin
least=204800 # KiB: MariaDB's redo log takes half

as_nobody() {
    setpriv --reuid=nobody --regid=nogroup --clear-groups -- "$@"
}

run() { # DRIVER ARGUMENT...
    driver=$1
    shift
    sysbench --config-file=/dev/stdin ./oltp.lua "--db-driver=$driver" "--$driver-user=$user" \
        "--$driver-db=$user" "$@" <<END
$driver-password=$OLTP_PASSWORD
END
}

make() { # DATABASE DIRECTORY SUBNET
    free=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if [ "$free" -lt "$least" ]; then # a server that starts on a full disk may wait for ever
        echo "no space for a database: $free KiB are free, at least $least are needed" >&2
        exit 1
    fi
    rm -rf "$2"
    install -d -o nobody -g nogroup -m 700 "$2"
    "make_$1" "$2" "$3"
}

make_mariadb() { # DIRECTORY SUBNET
    as_nobody mariadb-install-db --no-defaults "--datadir=$1" --skip-test-db \
        --skip-name-resolve >&2
    {
        echo "FLUSH PRIVILEGES;"
        echo "CREATE DATABASE $user;"
        for from in localhost $2; do
            echo "CREATE USER $user@'$from' IDENTIFIED BY '$OLTP_PASSWORD';"
            echo "GRANT ALL ON $user.* TO $user@'$from';"
        done
    } | as_nobody mariadbd --no-defaults "--datadir=$1" --bootstrap
}

make_postgresql() { # DIRECTORY SUBNET
    as_nobody "$postgresql/initdb" --no-sync --no-locale --encoding=UTF8 --auth=reject "$1" >&2
    {
        echo "local $user $user scram-sha-256"
        [ -z "$2" ] || echo "host $user $user $2 scram-sha-256"
    } | as_nobody tee "$1/pg_hba.conf" >&2
    {
        echo "CREATE ROLE $user LOGIN PASSWORD '$OLTP_PASSWORD'"
        echo "CREATE DATABASE $user OWNER $user"
    } | as_nobody "$postgresql/postgres" --single -D "$1" -c log_min_error_statement=panic \
        postgres >&2
}

fill() { # DRIVER PORT WHERE TABLES ROWS SEED SIGNAL READY SERVER...
    driver=$1 port=$2 where=$3 tables=$4 rows=$5 seed=$6 signal=$7 ready=$8
    shift 8
    : >fill.log
    OLTP_PASSWORD='' "$@" >server.log 2>&1 &
    server=$!
    trap 'failed' EXIT
    until grep -qF "$ready" server.log; do
        kill -0 "$server" 2>/dev/null
        sleep 0.1
    done
    run "$driver" "--$driver-port=$port" "$where" "--tables=$tables" "--table-size=$rows" \
        "--rand-seed=$seed" prepare >fill.log 2>&1
    trap - EXIT
    kill "-$signal" "$server"
    wait "$server"
}

failed() { # a server whose disk is full may not end in order
    kill -KILL "$server" 2>/dev/null || :
    wait "$server" 2>/dev/null || :
    for log in fill.log server.log; do
        grep -aE '\b(ERROR|FATAL|PANIC)\b' "$log" | cut -c 1-200 | head -n 2 >&2 || :
    done
}

"$@"
