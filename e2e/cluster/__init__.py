"""A Kubernetes cluster on one machine, without a container engine: real control plane, kubelets and containers."""
