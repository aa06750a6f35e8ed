"""Somebody new follows a page of the documentation."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from harness.case import case
from harness.kubectl import Refused

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))

from steps import steps  # noqa: E402

PAGE = "docs/cluster.md"


class Reader:
    """Somebody with kubectl and swarmctl, an empty folder, and a context whose namespace is that of the case."""

    def __init__(self, world, folder):
        self.world, self.folder = world, folder
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(world.kubectl("config", "view", "--raw", "--minify", "--flatten"), encoding="utf-8")
        programs = [pathlib.Path(shutil.which(world.kubectl.program)).parent, world.swarmctl.resolve().parent]
        self.environment = {**os.environ, **world.bucket.environment(), "KUBECONFIG": str(kubeconfig),
                            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]])}
        self.do("kubectl config set-context --current --namespace " + world.namespace)

    def do(self, commands):
        """Types commands, and returns what they print. Raises Refused where one fails."""
        done = subprocess.run(["sh", "-ec", commands], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=400, check=False)
        if done.returncode != 0:
            raise Refused(f"{commands}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        return done.stdout

    def own(self, text):
        """The text with the reader's names in place of the page's."""
        names = {"BUCKET": self.world.bucket.name, "ENDPOINT": self.world.bucket.url}
        return re.sub(r"\b(BUCKET|ENDPOINT)\b", lambda match: names[match[0]], text)


@case("The page about a cluster leads from its manifest to an exported model", seconds=600)
def cluster_page(world):
    world.kubectl.delete("secret", "s3-keys", world.namespace)  # the page makes it
    with tempfile.TemporaryDirectory() as name:
        reader = Reader(world, pathlib.Path(name))
        said = {}
        for section, kind, text in steps((ROOT / PAGE).read_text(encoding="utf-8")):
            if kind == "sh":
                said[section] = said.get(section, "") + reader.do(reader.own(text))
                world.note(f"played: {section}")
            else:
                (reader.folder / kind).write_text(reader.own(text), encoding="utf-8")
        world.check("kubectl shows the job", "first" in said["Run it"], said["Run it"])
        world.check("swarmctl shows its workers", "first-w0" in said["Watch it"], said["Watch it"])
        world.check("a worker was deleted", "deleted" in said["Lose a worker"], said["Lose a worker"])
        world.check("the exported model writes", "In the beginning" in said["Take the model"], said["Take the model"])
        world.check("the model is in the folder", (reader.folder / "first-hf/model.safetensors").exists())
        world.check("the job is gone", world.kubectl.get("swarmjob", "first", world.namespace) is None)
