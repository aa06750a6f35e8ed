#!/usr/bin/env python3
"""Plays the cases of e2e/cases on a real Kubernetes.

    make e2e                        brings up a cluster on this machine, plays all cases, removes it
    make e2e TAGS=fast              the subset of the CI
    make e2e CASES=node_vanishes    cases by name, separated by commas
    e2e/run.py --list               lists the cases
    e2e/run.py --prompt             keeps the cluster up and obeys commands (type help there)
    e2e/run.py --kubeconfig FILE --images operator=IMAGE,worker=IMAGE --s3 URL --bucket NAME
                                    plays on an existing cluster; its nodes pull the images, its pods and
                                    this program reach the storage (keys: AWS_ACCESS_KEY_ID, ...)

The cluster lives in its own namespaces and in one temporary folder. The program removes all of it at its
end, also after Ctrl-C. The report is in OUT: report.json, junit.xml, and all logs of pods, nodes and
control plane. Exit code 0: every case passed or was skipped; 1: a case failed; 77: no case ran, because
this machine cannot have a cluster (no rights, no Kubernetes, no nodes); a message says why.
"""
import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "e2e"))

from cluster import network, sandbox  # noqa: E402
from cluster.cluster import ON_DEMAND, SPOT, Cluster  # noqa: E402
from cluster.daemon import ClusterError  # noqa: E402
from harness import case as cases  # noqa: E402
from harness import extras, report  # noqa: E402

CANNOT_PLAY = 77
OLD_BUILD = "build/release"
NODES = [("od-a", "north-a", ON_DEMAND), ("od-b", "north-b", ON_DEMAND),
         ("spot-a", "north-a", SPOT), ("spot-b", "north-b", SPOT)]


def parse_arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="", help="names, separated by commas")
    parser.add_argument("--tags", default="", help="only cases with one of these tags")
    parser.add_argument("--list", action="store_true", help="list the cases and end")
    parser.add_argument("--prompt", action="store_true", help="read commands from the terminal")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--old", type=pathlib.Path, metavar="CHECKOUT",
                        help="an earlier version with what its `make build` has built, for the case `versions`")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out" / "e2e")
    parser.add_argument("--kubeconfig", default=os.environ.get("KUBECONFIG", ""))
    parser.add_argument("--images", default="", help="operator=IMAGE,worker=IMAGE, for --kubeconfig")
    parser.add_argument("--s3", default="", help="URL of the storage, for --kubeconfig")
    parser.add_argument("--bucket", default="bucket")
    return parser.parse_args()


def deps():
    """The folder of `make deps` and e2e/build.sh."""
    return pathlib.Path(os.environ.get("SWARM_DEPS", ROOT / ".deps"))


def load_cases():
    """Reads e2e/cases (again)."""
    cases.REGISTRY.clear()
    for path in sorted((ROOT / "e2e" / "cases").glob("*.py")):
        name = f"cases.{path.stem}"
        if name in sys.modules:
            importlib.reload(sys.modules[name])
        else:
            importlib.import_module(name)
    return list(cases.REGISTRY)


def choose(registry, names, tags):
    """The cases with these names, or with one of these tags, or all."""
    wanted = [name for name in names.split(",") if name]
    unknown = set(wanted) - {case.name for case in registry}
    if unknown:
        sys.exit(f"e2e: no case is called {', '.join(sorted(unknown))}; --list prints all cases")
    labels = {tag for tag in tags.split(",") if tag}
    return [case for case in registry
            if (not wanted or case.name in wanted) and (not labels or labels & case.tags)]


def prepare(options, chosen):
    """Builds the programs and images that the cases need before the cluster exists, with the machine's own network."""
    needed = extras.of(chosen)
    flags = [extra.flag for extra in needed if extra.flag]
    environment = {**os.environ, "SWARM_DEPS": str(deps()), **{extra.variable: "1" for extra in needed if extra.variable}}
    commands = [[ROOT / "e2e" / "build.sh", *flags], [ROOT / "e2e" / "images.sh", options.build, options.build / "e2e"]]
    if options.old:
        commands.append([options.old / "e2e" / "images.sh", options.old / OLD_BUILD, options.old / OLD_BUILD / "e2e"])
    for command in commands:
        if subprocess.run(command, env=environment, check=False).returncode:
            raise ClusterError(f"{' '.join(map(str, command))} failed")


def image_tags(folder):
    """{"operator": tag, "worker": tag}: the images that images.sh has built."""
    return {path.stem: path.read_text().strip() for path in folder.glob("*.tag")}


