#!/bin/bash
# Inside: everything in its order; the first time also databases, users and the cell.
set -u
ip=10.99.0.2 logs=/var/log/lab
mkdir -p $logs /run/lock/nova /run/lock/neutron /var/log/{nova,neutron,glance,keystone,placement}
mkdir -p /run/mysqld /run/dbus /run/rabbitmq
chown mysql /run/mysqld

daemon() {
    local name=$1
    shift
    setsid "$@" >>"$logs/$name.out" 2>&1 </dev/null &
    echo $! > "/run/$name.pid"
}
up() {
    for _ in $(seq 1800); do
        (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null && return 0
        sleep .2
    done
    echo "port $2 never opened"
    return 1
}
wsgi() {
    daemon "$1" uwsgi --plugin python3 --http-socket "0.0.0.0:$2" --wsgi-file "$3" --processes 1 \
        --threads 4 --enable-threads --lazy-apps --master --die-on-term --buffer-size 65535 \
        --rem-header Content-Length --need-app
}
say() { echo "$SECONDS s: $*"; }
database="mysql+pymysql://lab:lab@127.0.0.1"
neutron="--config-file /etc/neutron/neutron.conf"
first=yes
[ -f /var/lib/lab-done ] && first=no

daemon mariadb mariadbd --user=mysql --bind-address=127.0.0.1 --skip-name-resolve \
    --performance-schema=off --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0 \
    --max-connections=300
export RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_NODE_IP_ADDRESS=127.0.0.1
export RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="+S 1:1 +sbwt none"
daemon rabbit rabbitmq-server
ip link add prov0 type veth peer name prov1
ip addr replace 10.10.0.1/24 dev prov1
ip link set prov0 up
ip link set prov1 up
daemon libvirtd libvirtd
daemon virtlogd virtlogd
up 127.0.0.1 3306 || exit 1
say "the database is up"
if [ $first = yes ]; then
    for name in keystone glance placement nova_api nova nova_cell0 neutron ec2api; do
        echo "CREATE DATABASE IF NOT EXISTS $name CHARACTER SET utf8;"
    done | mariadb
    echo "CREATE USER IF NOT EXISTS lab@'127.0.0.1' IDENTIFIED BY 'lab';
          GRANT ALL ON *.* TO lab@'127.0.0.1';" | mariadb
    keystone-manage db_sync
    keystone-manage fernet_setup --keystone-user root --keystone-group root
    keystone-manage credential_setup --keystone-user root --keystone-group root
    url="http://$ip:5000/v3/"
    keystone-manage bootstrap --bootstrap-password lab --bootstrap-admin-url $url \
        --bootstrap-internal-url $url --bootstrap-public-url $url --bootstrap-region-id RegionOne
fi
wsgi keystone 5000 /usr/bin/keystone-wsgi-public
up $ip 5000 || exit 1
say "keystone is up"
if [ $first = yes ]; then
    python3 /lab/cloud.py services || exit 1
    {
        glance-manage db_sync
        placement-manage db sync
        nova-manage api_db sync
        nova-manage cell_v2 map_cell0 --database_connection "$database/nova_cell0"
        nova-manage cell_v2 create_cell --name cell1
        nova-manage db sync
        neutron-db-manage $neutron --config-file /etc/neutron/plugins/ml2/ml2_conf.ini upgrade head
    } >>$logs/database.out 2>&1
    say "the databases are made"
fi
up 127.0.0.1 5672 || exit 1
wsgi placement 8778 /usr/bin/placement-api
daemon glance glance-api --config-file /etc/glance/glance-api.conf
daemon neutron neutron-server $neutron --config-file /etc/neutron/plugins/ml2/ml2_conf.ini
daemon conductor nova-conductor
daemon scheduler nova-scheduler
daemon nova-api nova-api
daemon agent neutron-linuxbridge-agent $neutron \
    --config-file /etc/neutron/plugins/ml2/linuxbridge_agent.ini
daemon compute nova-compute
for port in 9292 8778 9696 8774; do
    up $ip $port || exit 1
done
say "the services are up"
python3 /lab/cloud.py wait || exit 1
if [ $first = yes ]; then
    nova-manage cell_v2 discover_hosts >>$logs/database.out 2>&1
    touch /var/lib/lab-done
fi
say "it is ready"
