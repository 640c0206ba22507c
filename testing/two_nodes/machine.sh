# The inside of one machine of the lab; run by `lab.py` in namespaces of its own.
# Nothing of the controller's is there: no home, cache, run or temporary directory, no control
# groups but its own, no boot id.
set -e
name=$1 dir=$2 group=$3
mount --make-rprivate /
mount --bind "$dir/root" /root
for covered in lib/ullage cache/ullage lib/lxc lib/containers; do
    mount --bind "$dir/var/$covered" "/var/$covered"
done
mount -t tmpfs tmpfs "$dir/cgroup"
for hierarchy in /sys/fs/cgroup/*; do
    mkdir "$dir/cgroup/${hierarchy##*/}"
    mount --bind "$hierarchy/$group" "$dir/cgroup/${hierarchy##*/}"
done
umount -R -l /sys
mount -t sysfs sysfs /sys
mount --rbind "$dir/cgroup" /sys/fs/cgroup
umount -R -l "$dir/cgroup"
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/netns /run/lab
mount --bind "$dir/keys" /run/lab
for hidden in /tmp /work /home; do
    [ ! -d $hidden ] || mount -t tmpfs -o mode=1777 tmpfs $hidden
done
mount -t proc proc /proc
mount --bind "$dir/root/boot_id" /proc/sys/kernel/random/boot_id
hostname "$name"
ip link set lo up
cd /root
exec /usr/sbin/sshd -D -e -f /run/lab/sshd_config
