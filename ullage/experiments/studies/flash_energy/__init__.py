"""Flash and energy under VMs, 2012."""

from ullage.experiments.studies.flash_energy.study import FlashEnergy as FlashEnergy
