"""The plan refuses just the numbers of ranks that the NAS programs refuse."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mpi.naskit import NAS
from ullage.workloads.mpi.mpi import MOST_RANKS
from ullage.workloads.mpi.nas import ITERATIONS, NasKernel, refusal

ASK = """
#include <stdio.h>
#include "nas.h"
int main(void) {
  for (int class = 0; class < CLASSES; class++, putchar('\\n'))
    for (int ranks = 1; ranks <= %d; ranks++)
      putchar(nas_kernel.refuses((enum nas_class)class, ranks) ? '-' : '+');
}
"""


@pytest.mark.parametrize("kernel", ITERATIONS)
def test_the_same_ranks_are_refused(kernel: NasKernel, tmp_path: Path) -> None:
    (tmp_path / "ask.c").write_text(ASK % MOST_RANKS, "utf-8")
    sources = [NAS / f"{kernel}.c", *NAS.glob(f"{kernel}_*.c"), NAS / "random.c", NAS / "report.c"]
    argv = ["cc", "-D_GNU_SOURCE", "-fopenmp", f"-I{NAS}", "-o", str(tmp_path / "ask")]
    argv += [str(tmp_path / "ask.c"), *map(str, sources), "-lm"]
    subprocess.run(argv, check=True)
    allowed = subprocess.run([tmp_path / "ask"], capture_output=True, text=True, check=True).stdout
    classes, ranks = ITERATIONS[kernel], range(1, MOST_RANKS + 1)
    expected = [
        "".join("-" if refusal(kernel, size_class, n) else "+" for n in ranks)
        for size_class in classes
    ]
    assert allowed.split() == expected
