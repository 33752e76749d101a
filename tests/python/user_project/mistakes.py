# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong uses, each with the code of the error that mypy finds there; never run."""

import spillway
import torch
from spillway.lightning import SpillwayCallback as LightningCallback
from spillway.transformers import SpillwayCallback as TrainerCallback

model = torch.nn.Linear(1, 1)
session = spillway.session(model, device_budget="1GiB")
spillway.session(model, device_buget="16GiB")  # call-arg
spillway.session(model)  # call-arg
spillway.session(model, "16GiB")  # call-arg
spillway.session(model, device_budget=1.5)  # arg-type
spillway.session(model, device_budget="1GiB", lossy="yes")  # arg-type
spillway.session(model, device_budget="1GiB", nvme=3)  # arg-type
spillway.session("model", device_budget="1GiB")  # arg-type
session.explain(0)  # arg-type
session.timeline(None)  # arg-type
session.reprot()  # attr-defined
number: int = session.explain()  # assignment
session.report()["device_bytes"] = 0  # index
session.report()[0]  # index
spillway.policies()[0].lossless  # attr-defined
LightningCallback(device_budget="1GiB", optimizer=None)  # call-arg
TrainerCallback()  # call-arg
TrainerCallback(device_budget="1GiB").report().to_json()  # union-attr
