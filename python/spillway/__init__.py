# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Train under a hard limit on device memory: tensors that autograd saves wait in host memory or on NVMe.

    with spillway.session(model, device_budget="16GiB", nvme="/scratch") as session:
        loss = model(batch).loss
    loss.backward()
    print(session.report())
"""

from . import _library, _python_state
from .errors import BudgetError, Error, LibraryError, OptionError, StateError, TorchVersionError, SpillwayWarning
from .operators import allow_recompute
from .planning import Comparison, compare, fit, probe
from .policies import Policy, policies
from .report import Report
from .session import Session

_library.load()
_python_state.register()

session = Session
__version__ = "0.1.0"

__all__ = ["BudgetError", "Comparison", "Error", "LibraryError", "OptionError", "Policy", "Report", "Session", "StateError", "TorchVersionError", "SpillwayWarning",
           "allow_recompute", "compare", "fit", "policies", "probe", "session"]
