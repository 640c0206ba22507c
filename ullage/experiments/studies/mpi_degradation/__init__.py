"""Message passing in a private cloud: 2012."""

from ullage.experiments.studies.mpi_degradation.study import MpiDegradation as MpiDegradation
