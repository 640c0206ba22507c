#!/bin/bash
# The cloud's machine: namespaces of its own, its root for a root; a cable to this host, and from
# this host a route to the instances. It has no way out: who asks for a name hears at once that there
# is nobody. It and all that it runs end with the process named in `pid`.
set -euo pipefail
lab=$1
setsid unshare --mount --pid --fork --uts --ipc --net --kill-child /bin/bash -c '
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/lock run/netns
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm dev/net
for node in "null 1 3" "zero 1 5" "full 1 7" "random 1 8" "urandom 1 9" "tty 5 0" "net/tun 10 200"; do
    set -- $node
    mknod -m 666 "dev/$1" c "$2" "$3"
done
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mkdir -p oldroot
pivot_root . oldroot
cd /
umount -l /oldroot
mount --make-rshared /
hostname oslab
ip link set lo up
echo 1 > /proc/sys/net/ipv4/ip_forward
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
trap : TERM
while :; do
    sleep 3600 &
    wait $!
done' holder "$lab/root" </dev/null >"$lab/holder.log" 2>&1 &
outer=$!
for _ in $(seq 100); do
    inner=$(pgrep -P $outer | head -1) || true
    [ -n "$inner" ] && [ "$(nsenter -t "$inner" -u hostname)" = oslab ] && break
    sleep 0.1
done
echo "$inner" > "$lab/pid"
ip link add oslab0 type veth peer name eth0 netns "$inner"
ip addr add 10.99.0.1/24 dev oslab0
ip link set oslab0 up
nsenter -t "$inner" -n ip addr add 10.99.0.2/24 dev eth0
nsenter -t "$inner" -n ip link set eth0 up
ip route add 10.10.0.0/24 via 10.99.0.2
