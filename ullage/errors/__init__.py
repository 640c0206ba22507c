"""The closed catalogue of what can go wrong, a file for each subject.

Every error that a user can meet is an entry here: a stable code, what was found, and what to do.
Add an entry with its test; `tests/test_errors.py` refuses an entry that no test raises.
"""

from ullage.errors.kind import ErrorKind as ErrorKind
from ullage.errors.kind import ExitCode as ExitCode
from ullage.errors.kind import UllageError as UllageError
from ullage.errors.plan import *
from ullage.errors.host import *
from ullage.errors.run import *
from ullage.errors.image import *
from ullage.errors.agent import *
from ullage.errors.limits import *
from ullage.errors.containers import *
from ullage.errors.allocation import *
from ullage.errors.lists import *
from ullage.errors.elastic import *
from ullage.errors.simulation import *
from ullage.errors.clock import *
from ullage.errors.tables import *
from ullage.errors.compare import *
from ullage.errors.weigh import *
from ullage.errors.energy import *
from ullage.errors.profile import *
from ullage.errors.study import *
from ullage.errors.causes import *
from ullage.errors.live import *
