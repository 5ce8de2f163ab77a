"""A Kubernetes API server in a box, in this process, for demonstrations and tests. It is not for production.

    with Sandbox(controllers=True) as sandbox:
        sandbox.write_kubeconfig("kubeconfig")

`Sandbox` is loaded when it is first asked for: the pure parts of this package are used without a server as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubenexus.common.sandbox.facade import Sandbox

__all__ = ["Sandbox"]


def __getattr__(name: str) -> Any:
    if name == "Sandbox":
        from kubenexus.common.sandbox.facade import Sandbox

        return Sandbox
    raise AttributeError(name)
