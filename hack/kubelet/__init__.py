"""Kubelets for a control plane that has none: `containers` runs pods of the chart as processes, `play` does so for all.

`cli` is the command `hack/kubelets`.
"""
