from ullage.experiments.library import Comparisons as Comparisons
from ullage.experiments.library import Run as Run
from ullage.experiments.library import compare as compare
from ullage.experiments.library import compare_runs as compare_runs
from ullage.experiments.library import open_run as open_run
from ullage.experiments.library import run as run

__version__: str
