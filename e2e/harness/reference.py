"""What one undisturbed process makes of the cases' job: its losses, and its weights at every tenth step."""
import hashlib
import json
import shutil
import subprocess
import tempfile

CHECKPOINT_INTERVAL = 10
STEPS_MAX = 3000


def spec(data_uri, steps):
    """What decides the trajectory of the cases' job. The learning rate does not depend on the number of
    steps, so a longer run is the continuation of a shorter one."""
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
    """Trained as far as somebody asks, once for each set of programs; kept in a folder."""

    def __init__(self, swarmctl, data, cache):
        self.swarmctl = swarmctl
        self.data = data
        identity = hashlib.sha256(json.dumps(spec("", 0)).encode() + data.read_bytes() + swarmctl.read_bytes())
        self.folder = cache / f"reference-{identity.hexdigest()[:16]}"
        self.steps = 0

    def extend(self, steps):
        """Makes sure that the first `steps` steps are known."""
        if self.steps >= steps:
            return
        for folder in self.folder.parent.glob("reference-*"):
            if folder != self.folder:
                shutil.rmtree(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        done = self.folder / "steps"
        if not done.exists() or int(done.read_text()) < steps:
            manifest = {"apiVersion": "swarmjob.dev/v1alpha1", "kind": "SwarmJob", "metadata": {"name": "reference"},
                        "spec": {**spec(str(self.data), steps),
                                 "checkpoint": {"intervalSteps": CHECKPOINT_INTERVAL, "keepLast": STEPS_MAX}}}
            (self.folder / "job.yaml").write_text(json.dumps(manifest))
            shutil.rmtree(self.folder / "out", ignore_errors=True)
            trained = subprocess.run([self.swarmctl, "train", "-f", self.folder / "job.yaml", "--out",
                                      self.folder / "out", "--threads", "1"],
                                     check=False, capture_output=True, text=True)
            if trained.returncode != 0:
                raise RuntimeError(f"swarmctl train: {trained.stderr.strip()}")
            done.write_text(str(steps))
        self.steps = int(done.read_text())

    def losses(self, steps):
        """The lines of the first steps: number, loss, gradient norm, learning rate."""
        self.extend(steps)
        with open(self.folder / "out" / "steps.jsonl") as file:
            return [json.loads(line) for line in file][:steps]

    def weights(self, step):
        """The digest of the weights after `step` steps, a multiple of CHECKPOINT_INTERVAL."""
        self.extend(step)
        # Exporting takes the newest checkpoint of a folder: give it a folder with this one alone.
        with tempfile.TemporaryDirectory() as alone:
            found = next((self.folder / "out" / "checkpoints").glob(f"step-{step:08d}-*"))
            shutil.copytree(found, f"{alone}/checkpoints/{found.name}")
            return digest_of(self.swarmctl, f"{alone}/checkpoints")


def digest_of(swarmctl, checkpoints, environment=None):
    """The digest of the newest checkpoint's weights, whatever the stages in which they were written."""
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
