#!/bin/bash
# The cloud's own Debian: a root folder with OpenStack "Zed" in it; none of its daemons is started.
# Called with the lab's folder; what is there already stays.
set -euo pipefail
lab=$1 root=$1/root
[ -e "$lab/root.done" ] && exit 0
rm -rf "$root"
mmdebstrap --quiet --variant=minbase --components=main --aptopt='Acquire::Languages "none"' \
  --include=ca-certificates,iproute2,iputils-ping,procps,python3,python3-venv,dbus,procps,kmod,udev \
  bookworm "$root"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cat > "$root/etc/dpkg/dpkg.cfg.d/lab" <<'K'
force-unsafe-io
path-exclude=/usr/share/doc/*
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
K
cp /etc/pip.conf "$root/etc/pip.conf" 2>/dev/null || true
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
cp -n /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" || true
here=$(dirname "$0")
"$here/in-root.sh" "$lab" apt-get update -q
"$here/in-root.sh" "$lab" apt-get install -qy --no-install-recommends \
  keystone glance-api placement-api nova-api nova-conductor nova-scheduler nova-compute-qemu \
  neutron-api neutron-rpc-server neutron-linuxbridge-agent python3-openstackclient \
  rabbitmq-server memcached python3-memcache uwsgi-core uwsgi-plugin-python3 \
  qemu-system-x86 qemu-utils libvirt-daemon-system libvirt-clients libvirt-daemon-driver-qemu \
  mariadb-server python3-pymysql genisoimage dosfstools e2fsprogs iptables ebtables ipset \
  conntrack sudo
# Before the cloud, on demand: it is in no Debian any more.
"$here/in-root.sh" "$lab" python3 -m venv --system-site-packages /opt/ec2
"$here/in-root.sh" "$lab" /opt/ec2/bin/pip install -q ec2-api==17.0.0
touch "$lab/root.done"
