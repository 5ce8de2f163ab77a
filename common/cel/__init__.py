"""CEL, the language in which DeviceClasses and ResourceClaims select devices, as Kubernetes 1.36 evaluates it."""

from kubenexus.common.cel.errors import CelError, CelRuntimeError
from kubenexus.common.cel.facts import Facts
from kubenexus.common.cel.selector import MAX_BYTES, MAX_COST, Purse, Selector, compile_selector

__all__ = ["MAX_BYTES", "MAX_COST", "CelError", "CelRuntimeError", "Facts", "Purse", "Selector", "compile_selector"]
