#!/usr/bin/env python3
"""Reads the event files of a training with code that shares nothing with the program that writes them, and compares
their points with steps.jsonl. Where the package tensorboard is installed, its reader must give the same points.

Usage: events_test.py SWARMCTL
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

JOB = """
apiVersion: swarmjob.dev/v1alpha1
kind: SwarmJob
metadata: {name: curves}
spec:
  model:
    config: {hidden_size: 16, num_hidden_layers: 2, num_attention_heads: 2, intermediate_size: 32, vocab_size: 256}
  data: {uri: FOLDER/text.txt, validationUri: FOLDER/text.txt}
  training: {maxSteps: 9, globalBatchSize: 2, sequenceLength: 16, validationIntervalSteps: 3}
  checkpoint: {intervalSteps: 4}
  logging: {tensorboard: FOLDER/curves}
"""

CRC_TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    CRC_TABLE.append(byte)


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records_of(data):
    while data:
        length, of_length = struct.unpack("<QI", data[:12])
        assert of_length == masked_crc(data[:8]), "the checksum of a length"
        message = data[12:12 + length]
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked_crc(message), "that of a message"
        yield message
        data = data[16 + length:]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields_of(message):
    """(number, value) of each field of a protobuf message."""
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        wire = key & 7
        if wire == 0:
            value, at = varint(message, at)
        elif wire == 1:
            value, at = struct.unpack("<d", message[at:at + 8])[0], at + 8
        elif wire == 5:
            value, at = struct.unpack("<f", message[at:at + 4])[0], at + 4
        else:
            assert wire == 2, f"wire type {wire}"
            size, at = varint(message, at)
            value, at = message[at:at + size], at + size
        yield key >> 3, value


def curves_of(folder):
    """{tag: {step: value}}; what a session repeats replaces what was there."""
    curves = {}
    for path in sorted(folder.iterdir()):
        records = list(records_of(path.read_bytes()))
        assert dict(fields_of(records[0]))[3] == b"brain.Event:2", f"{path} begins with its version"
        for record in records[1:]:
            event = list(fields_of(record))
            step = dict(event).get(2, 0)
            assert dict(event)[1] > 1.7e9, "the time is that of a wall clock, in seconds"
            if 7 in dict(event):
                curves = {tag: {at: value for at, value in curve.items() if at < step} for tag, curve in curves.items()}
            for number, summary in event:
                for _, value in fields_of(summary) if number == 5 else ():
                    point = dict(fields_of(value))
                    curve = curves.setdefault(point[1].decode(), {})
                    assert step not in curve, f"{point[1]} has step {step} twice"
                    curve[step] = point[2]
    return curves


def curves_of_package(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    points = {tag: reader.Scalars(tag) for tag in reader.Tags()["scalars"]}
    for tag, curve in points.items():
        assert len({point.step for point in curve}) == len(curve), f"{tag} has a step twice"
    return {tag: {point.step: point.value for point in curve} for tag, curve in points.items()}


def main():
    swarmctl = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("a text that is learned soon. " * 200)
        (folder / "job.yaml").write_text(JOB.replace("FOLDER", name))
        train = [swarmctl, "train", "-f", folder / "job.yaml", "--out", folder / "out"]
        subprocess.run(train, check=True, stdout=subprocess.DEVNULL)
        # As if its trainer had died before the last checkpoint: step 8 is trained again.
        last = folder / "out/checkpoints/step-00000009-g0"
        subprocess.run(["rm", "-r", last], check=True)
        subprocess.run(train + ["--resume"], check=True, stdout=subprocess.DEVNULL)
        curves = curves_of(folder / "curves")
        steps = [json.loads(line) for line in (folder / "out/steps.jsonl").read_text().splitlines()]
        assert [step["step"] for step in steps] == list(range(9))
        for tag, key in [("train/loss", "loss"), ("train/grad_norm", "grad_norm"), ("train/learning_rate", "lr"),
                         ("train/tokens_per_second", "tokens_per_second")]:
            for step in steps:
                expected = struct.unpack("<f", struct.pack("<f", step[key]))[0]
                assert curves[tag][step["step"]] == expected, f"{tag} at step {step['step']}"
            assert len(curves[tag]) == 9, tag
        assert set(curves["validation/loss"]) == {2, 5, 8}, curves["validation/loss"]
        try:
            import tensorboard  # noqa: F401
        except ImportError:
            return
        assert curves_of_package(folder / "curves") == curves


if __name__ == "__main__":
    main()
