#!/bin/sh
# A folder that instances share by NFS version 4: no rpcbind, no name service, nothing on a disk but
# the folder. Only where the instance has a kernel of its own, which is a virtual machine.
#   nfs.sh export FOLDER ADDRESS CLIENT...   serve FOLDER at ADDRESS to these clients alone
#   nfs.sh answer                            answer the kernel's questions about exports, until told
#   nfs.sh mount ADDRESS FOLDER POINT        mount it
#   nfs.sh unmount POINT
#   nfs.sh withdraw FOLDER CLIENT...         the last one ends the server
set -eu

STATE=/var/lib/nfs
PID=/run/ullage-mountd.pid

fail() {
    echo "$*" >&2
    exit 1
}

able() {
    for kind in nfsd nfs4; do
        grep -qw "$kind" /proc/filesystems || fail "this kernel has no NFS: $kind is missing"
    done
    [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/1/ns/net)" ] ||
        fail "NFS needs an instance with a kernel of its own: this one shares the host's"
}

hush() { # end the mountd that `export` has started
    [ ! -e "$PID" ] || kill "$(cat "$PID")" 2>/dev/null || true
    rm -f "$PID"
}

export_folder() {
    folder=$1 address=$2
    shift 2
    able
    mkdir -p "$folder"
    if [ ! -w "$STATE" ]; then # the image is read-only
        mount -t tmpfs -o mode=755 nfs-state "$STATE"
        touch "$STATE/etab" "$STATE/rmtab"
    fi
    mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
    for client; do
        exportfs -o rw,sync,no_root_squash,no_subtree_check "$client:$folder"
    done
    rpc.nfsd --host "$address" --no-nfs-version 3 --no-udp 4
    hush
    rpc.mountd --foreground --no-nfs-version 2 --no-nfs-version 3 >/dev/null 2>&1 &
    echo $! >"$PID"
}

withdraw() {
    folder=$1
    shift
    for client; do
        exportfs -u "$client:$folder"
    done
    [ -n "$(exportfs)" ] || rpc.nfsd 0
}

what=$1
shift
case $what in
export) export_folder "$@" ;;
answer)
    hush
    exec rpc.mountd --foreground --no-nfs-version 2 --no-nfs-version 3
    ;;
mount)
    able
    mkdir -p "$3"
    mount -t nfs4 -o vers=4.2,hard "$1:$2" "$3"
    ;;
unmount) umount "$1" ;;
withdraw) withdraw "$@" ;;
*) fail "nfs.sh: $what?" ;;
esac
