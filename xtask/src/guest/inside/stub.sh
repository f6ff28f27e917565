#!/bin/sh
# In the image. pid 1, or the unit's program under systemd: mounts the other disks and hands over
# to what the payload brings, so that a change of that needs no new image.
PATH=/usr/sbin:/usr/bin
# Under systemd they are there. Without an initrd nobody else does it.
[ -e /proc/self ] || mount -t proc -o nosuid,nodev,noexec proc /proc
[ -e /sys/block ] || mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
[ -e /dev/nvme0 ] || mount -t devtmpfs -o nosuid,mode=0755 devtmpfs /dev

# The disk with the namespace id $1; it may come up after the root's.
disk() {
    tries=100
    while [ "$tries" -gt 0 ]; do
        for disk in /sys/block/nvme*; do
            if [ "$(cat "$disk/nsid" 2>/dev/null)" = "$1" ]; then
                echo "/dev/${disk##*/}"
                return
            fi
        done
        tries=$((tries - 1))
        sleep 0.1
    done
}

mkdir -p /payload /usr/lib/modules
mount -t ext4 -o ro,nosuid,nodev "$(disk 2)" /payload
mount -t ext4 -o ro,nosuid,nodev "$(disk 3)" /usr/lib/modules
exec sh "/payload/guest/$1"
