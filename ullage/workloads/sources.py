"""Sources that several workloads name, in Markdown as it stands in `docs/reference/workloads/`.

Of the documents behind our studies we give what `ullage study list` gives: subject and year.
"""

from __future__ import annotations

from typing import Final

_STUDIES: Final = "of [the studies](../../guide/studies.md)"
CMU_OVERHEAD: Final = f"`cmu-overhead` {_STUDIES}: a study of VMs on a supercomputer of CMU, 2015"
ELASTIC_CLOCK: Final = (
    f"`elastic-clock` {_STUDIES}: a study of elastic environments and global physical clocks, 2015"
)
FLASH_ENERGY: Final = (
    f"`flash-energy` {_STUDIES}: a study of flash storage under four KVM guests, 2012"
)
MPI_DEGRADATION: Final = f"`mpi-degradation` {_STUDIES}: a study of MPI in a private cloud, 2012"
NETWORK_PIPELINE: Final = (
    f"`network-pipeline` {_STUDIES}: a study of network and pipeline applications in private "
    "clouds, 2017"
)

SYSBENCH: Final = "A. Kopytov, sysbench 1.0.20: its manual, <https://github.com/akopytov/sysbench>"
PARSEC: Final = (
    "C. Bienia, S. Kumar, J. P. Singh, K. Li: The PARSEC Benchmark Suite, PACT 2008, "
    "<https://doi.org/10.1145/1454115.1454128>"
)
NETPIPE: Final = (
    "Q. O. Snell, A. R. Mikler, J. L. Gustafson: NetPIPE: A Network Protocol Independent "
    "Performance Evaluator, 1996; the manual of 3.7.2, "
    "<https://manpages.debian.org/bookworm/netpipe-tcp/NPtcp.1.en.html>"
)
OPEN_MPI: Final = "Open MPI 4.1, mpirun(1): <https://www.open-mpi.org/doc/v4.1/man1/mpirun.1.php>"
OMISSION: Final = (
    'G. Tene: How NOT to Measure Latency, 2013 ("coordinated omission"), and its generator, '
    "<https://github.com/giltene/wrk2>"
)
OPEN_OR_CLOSED: Final = (
    "B. Schroeder, A. Wierman, M. Harchol-Balter: Open Versus Closed: A Cautionary Tale, "
    "NSDI 2006, <https://www.usenix.org/conference/nsdi-06/open-versus-closed-cautionary-tale>"
)
