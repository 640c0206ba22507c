#!/bin/bash
# One command on the cloud's running machine.
lab=$1
shift
exec nsenter -t "$(cat "$lab/pid")" -m -p -u -i -n -r -w /usr/bin/env -i \
  PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb "$@"
