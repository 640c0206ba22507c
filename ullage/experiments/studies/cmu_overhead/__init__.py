"""The overhead method: CMU supercomputer, 2015."""

from ullage.experiments.studies.cmu_overhead.study import CmuOverhead as CmuOverhead
