"""What is built for the cases that need it, and for no others."""
import dataclasses
from typing import Callable

from cluster import kueue, kwok


def has_image(name):
    """A test whether a cluster has NAME.tar of e2e/images.sh."""
    return lambda cluster: any(archive.name == f"{name}.tar" for archive in cluster.archives)


@dataclasses.dataclass(frozen=True)
class Extra:
    """How the scripts are asked for it, and how to see whether a cluster has it."""

    is_in: Callable     # of a cluster of our own
    flag: str = ""      # of e2e/build.sh
    variable: str = ""  # of e2e/images.sh


ALL = {
    "kueue": Extra(lambda cluster: kueue.can_run(cluster.binaries), flag="--kueue"),
    "kwok": Extra(lambda cluster: kwok.can_run(cluster.binaries), flag="--kwok"),
    "rbac-proxy": Extra(has_image("proxy"), flag="--rbac-proxy"),
    "gateway": Extra(has_image("gateway"), variable="WITH_GATEWAY"),
    "tenant": Extra(has_image("tenant"), variable="WITH_TENANT"),
}


def of(cases):
    """Those that one of the cases needs, in order."""
    return [ALL[name] for name in sorted(set().union(*(case.needs for case in cases)))]
