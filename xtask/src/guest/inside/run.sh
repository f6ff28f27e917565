# Runs the command and sends its exit status, and what it left in /output, to the host.
exec </dev/null >/dev/console 2>&1
export PATH=/payload/custody:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin
export HOME=/root LANG=C.UTF-8 TERM=dumb
export CUSTODY_PROGRAMS=/payload/custody CUSTODY_OUTPUT=/output

# The port that the host calls $1 (virtio-serial has the names in sysfs).
port() {
    for port in /sys/class/virtio-ports/*; do
        if [ "$(cat "$port/name")" = "$1" ]; then
            echo "/dev/${port##*/}"
        fi
    done
}

# Kernel messages would lie within the command's lines; they come with the output.
dmesg --console-level 1
# Tests look for fixtures where the checkout was when they were built.
mkdir -p "$(cat /payload/guest/checkout)"
mount --bind /payload/checkout "$(cat /payload/guest/checkout)"
mkdir -p /output "$(cat /payload/guest/target)/tmp"

cd /payload
sh /payload/guest/command
code=$?
cd /
dmesg >/output/dmesg.log
tar -C /output -c . >"$(port output)"
echo "exit=$code" >"$(port result)"
