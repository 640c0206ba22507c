#!/bin/sh
# Process 1 of an instance: network, keys and user data from the config drive, as cloud-init would.
# (Its first mounts are there where the initrd has moved its own.)
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc 2>/dev/null
mount -t sysfs sys /sys 2>/dev/null
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/config
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -o remount,rw /
modprobe -a virtio_net isofs virtio_scsi sr_mod overlay 2>/dev/null
for device in $(blkid -t LABEL=config-2 -o device) /dev/vdb /dev/sr0; do
    mount -o ro "$device" /run/config 2>/dev/null && break
done
python3 - <<'P'
import json, os, subprocess
from pathlib import Path

drive = Path("/run/config/openstack/latest")
about = json.loads((drive / "meta_data.json").read_text())
network = json.loads((drive / "network_data.json").read_text())
Path("/etc/hostname").write_text(about["hostname"].split(".")[0] + "\n")
os.makedirs("/root/.ssh", 0o700, exist_ok=True)
keys = about.get("public_keys", {}).values()
Path("/root/.ssh/authorized_keys").write_text("".join(key.strip() + "\n" for key in keys))
by_mac = {
    Path(f"/sys/class/net/{name}/address").read_text().strip(): name
    for name in os.listdir("/sys/class/net")
}
links = {link["id"]: by_mac[link["ethernet_mac_address"]] for link in network["links"]}
for one in network["networks"]:
    device = links[one["link"]]
    subprocess.call(["ip", "link", "set", device, "up"])
    if one["type"] == "ipv4":
        subprocess.call(["ip", "addr", "add", f"{one['ip_address']}/{one['netmask']}", "dev", device])
        for route in one.get("routes", []):
            target = f"{route['network']}/{route['netmask']}"
            subprocess.call(["ip", "route", "add", target, "via", route["gateway"]])
data = drive / "user_data"
header, _, settings = data.read_text().partition("\n") if data.exists() else ("", "", "")
if header == "#cloud-config":
    given = json.loads(settings)["ssh_keys"]
    secret = Path("/etc/ssh/ssh_host_ed25519_key")
    secret.touch(0o600)
    secret.write_text(given["ed25519_private"])
    secret.with_suffix(".pub").write_text(given["ed25519_public"] + "\n")
P
ip link set lo up
hostname -F /etc/hostname
[ -f /etc/ssh/ssh_host_ed25519_key ] || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key
/usr/sbin/sshd -o UsePAM=no -o PermitRootLogin=prohibit-password -o UseDNS=no
{
    echo "-----BEGIN SSH HOST KEY KEYS-----"
    cat /etc/ssh/ssh_host_ed25519_key.pub
    echo "-----END SSH HOST KEY KEYS-----"
    echo "ready after $(cut -d' ' -f1 /proc/uptime) s"
} > /dev/console
trap : TERM INT
while :; do
    sleep 3600 &
    wait $!
done
