#!/bin/sh
# One of Hadoop's programs, from its jars alone, with the settings beside this file.
#   hadoop.sh NODE_ADDRESS OWN_ADDRESS HEAP_MIB format|namenode|datanode
#   hadoop.sh NODE_ADDRESS OWN_ADDRESS HEAP_MIB dfsio JOB FILES BYTES MAPS
# No instance has a name service: Java is told the name that the settings use, and its own.
set -eu
node=$1 own=$2 heap=$3 what=$4
shift 4
here=$(pwd)
hosts=$here/hosts.$what.${1:-0}
printf '127.0.0.1 localhost\n%s %s\n%s namenode\n' "$own" "$(hostname)" "$node" > "$hosts"

java="java -Xmx${heap}m -XX:+UseSerialGC -Djdk.net.hosts.file=$hosts -Dullage.here=$here
    -Dullage.own=$own -cp $here:/opt/hadoop/*"
set -f # the jars are for Java to find; no directory of ours has a blank in its name

# Every half second, what has gone in and out of eth0: time in ns, bytes in, bytes out.
watch_network() {
    while :; do
        sed -n "s/^ *eth0: *\([0-9]*\)\( *[0-9]*\)\{7\} *\([0-9]*\).*/$(date +%s%N) \1 \3/p" \
            /proc/net/dev | sed 's/^/network /'
        sleep 0.5
    done
}

case $what in
format)
    rm -rf dfs
    exec $java org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive
    ;;
namenode) exec $java org.apache.hadoop.hdfs.server.namenode.NameNode ;;
datanode) exec $java org.apache.hadoop.hdfs.server.datanode.DataNode ;;
dfsio)
    job=$1 files=$2 bytes=$3 maps=$4 watcher=
    if [ "$job" = 0 ]; then
        watch_network &
        watcher=$!
    fi
    for step in write read; do
        echo "step $step"
        $java org.apache.hadoop.fs.TestDFSIO "-Dtest.build.data=/job-$job" \
            "-Dhadoop.tmp.dir=$here/job-$job" "-Dmapreduce.local.map.tasks.maximum=$maps" \
            -Dmapreduce.task.io.sort.mb=8 \
            "-$step" -nrFiles "$files" -size "${bytes}B" -resFile "$here/result.$job" >&2
        cat "$here/result.$job"
        rm -f "$here/result.$job"
    done
    [ -z "$watcher" ] || kill "$watcher"
    echo "step end"
    ;;
esac
