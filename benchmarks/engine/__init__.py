"""What ullage itself takes: of a trial, of a workload, of memory, of a whole run."""
