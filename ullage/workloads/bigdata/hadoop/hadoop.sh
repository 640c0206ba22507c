#!/bin/sh
# One of Hadoop's programs, from its jars alone, with the settings beside this file.
#   hadoop.sh NODE_ADDRESS OWN_ADDRESS HEAP_MIB format|namenode|datanode
#   hadoop.sh NODE_ADDRESS OWN_ADDRESS HEAP_MIB resourcemanager|nodemanager MEMORY_MIB
#   hadoop.sh NODE_ADDRESS OWN_ADDRESS HEAP_MIB dfsio JOB FILES BYTES MAPS local|yarn CONTAINER_MIB
# No instance has a name service: Java is told the name that the settings use, and its own.
set -eu
node=$1 own=$2 heap=$3 what=$4
shift 4
here=$(pwd)
hosts=$here/hosts.$what.${1:-0}
printf '127.0.0.1 localhost\n%s %s\n%s namenode\n' "$own" "$(hostname)" "$node" > "$hosts"
mkdir -p webapps/hdfs webapps/datanode # the servers look for the pages that they do not have

options="-Xmx${heap}m -XX:+UseSerialGC -Djdk.net.hosts.file=$hosts -Dullage.here=$here
    -Dullage.own=$own --add-opens=java.base/java.lang=ALL-UNNAMED"
java="java $options -cp $here:/opt/hadoop/*"
set -f # the jars are for Java to find; no directory of ours has a blank in its name

# Every half second, what has gone in and out of eth0: time in ns, bytes in, bytes out.
watch_network() {
    while :; do
        sed -n "s/^ *eth0: *\([0-9]*\)\( *[0-9]*\)\{7\} *\([0-9]*\).*/$(date +%s%N) \1 \3/p" \
            /proc/net/dev | sed 's/^/network /'
        sleep 0.5
    done
}

# At once: in order takes 20 s. A container, such as what watched over the last job, works below yarn/.
end_node() {
    kill -KILL "$node"
    set +f
    for process in /proc/[0-9]*; do
        case $(readlink "$process/cwd") in
        "$here"/yarn/*) kill -KILL "${process#/proc/}" || : ;;
        esac
    done
    exit 0
}

# TestDFSIO's -write or -read; what its tasks are told stands in the job, for their Java machines.
# YARN's staging and history folders stand among the files of the trial before, which -write removes.
step() { # STEP JOB FILES BYTES MAPS local|yarn CONTAINER_MIB
    tasks=$(echo $options)
    $java org.apache.hadoop.fs.TestDFSIO "-Dtest.build.data=/job-$2" \
        "-Dhadoop.tmp.dir=$here/job-$2" "-Dmapreduce.framework.name=$6" \
        "-Dyarn.app.mapreduce.am.staging-dir=/job-$2/io_data/yarn" \
        "-Dmapreduce.local.map.tasks.maximum=$5" "-Dmapreduce.job.running.map.limit=$5" \
        "-Dyarn.app.mapreduce.am.resource.mb=$7" "-Dyarn.app.mapreduce.am.command-opts=$tasks" \
        "-Dmapreduce.map.memory.mb=$7" "-Dmapreduce.map.java.opts=$tasks" \
        "-Dmapreduce.reduce.memory.mb=$7" "-Dmapreduce.reduce.java.opts=$tasks" \
        "-$1" -nrFiles "$3" -size "${4}B" -resFile "$here/result.$2" >&2
}

case $what in
format)
    rm -rf dfs
    exec $java org.apache.hadoop.hdfs.server.namenode.NameNode -format -nonInteractive
    ;;
namenode) exec $java org.apache.hadoop.hdfs.server.namenode.NameNode ;;
datanode) exec $java org.apache.hadoop.hdfs.server.datanode.DataNode ;;
resourcemanager)
    exec $java org.apache.hadoop.yarn.server.resourcemanager.ResourceManager \
        "-Dyarn.scheduler.maximum-allocation-mb=$1"
    ;;
nodemanager)
    JAVA_HOME=$(readlink -f "$(command -v java)")
    export JAVA_HOME="${JAVA_HOME%/bin/java}" # for the containers
    rm -rf yarn # of the trial before
    trap end_node TERM
    $java org.apache.hadoop.yarn.server.nodemanager.NodeManager \
        "-Dyarn.nodemanager.resource.memory-mb=$1" &
    node=$!
    wait "$node"
    ;;
dfsio)
    job=$1 watcher=
    rm -rf "job-$job" # what it kept here in the trial before
    if [ "$job" = 0 ]; then
        watch_network &
        watcher=$!
    fi
    for step in write read; do
        echo "step $step"
        step "$step" "$@"
        cat "$here/result.$job"
        rm -f "$here/result.$job"
    done
    [ -z "$watcher" ] || kill "$watcher"
    echo "step end"
    ;;
esac
