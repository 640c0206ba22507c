"""NGINX in the foreground, as all of our servers start it: what it writes lies where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

ARGV: Final = ("nginx", "-p", ".", "-e", "stderr", "-c", "server.conf")
"""Serves by `server.conf` of its working directory."""


def configuration(
    port: int,
    serves: Sequence[str],
    *,
    processes: int,
    connections: int,
    content: str = "application/octet-stream",
) -> str:
    """For so many connections of one process; `serves`: directives that say what there is.

    https://nginx.org/en/docs/dirindex.html; paths are relative to `-p`.
    """
    server = "\n    ".join((f"listen {port} backlog={connections};", *serves))
    return f"""\
daemon off;
user root;
worker_processes {processes};
worker_rlimit_nofile {2 * connections};
pid server.pid;
error_log stderr crit;
events {{ worker_connections {connections}; }}
http {{
  access_log off;
  client_body_temp_path temp;
  proxy_temp_path temp;
  fastcgi_temp_path temp;
  uwsgi_temp_path temp;
  scgi_temp_path temp;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 3600;
  keepalive_requests 1000000000;
  default_type {content};
  server {{
    {server}
  }}
}}
"""
