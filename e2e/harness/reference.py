"""The reference for the cases' job: losses and weights of one undisturbed process."""
import hashlib
import json
import shutil
import subprocess
import tempfile

CHECKPOINT_INTERVAL = 10
KEPT_INTERVAL = 100  # of the undisturbed process
ENDLESS = 100_000  # steps of a job that a case stops


def spec(data_uri, steps):
    """The fields that decide the trajectory of the cases' job. The learning rate does not depend on the number
    of steps, so a longer run continues a shorter one."""
    return {
        "model": {"config": {
            "architectures": ["LlamaForCausalLM"], "hidden_size": 48, "num_hidden_layers": 4,
            "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "vocab_size": 256,
            "max_position_embeddings": 64}},
        "data": {"uri": data_uri},
        "training": {"seed": 7, "maxSteps": steps, "globalBatchSize": 8, "microbatchSize": 1,
                     "sequenceLength": 64, "accumulation": "Exact"},
        "optimizer": {"type": "AdamW", "learningRate": 3e-3},
        "schedule": {"type": "Constant", "warmupSteps": 10},
        "pipeline": {"stages": 2},
    }


class Reference:
    """Trains as many steps as a case asks for; keeps them in a folder for one set of programs."""

    def __init__(self, swarmctl, data, cache):
        self.swarmctl = swarmctl
        self.data = data
        identity = hashlib.sha256(json.dumps(spec("", 0)).encode() + data.read_bytes() + swarmctl.read_bytes())
        self.folder = cache / f"reference-{identity.hexdigest()[:16]}"

    def train(self, steps):
        """The folder of a run that ends at that step. The run continues from the newest earlier checkpoint of
        another run, because cases end at different steps and share most of the way."""
        run = self.folder / str(steps)
        if (run / "done").exists():
            return run
        for folder in self.folder.parent.glob("reference-*"):
            if folder != self.folder:
                shutil.rmtree(folder)
        shutil.rmtree(run, ignore_errors=True)
        checkpoints = run / "out" / "checkpoints"
        checkpoints.mkdir(parents=True)
        known = {int(found.name.split("-")[1]): found for done in self.folder.glob("*/done")
                 for found in (done.parent / "out" / "checkpoints").glob("step-*")}
        begin = max((step for step in known if step <= steps), default=0)
        if begin:
            shutil.copytree(known[begin], checkpoints / known[begin].name)
        manifest = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "reference"},
                    "spec": {**spec(str(self.data), steps),
                             "checkpoint": {"uri": str(checkpoints), "intervalSteps": KEPT_INTERVAL, "keepLast": 1000}}}
        (run / "job.yaml").write_text(json.dumps(manifest))
        trained = subprocess.run([self.swarmctl, "train", "-f", run / "job.yaml", "--out", run / "out",
                                  "--threads", "1", "--resume"], check=False, capture_output=True, text=True)
        if trained.returncode != 0:
            raise RuntimeError(f"swarmctl train: {trained.stderr.strip()}")
        (run / "done").touch()
        return run

    def losses(self, steps):
        """The lines of the first steps: step, loss, gradient norm, learning rate."""
        self.train(steps)
        lines = {}
        for done in self.folder.glob("*/done"):
            with open(done.parent / "out" / "steps.jsonl") as file:
                lines.update((line["step"], line) for line in map(json.loads, file))
        return [lines[step] for step in range(steps)]

    def weights(self, steps):
        """The digest of the weights after that many steps."""
        return digest_of(self.swarmctl, self.train(steps) / "out" / "checkpoints")


def digest_of(swarmctl, checkpoints, environment=None):
    """The digest of the newest checkpoint's weights; it does not depend on the number of stages."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([swarmctl, "export", "--checkpoint", checkpoints, "--out", f"{folder}/hf"],
                              env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"swarmctl export --checkpoint {checkpoints}: {done.stderr.strip()}")
        digest = hashlib.sha256()
        found = subprocess.run(["find", f"{folder}/hf", "-name", "*.safetensors"], capture_output=True, text=True,
                               check=True).stdout.split()
        for path in sorted(found):
            with open(path, "rb") as file:
                digest.update(file.read())
        return digest.hexdigest()
