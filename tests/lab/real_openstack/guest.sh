#!/bin/bash
# The image that instances boot: Debian with sshd and an init of a few lines in place of cloud-init.
# A file system without partitions; kernel and initrd are images of their own.
set -euo pipefail
lab=$1 guest=$1/guest
[ -e "$lab/guest.done" ] && exit 0
rm -rf "$guest" "$lab/images"
mkdir -p "$lab/images"
mmdebstrap --quiet --variant=minbase --aptopt='Acquire::Languages "none"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include=openssh-server,iproute2,linux-image-cloud-amd64,initramfs-tools,busybox,zstd,python3,kmod \
  --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"' \
  --customize-hook='printf "MODULES=list\nCOMPRESS=zstd\n" > "$1/etc/initramfs-tools/conf.d/lab"' \
  --customize-hook='printf "%s\n" virtio_pci virtio_blk virtio_net ext4 crc32c_generic isofs virtio_rng >> "$1/etc/initramfs-tools/modules"' \
  --customize-hook='chroot "$1" update-initramfs -u' \
  bookworm "$guest"
install -m 755 "$(dirname "$0")/init.sh" "$guest/sbin/lab-init"
rm -f "$guest"/etc/ssh/ssh_host_*
cp "$guest"/boot/vmlinuz-* "$lab/images/vmlinuz"
cp "$guest"/boot/initrd.img-* "$lab/images/initrd"
rm -rf "$guest"/boot/* "$guest"/var/cache/apt/* "$guest"/var/lib/apt/lists/*
truncate -s 2000M "$lab/images/guest.raw"
mke2fs -q -F -t ext4 -L root -d "$guest" "$lab/images/guest.raw"
qemu-img convert -c -O qcow2 "$lab/images/guest.raw" "$lab/images/guest.qcow2"
rm -rf "$lab/images/guest.raw" "$guest"
touch "$lab/guest.done"
