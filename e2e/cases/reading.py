"""Somebody new follows a page of the documentation."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from harness.case import case
from harness.kubectl import Refused
from harness.world import OPERATOR_NAMESPACE

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))

from steps import steps  # noqa: E402

CLUSTER_PAGE, CLOUDS_PAGE = "docs/cluster.md", "docs/clouds.md"
REGISTRY = "registry.example"


def kubeconfig(world, clusters):
    """A kubeconfig with a context for each cluster {name: kubectl}, in the namespace of the case."""
    merged = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, kubectl in clusters.items():
        own = json.loads(kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        merged["clusters"].append({"name": name, "cluster": own["clusters"][0]["cluster"]})
        merged["users"].append({"name": name, "user": own["users"][0]["user"]})
        merged["contexts"].append(
            {"name": name, "context": {"cluster": name, "user": name, "namespace": world.namespace}})
    return json.dumps({**merged, "current-context": next(iter(clusters))})


class Reader:
    """Somebody with kubectl, helm and swarmctl, in a folder with the chart alone, with a context for each cluster
    {name: kubectl} whose namespace is that of the case."""

    def __init__(self, world, folder, clusters):
        self.world, self.folder = world, folder
        (folder / "helm").symlink_to(ROOT / "helm")
        (folder / "kubeconfig").write_text(kubeconfig(world, clusters), encoding="utf-8")
        programs = [pathlib.Path(shutil.which(world.kubectl.program)).parent, world.swarmctl.resolve().parent]
        self.environment = {**os.environ, **world.bucket.environment(), "KUBECONFIG": str(folder / "kubeconfig"),
                            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]])}

    def do(self, commands):
        """Types commands, and returns what they print. Raises Refused where one fails."""
        done = subprocess.run(["sh", "-ec", commands], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=900, check=False)
        if done.returncode != 0:
            raise Refused(f"{commands}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        return done.stdout

    def own(self, text):
        """The text with the reader's names in place of the page's."""
        names = {"BUCKET": self.world.bucket.name, "ENDPOINT": self.world.bucket.url, "REGISTRY": REGISTRY}
        return re.sub(r"\b(BUCKET|ENDPOINT|REGISTRY)\b", lambda match: names[match[0]], text)

    def play(self, page, after=lambda: None):
        """Does what the page says, and calls `after` behind each block of commands. Gives what each section printed."""
        said = {}
        for section, kind, text in steps((ROOT / page).read_text(encoding="utf-8")):
            if kind == "sh":
                said[section] = said.get(section, "") + self.do(self.own(text))
                self.world.note(f"played: {section}")
                after()
            else:
                (self.folder / kind).write_text(self.own(text), encoding="utf-8")
        return said


@case("The page about a cluster leads from its manifest to an exported model", seconds=600)
def cluster_page(world):
    world.kubectl.delete("secret", "s3-keys", world.namespace)  # the page makes it
    with tempfile.TemporaryDirectory() as name:
        reader = Reader(world, pathlib.Path(name), {"home": world.kubectl})
        said = reader.play(CLUSTER_PAGE)
        world.check("kubectl shows the job", "first" in said["Run it"], said["Run it"])
        world.check("swarmctl shows its workers", "first-w0" in said["Watch it"], said["Watch it"])
        world.check("a worker was deleted", "deleted" in said["Lose a worker"], said["Lose a worker"])
        world.check("the exported model writes", "In the beginning" in said["Take the model"], said["Take the model"])
        world.check("the model is in the folder", (reader.folder / "first-hf/model.safetensors").exists())
        world.check("the job is gone", world.kubectl.get("swarmjob", "first", world.namespace) is None)


@contextlib.contextmanager
def three_clouds(world):
    """The clusters that the page expects, {name: kubectl}."""
    try:
        with world.west() as west, world.east() as east:
            for other in (west, east):
                other.delete("secret", "s3-keys", world.namespace)  # the page makes it
            (release,) = json.loads(world.helm("list", "--all-namespaces", "-o", "json"))
            # As if it were in the registry.
            world.name_image(world.images["operator"], f"{REGISTRY}/swarm-operator:{release['app_version']}")
            yield {"home": world.kubectl, "west": west, "east": east}
    finally:
        world.install()  # without satellites, as other cases expect it


def cluster_rows(shown):
    """What `swarmctl top` shows of each cluster: {name: ready}."""
    table = shown.split("\nCLUSTER ")[1].split("\n\n")[0].splitlines()[1:]
    return {row.split()[0]: row.split()[1] for row in table}


@case("The page about several clouds leads from the second cluster to a job that loses a cluster and goes on", "regions",
      machines=True, seconds=1500)
def clouds_page(world):
    with three_clouds(world) as clusters, tempfile.TemporaryDirectory() as name:
        said = Reader(world, pathlib.Path(name), clusters).play(CLOUDS_PAGE, world.give_addresses)
        world.check("home lists its satellites",
                    re.findall(r"^(\w+)  (?:connected since 20|has not come yet)", said["Install the operator there"],
                               re.MULTILINE) == ["east", "west"], said["Install the operator there"])
        world.check("workers were in all clusters", cluster_rows(said["Run it"]) == {
            "home": "2/2", "east": "2/2", "west": "2/2"}, said["Run it"])
        world.check("kubectl shows those of one cluster",
                    len(re.findall(r"^clouds-w\d+ +1/1 +Running", said["Run it"], re.MULTILINE)) == 2, said["Run it"])
        world.check("the job says which cluster is away", "cluster west has been away" in said["Lose a cloud"],
                    said["Lose a cloud"])
        world.check("home lists its satellite as away, and the other as connected",
                    re.search("^east  connected since 20.*\nwest  away since 20", said["Lose a cloud"], re.MULTILINE),
                    said["Lose a cloud"])
        world.check("home has replaced its workers", cluster_rows(said["Lose a cloud"]) == {
            "home": "4/4", "east": "2/2", "west": "0/2"}, said["Lose a cloud"])
        losses = world.bucket.steps("runs/clouds/")
        _, state, step, loss, *_ = said["See it end"].splitlines()[-1].split()
        world.check("the job has succeeded", state == "Succeeded", said["See it end"])
        world.check("there is a loss of each step", sorted(losses) == list(range(int(step))), len(losses))
        world.check("and the last one is what kubectl shows",
                    abs(losses[int(step) - 1]["loss"] - float(loss)) < 1e-3, (losses[int(step) - 1], loss))
        for kubectl in clusters.values():
            world.check("no pod of the job is left", not kubectl.list("pods", world.namespace, "swarmjob.dev/job"))
        world.check("the other clusters have no operator", not any(
            clusters[other].list("deployments", OPERATOR_NAMESPACE) for other in ("west", "east")))
