# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Where Spillway is known to differ from plain autograd. Each has a program in regressions/known; its test
fails when the difference is gone: then it is taken out here. All come from one fact: plain autograd saves an
input as the tensor itself, whatever becomes of it; a hook, Spillway's or Python's, is given it once, without a hold."""

import re

WRITTEN = "one of the variables needed for gradient computation has been modified by an inplace operation"
BASE_WRITTEN = "is a view and its base or another view of its base has been modified inplace"
OF_VIEWS = (BASE_WRITTEN, "INTERNAL ASSERT", "A view was created in no_grad mode and its base or another view of its base")
DETACHED = ("Trying to use a saved tensor that has been detached in-place",
            "none of output has requires_grad=True")
WANTS_GRADIENT_SINCE = "was set to require a gradient after an operator saved it"
ANOTHER_SHAPE = "but expected shape compatible with"
SOURCE_WRITTEN = ("was written before backward needed it", "what it is made of has been freed")
RECOMPUTED_OTHERWISE = "torch.utils.checkpoint: A different number of tensors was saved"
_TENSOR = re.compile(r"inplace operation: \[.*?\](?=,? (?:which|is at))(?:, which is output \d+ of [^,]*,)?")
Event = tuple[object, ...]


def _text(event: Event) -> str:
    return str(event[2]) if len(event) == 3 and event[1] == "RuntimeError" else ""


def source_written(other: Event) -> bool:
    """What the model had is not there any more to make a tensor from: docs/limits.md."""
    return any(words in _text(other) for words in SOURCE_WRITTEN)


def known(plain: Event, other: Event) -> str:
    """Its name; empty for a difference that is not known."""
    left, right = _text(plain), _text(other)
    if plain[1:2] == ("CheckpointError",) and RECOMPUTED_OTHERWISE in str(plain[2]) and not right:
        return "detached_leaf_in_a_checkpoint"  # gone when the checkpoint runs again; as below
    if left.startswith(DETACHED) and not right.startswith(DETACHED[0]):
        return "detached_in_place"  # the tensor is gone, and nothing else knows: Spillway goes on
    if right.startswith(DETACHED) and not left:
        return "detached_where_plain_looks"  # Python and Functions are given the detached one: Spillway stops
    if BASE_WRITTEN in right and not left:
        return "saved_view_of_a_written_base"  # under any hooks torch asks for its node, which there is none
    if WANTS_GRADIENT_SINCE in right and not left:
        return "requires_grad_after_the_save"  # a node's metadata is that of the save: Spillway stops
    if (ANOTHER_SHAPE in right and not left) or (ANOTHER_SHAPE in left and not right):
        return "shape_of_a_leaf_in_a_checkpoint"  # hooks and plain autograd keep the leaf's node, with its shape, for another time
    if not left or not right:
        return ""  # only one of them refuses
    if BASE_WRITTEN in right or (WRITTEN in right and any(words in left for words in OF_VIEWS)):
        return "written_base_of_views"
    if WRITTEN in left and _TENSOR.sub("", left) == _TENSOR.sub("", right):
        return "written_tensor_that_is_gone"
    return ""
