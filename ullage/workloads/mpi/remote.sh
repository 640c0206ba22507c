#!/bin/sh
# mpirun's remote shell: says what is to be started where; the engine hears it (ullage/engine/launcher.py).
host=$1
shift
printf 'ullage-exec %s %s\n' "$host" "$*" >&2
