#!/bin/sh
# What the workload `oltp` runs inside an instance. OLTP_PASSWORD goes on by pipes alone: no argv
# and no file has it, but for what the database itself keeps of it.
#
#   oltp.sh run DRIVER ARGUMENT...         sysbench as the user of the database
#   oltp.sh make DATABASE DIRECTORY SUBNET a database with that user, empty
#   oltp.sh fill DRIVER HOST PORT TABLES ROWS SEED SIGNAL READY SERVER...
#                                          sysbench's tables, while the server runs
set -eu
umask 022
user=ullage
postgresql=/usr/lib/postgresql/15/bin

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
    rm -rf "$2"
    install -d -o nobody -g nogroup -m 700 "$2"
    case $1 in
    mariadb)
        as_nobody mariadb-install-db --no-defaults "--datadir=$2" --skip-test-db \
            --skip-name-resolve >&2
        as_nobody mariadbd --no-defaults "--datadir=$2" --bootstrap <<END
FLUSH PRIVILEGES;
CREATE DATABASE $user;
CREATE USER $user@'$3' IDENTIFIED BY '$OLTP_PASSWORD';
GRANT ALL ON $user.* TO $user@'$3';
END
        ;;
    postgresql)
        as_nobody "$postgresql/initdb" --no-sync --no-locale --encoding=UTF8 --auth=reject \
            "$2" >&2
        echo "host $user $user $3 scram-sha-256" | as_nobody tee "$2/pg_hba.conf" >&2
        as_nobody "$postgresql/postgres" --single -D "$2" -c log_min_error_statement=panic \
            postgres >&2 <<END
CREATE ROLE $user LOGIN PASSWORD '$OLTP_PASSWORD'
CREATE DATABASE $user OWNER $user
END
        ;;
    esac
}

fill() { # DRIVER HOST PORT TABLES ROWS SEED SIGNAL READY SERVER...
    driver=$1 host=$2 port=$3 tables=$4 rows=$5 seed=$6 signal=$7 ready=$8
    shift 8
    : >fill.log
    OLTP_PASSWORD='' "$@" >server.log 2>&1 &
    server=$!
    trap 'failed' EXIT
    until grep -qF "$ready" server.log; do
        kill -0 "$server"
        sleep 0.1
    done
    run "$driver" "--$driver-host=$host" "--$driver-port=$port" "--tables=$tables" \
        "--table-size=$rows" "--rand-seed=$seed" prepare >fill.log 2>&1
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
