# pid 1 of a guest without systemd: mounts what every Linux has, runs the command, powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
mkdir -p /dev/pts /dev/shm /dev/mqueue
mount -t devpts -o nosuid,noexec,gid=5,mode=0620,ptmxmode=0666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
mount -t mqueue -o nosuid,nodev,noexec mqueue /dev/mqueue
mount -t tmpfs -o nosuid,nodev,mode=0755 tmpfs /run
# /tmp stays on the disk: attempts make set-user-ID programs there, and links from /var/tmp.
mkdir -p /run/lock
mount -t securityfs -o nosuid,nodev,noexec securityfs /sys/kernel/security
mount -t debugfs -o nosuid,nodev,noexec,mode=0700 debugfs /sys/kernel/debug
mount -t tracefs -o nosuid,nodev,noexec,mode=0700 tracefs /sys/kernel/tracing
mount -t bpf -o nosuid,nodev,noexec,mode=0700 bpf /sys/fs/bpf
mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate cgroup2 /sys/fs/cgroup
for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control
done
ip link set lo up
hostname guest
sh /payload/guest/run
# reboot(2) without anybody to ask: the disks are snapshots (sysrq.rst of the kernel, `o`).
echo o >/proc/sysrq-trigger
sleep 60
