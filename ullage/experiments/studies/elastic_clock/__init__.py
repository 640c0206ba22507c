"""Elastic environments and the clock: 2015."""

from ullage.experiments.studies.elastic_clock.study import ElasticClock as ElasticClock