@contextlib.contextmanager
def local_world(options, figures):
    """A cluster on this machine, inside the sandbox of this process."""
    box = sandbox.Sandbox.current()
    images = options.build / "e2e"
    figures["image_mib"] = {path.stem: path.stat().st_size >> 20 for path in images.glob("*.tar")}
    begun = time.monotonic()
    archives = sorted(images.glob("*.tar"))
    if options.old:
        archives += [options.old / OLD_BUILD / "e2e" / f"{name}.tar" for name in ("operator", "worker")]
    contents = "".join(f"{path} {path.stat().st_mtime_ns}" for path in archives)
    store = images / f"store-{hashlib.sha256(contents.encode()).hexdigest()[:12]}"
    binaries = pathlib.Path(os.environ.get("SWARM_KUBERNETES_BINARIES", deps() / "kube")).resolve()
    cluster = Cluster(box, binaries, archives, store, options.out)
    try:
        cluster.start()
        figures["unpack_seconds"] = {name: round(seconds, 1) for name, seconds in cluster.unpack_seconds.items()}
        figures["control_plane_seconds"] = round(time.monotonic() - begun, 1)
        for name, zone, capacity in NODES:
            cluster.add_node(name, zone, capacity)
        from harness.s3 import Server  # only now: its libraries look whether there is a network with IPv6
        server = Server(network.HOME.control_plane, options.out / "s3.log")
        cluster.await_nodes()
        figures["cluster_seconds"] = round(time.monotonic() - begun, 1)
        print(f"e2e: a cluster of {len(NODES)} nodes in {figures['cluster_seconds']} s; "
              f"KUBECONFIG={cluster.kubeconfig}", flush=True)
        yield make_world(options, cluster.binaries / "kubectl", cluster.kubeconfig, cluster, server,
                         server.bucket, image_tags(images))
    finally:
        cluster.keep_all_logs()


@contextlib.contextmanager
def given_world(options):
    """An existing cluster and existing storage."""
    from harness.s3 import Bucket
    if not options.s3 or not options.images:
        sys.exit("e2e: --kubeconfig needs --s3 URL and --images operator=IMAGE,worker=IMAGE")
    bucket = Bucket(options.s3, options.bucket, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
    images = dict(pair.split("=", 1) for pair in options.images.split(","))
    yield make_world(options, "kubectl", options.kubeconfig, None, None, bucket, images)


def make_world(options, kubectl, kubeconfig, cluster, server, bucket, images):
    """Makes the World for a cluster."""
    from harness.kubectl import Kubectl
    from harness.reference import Reference
    from harness.world import CHART, Version, World
    data = options.build / "e2e" / "bible.txt"
    if not data.exists():
        text = subprocess.run(["bible", "gen1:1-rev22:21"], capture_output=True, check=True).stdout
        data.write_bytes(text[:200_000])
    programs = (options.build / "bin").resolve()
    old = Version(options.old / CHART, image_tags(options.old / OLD_BUILD / "e2e")) if options.old else None
    return World(Kubectl(kubectl, kubeconfig), cluster, server, bucket,
                 Reference(programs / "swarmctl", data, options.build / "e2e"), programs,
                 Version(ROOT / CHART, images), old)


def play(case, world):
    """Plays one case to its end and returns its outcome."""
    begun = time.monotonic()
    print(f"e2e: {case.name}: {case.title}", flush=True)

    def too_long(*_):
        raise TimeoutError(f"not at its end after {case.seconds} s")
    signal.signal(signal.SIGALRM, too_long)
    verdict, reason = "passed", ""
    world.notes = cases.Notes()  # a case that is skipped has none, and not those of the one before
    try:
        if case.machines:
            world.need_machines()
        world.need_extras(case.needs)
        world.begin(case.name)
        signal.alarm(case.seconds)
        case.tell(world)
    except cases.Skip as skip:
        verdict, reason = "skipped", str(skip)
    except KeyboardInterrupt:
        raise
    except Exception as error:  # after any error, the other cases run
        verdict = "failed"
        where = traceback.extract_tb(error.__traceback__)
        lines = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}: {frame.line}" for frame in where
                 if "/cases/" in frame.filename]
        reason = "\n".join([f"{type(error).__name__}: {error}", *lines])
    finally:
        signal.alarm(0)
    outcome = report.Outcome(case, verdict, time.monotonic() - begun, world.notes, reason)
    try:
        if verdict == "failed":
            keep_evidence(world)
        if verdict != "skipped":
            world.end()
    except Exception as error:
        outcome.reason += f"\nafterwards: {type(error).__name__}: {error}"
    print(report.table([outcome]), flush=True)
    return outcome


