#!/bin/bash
# One command in the lab's root before the lab runs: this host's network, other namespaces its own.
lab=$1
shift
exec unshare --mount --pid --fork --uts --ipc --kill-child /bin/bash -c '
mount --make-rprivate /
root=$1
shift
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/run/lock"
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
  DEBIAN_FRONTEND=noninteractive TERM=dumb SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$@"
' in-root "$lab/root" "$@"
