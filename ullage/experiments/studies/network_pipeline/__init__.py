"""Network and pipelines in private clouds: 2017."""

from ullage.experiments.studies.network_pipeline.study import NetworkPipeline as NetworkPipeline
