"""A job that trains on this machine under faults, for tests that look at its metrics."""

import signal
import subprocess

MANIFEST = """apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {{name: panels}}
spec:
  model:
    config: {{hidden_size: 32, num_hidden_layers: 3, num_attention_heads: 2, intermediate_size: 64, vocab_size: 256}}
  data: {{uri: {data}, validationUri: {data}}}
  training: {{maxSteps: 1000000, globalBatchSize: 8, microbatchSize: 1, sequenceLength: 32, validationIntervalSteps: 5}}
  schedule: {{type: Constant}}
  pipeline: {{stages: 3}}
  workers: {{replicas: 6}}
  checkpoint: {{intervalSteps: 10}}
"""
# These faults cause recovery: swarmctl replaces departed workers, and workers refuse late messages.
CHAOS = "kill any every 3s after step 5; drain any every 5s after step 5; stop any every 4s after step 5 for 2s"
LABELS = {"namespace": "default", "swarmjob": "panels", "pool": "local", "zone": "here"}


class DisturbedJob:
    """Runs from its making until stop(). `more` are further arguments of swarmctl run, such as --set."""

    def __init__(self, build, folder, chaos=CHAOS, more=()):
        self.folder = folder
        (folder / "text").write_text("In the beginning was the word, and nobody had compressed it. " * 200)
        (folder / "job.yaml").write_text(MANIFEST.format(data=folder / "text"))
        self.process = subprocess.Popen(
            [build / "bin/swarmctl", "run", "-f", folder / "job.yaml", "--out", folder / "out",
             "--threads-per-worker", "1", "--chaos", chaos, *more],
            stdout=(folder / "job.log").open("w"), stderr=subprocess.STDOUT)

    def targets(self):
        """Its programs of this moment, as Prometheus.scrape takes them. Ends the test if the job has ended."""
        if self.process.poll() is not None:
            raise SystemExit(f"the job ended:\n{(self.folder / 'job.log').read_text()[-4000:]}")
        files = (self.folder / "out/metrics").glob("*")
        addresses = sorted({path.read_text().strip() for path in files if path.suffix != ".next"})
        return [{"targets": addresses, "labels": LABELS}]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        finally:
            self.process.kill()