def keep_evidence(world):
    """Collects what the cluster reports about a failed case."""
    for namespace in world.namespaces:
        keep_objects(world, namespace)
    (world.evidence / world.namespace / "notes.txt").write_text("\n".join(world.notes.lines) + "\n")


def keep_objects(world, namespace):
    """Collects objects, events and logs of one namespace."""
    folder = world.evidence / namespace
    folder.mkdir(parents=True, exist_ok=True)
    for name, arguments in {
            "objects.yaml": ["get", "swarmjobs,pods,events,services,pdb,networkpolicies", "-n", namespace, "-o", "yaml"],
            "events.txt": ["get", "events", "-n", namespace, "--sort-by=.lastTimestamp"],
            "nodes.txt": ["get", "nodes,pods", "--all-namespaces", "-o", "wide"]}.items():
        with contextlib.suppress(Exception):
            (folder / name).write_text(world.kubectl(*arguments))
    for pod in world.kubectl.list("pods", namespace):
        name = pod["metadata"]["name"]
        with contextlib.suppress(Exception):
            (folder / f"{name}.log").write_text(world.kubectl("logs", "-n", namespace, name, "--all-containers"))


def play_all(options, world, figures):
    """Installs the operator, plays the chosen cases, and reports."""
    begun = time.monotonic()
    try:
        world.install()
    except ClusterError as error:
        print(f"e2e: the operator is not installed: {error}", file=sys.stderr)
        return 1
    figures["install_seconds"] = round(time.monotonic() - begun, 1)
    outcomes = []
    try:
        for case in choose(load_cases(), options.cases, options.tags):
            outcomes.append(play(case, world))
    finally:
        report.write(outcomes, options.out, figures)
        print("\n" + report.table(outcomes))
        print(f"\ne2e: figures {figures}\ne2e: logs and report in {options.out}")
        print(report.summary(outcomes), flush=True)
    return 1 if any(outcome.verdict == "failed" for outcome in outcomes) else 0


HELP = """names of cases     plays them (reads e2e/cases again each time); all: every case
install            helm upgrade --install with the images as they are
images             builds the images again and loads them into the nodes; then type install
sh COMMAND         runs a command with KUBECONFIG set and kubectl and helm in PATH
py EXPRESSION      evaluates Python; world is the world
exit"""


def prompt(options, world):
    """Obeys commands from the terminal."""
    environment = {**os.environ, "KUBECONFIG": str(world.kubectl.kubeconfig),
                   "PATH": f"{deps() / 'kube'}:{os.environ['PATH']}"}
    print(HELP, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        try:
            if word == "exit":
                return 0
            if word == "install":
                world.install(*rest.split())
            elif word == "images":
                subprocess.run([ROOT / "e2e" / "images.sh", options.build, options.build / "e2e"], check=True)
                world.version = dataclasses.replace(world.version, images=image_tags(options.build / "e2e"))
                world.cluster.load(sorted((options.build / "e2e").glob("*.tar")))
            elif word == "sh":
                subprocess.run(rest, shell=True, env=environment, check=False)
            elif word == "py":
                print(eval(rest, {"world": world}))
            elif word:
                for case in choose(load_cases(), "" if word == "all" else word, ""):
                    play(case, world)
        except (Exception, SystemExit) as error:
            print(f"{type(error).__name__}: {error}")
        print("e2e> ready", flush=True)
    return 0


def inside(options):
    """Plays the cases; with our own cluster this is the first process of the sandbox."""
    shutil.rmtree(options.out, ignore_errors=True)
    options.out.mkdir(parents=True)
    figures = {}
    with given_world(options) if options.kubeconfig else local_world(options, figures) as world:
        world.evidence = options.out / "failed"
        return prompt(options, world) if options.prompt else play_all(options, world, figures)


def main():
    options = parse_arguments()
    options.out, options.build = options.out.resolve(), options.build.resolve()
    options.old = options.old and options.old.resolve()
    if options.list:
        for case in load_cases():
            print(f"{case.name:32} {case.title}" + (f"  [{', '.join(sorted(case.tags))}]" if case.tags else ""))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.kubeconfig or sandbox.Sandbox.current():
            return inside(options)
        chosen = choose(load_cases(), options.cases, options.tags)
        sandbox.refuse_without_rights()
        prepare(options, chosen)
        return sandbox.run([sys.executable, *sys.argv])
    except KeyboardInterrupt:
        return 130
    except ClusterError as error:
        print(f"e2e: no cluster, so no case ran: {error}", file=sys.stderr)
        return CANNOT_PLAY


if __name__ == "__main__":
    sys.exit(main())
