#!/bin/bash
# End the cloud's machine, and with it every process of the cloud and every instance.
lab=$1
[ -e "$lab/pid" ] || exit 0
pid=$(cat "$lab/pid")
# After a boot the number may be somebody else's.
if [ "$(nsenter -t "$pid" -u hostname 2>/dev/null)" = oslab ]; then
    kill -9 "$pid"
    for _ in $(seq 100); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
fi
rm -f "$lab/pid"
ip link del oslab0 2>/dev/null
for group in /sys/fs/cgroup/*/oslab; do
    find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
done
exit 0
