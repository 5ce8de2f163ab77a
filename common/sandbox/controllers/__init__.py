"""Small controllers that make a sandbox live: what kube-controller-manager and kubelets do, as far as examples need it.

Each controller is a pure function from what it sees to the writes it wants; `ControllerManager` runs them all.
Not here: binding of PersistentVolumeClaims (nothing provisions volumes), services, node taints, horizontal scaling.
"""

from kubenexus.common.sandbox.controllers.manager import ControllerManager as ControllerManager
