"""The programs of `benchmarks.profile.prediction`, and what they work on, made by us."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PORT: Final = 18_461


@dataclass(frozen=True)
class Application:
    """A real program, with all that it works on."""

    key: str
    argv: tuple[str, ...]
    files: tuple[str, ...]
    """Of the material."""
    package: str
    says: str | None = None
    """What it prints when it has worked."""


APPLICATIONS: Final = (
    Application("gcc", ("gcc", "-O2", "-c", "work.c", "-o", "work.o"), ("work.c",), "gcc"),
    Application("gzip", ("gzip", "-9", "-k", "-f", "text"), ("text",), "gzip"),
    Application("xz", ("xz", "-0", "-k", "-f", "text"), ("text",), "xz-utils"),
    Application("zstd", ("zstd", "-q", "-f", "-9", "text"), ("text",), "zstd"),
    Application("sort", ("sort", "-o", "sorted", "text"), ("text",), "coreutils"),
    Application("sqlite", ("sqlite3", "work.db", ".read work.sql"), ("work.sql",), "sqlite3"),
    Application("python", ("python3", "work.py"), ("work.py",), "python3"),
    Application(
        "nginx",
        ("sh", "web.sh"),
        ("web.sh", "web.conf", "page"),
        "nginx-light",
        "requests 6000 replies 6000",
    ),
    Application(
        "dd",
        ("dd", "if=/dev/zero", "of=written", "bs=16k", "count=4000", "oflag=direct"),
        (),
        "coreutils",
    ),
)
HELD_OUT: Final = (
    Application("bzip2", ("bzip2", "-9", "-k", "-f", "text"), ("text",), "bzip2"),
    Application("perl", ("perl", "work.pl", "text"), ("work.pl", "text"), "perl", "words "),
    Application(
        "openssl",
        (
            "openssl",
            "enc",
            "-camellia-256-cbc",
            "-pbkdf2",
            "-iter",
            "1500000",
            "-k",
            "k",
            "-in",
            "text",
            "-out",
            "ciphertext",
        ),
        ("text",),
        "openssl",
    ),
)
"""Never profiled while the method was made and tuned: what is learned from them is not fitted."""
EVERY: Final = (*APPLICATIONS, *HELD_OUT)
PACKAGES: Final = ("libc6-dev", "httperf", *(application.package for application in EVERY))


def material(directory: Path) -> None:
    """Everything that the applications work on, the same each time."""
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 9))) for _ in range(4000)]
    lines = (" ".join(rng.choices(words, k=12)) for _ in range(120_000))
    (directory / "text").write_text("\n".join(lines) + "\n")
    functions = (_function(number, rng) for number in range(25))
    (directory / "work.c").write_text("#include <math.h>\n" + "\n".join(functions))
    (directory / "work.sql").write_text(_sql(rng))
    (directory / "work.py").write_text(_PYTHON)
    (directory / "work.pl").write_text(_PERL)
    (directory / "web.sh").write_text(_WEB)
    (directory / "web.conf").write_text(_NGINX)
    (directory / "page").write_text("x" * 4096)


def _function(number: int, rng: random.Random) -> str:
    body = "".join(
        f"  for (int i = 0; i < n; i++) a[i] = sin(a[i] * {rng.random()}) + b[(i * {k}) % n];\n"
        for k in range(3, 9)
    )
    return f"void work_{number}(double *a, const double *b, int n) {{\n{body}}}\n"


def _sql(rng: random.Random) -> str:
    """A hundred and twenty transactions of 200 rows, each on the disk before the next begins."""
    statements = ["PRAGMA synchronous=FULL;", "DROP TABLE IF EXISTS t;"]
    statements.append("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT, n REAL);")
    statements.append("CREATE INDEX i ON t (v);")
    for batch in range(120):
        statements.append("BEGIN;")
        for row in range(200):
            key, text = 200 * batch + row, f"{rng.random():.12f}"
            statements.append(f"INSERT INTO t VALUES ({key}, '{text}', {rng.random()});")
        statements.append("COMMIT;")
    statements.append("SELECT count(*), avg(n) FROM t WHERE v > '0.5';")
    return "\n".join(statements) + "\n"


_PYTHON: Final = """\
def primes(n):
    sieve = bytearray([1]) * n
    for i in range(2, int(n ** 0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))
    return sum(sieve) - 2

total = 0.0
for i in range(1, 2_000_000):
    total += 1.0 / (i * i)
print(primes(3_000_000), total)
"""
_PERL: Final = """\
while (<>) { $seen{$_}++ for split; }
my ($most) = sort { $seen{$b} <=> $seen{$a} || $a cmp $b } keys %seen;
print "words ", scalar(keys %seen), " $most\\n";
"""
_WEB: Final = f"""\
set -e
here=$(pwd)
nginx -p "$here" -c web.conf -e stderr
trap 'nginx -p "$here" -c web.conf -e stderr -s stop' EXIT
httperf --server 127.0.0.1 --port {PORT} --uri /page --num-conns 600 --num-calls 10
"""
_NGINX: Final = f"""\
user root;
worker_processes 1;
pid web.pid;
events {{ worker_connections 128; }}
http {{
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{ listen 127.0.0.1:{PORT}; root .; }}
}}
"""
