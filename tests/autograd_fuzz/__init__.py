# SPDX-FileCopyrightText: The Spillway authors
# SPDX-License-Identifier: Apache-2.0
"""Random autograd programs under Spillway, compared bit by bit with plain autograd."""
