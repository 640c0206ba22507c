# The inside of one machine of a cloud that is none; run by machine.py in namespaces of its own.
set -e
dir=$1 name=$2 disk_bytes=$3
mount --make-rprivate /
mkdir -p /var/lib/ullage-instance
[ -z "$disk_bytes" ] || mount -t tmpfs -o size="$disk_bytes" tmpfs "$dir/disk"
mount --bind "$dir/disk" /var/lib/ullage-instance
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd
mount -t proc proc /proc
mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
hostname "$name"
# As cloud-init prints it.
{
    echo "-----BEGIN SSH HOST KEY KEYS-----"
    cat "$dir/host.pub"
    echo "-----END SSH HOST KEY KEYS-----"
} > "$dir/console"
exec /usr/sbin/sshd -D -e -f "$dir/sshd_config"
