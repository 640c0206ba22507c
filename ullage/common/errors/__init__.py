"""The closed catalogue of what can go wrong, a file for each subject.

Every error that a user can meet is an entry here: a stable code, what was found, and what to do.
Add an entry with its test; `tests/common/test_errors.py` refuses an entry that no test raises.
"""

from ullage.common.errors.kind import ErrorKind as ErrorKind
from ullage.common.errors.kind import ExitCode as ExitCode
from ullage.common.errors.kind import UllageError as UllageError
from ullage.common.errors.plan import *
from ullage.common.errors.host import *
from ullage.common.errors.engine import *
from ullage.common.errors.environments import *
from ullage.common.errors.nodes import *
from ullage.common.errors.clouds import *
from ullage.common.errors.hyperv import *
from ullage.common.errors.ssh import *
from ullage.common.errors.common import *
from ullage.common.errors.experiments import *
from ullage.common.errors.analysis import *
from ullage.common.errors.meters import *
from ullage.common.errors.cli import *
