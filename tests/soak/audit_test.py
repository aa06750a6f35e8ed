#!/usr/bin/env python3
"""Tests of audit.py: it finds what a trainer, or a worker, counted wrongly."""
import json
import os
import tempfile
import unittest

import audit

JOB = {"spec": {"training": {"microbatchSize": 1, "globalBatchSize": 3}, "pipeline": {"stages": 1}}}


class AuditTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(f"{self.folder.name}/workers")
        self.write("job.json", [JOB])
        self.write("steps.jsonl", [{"step": 0}])
        self.commit({"a": [0, 2], "b": [1]})
        self.log("a", "serves 0 0", "folds 0 0 0", "folds 0 0 2", "sums 0 0 0 1 7")
        self.log("b", "serves 0 0", "folds 0 0 1", "sums 0 0 0 1 7")

    def write(self, name, objects):
        with open(f"{self.folder.name}/{name}", "w") as file:
            file.writelines(json.dumps(item) + "\n" for item in objects)

    def commit(self, claims, **more):
        participants = [{"worker": w, "stage": 0, "microbatches": m} for w, m in claims.items()]
        group = {"group": 0, "k": [1, 7]} | ({"participants": participants} if claims else {})
        self.write("ledger.jsonl", [{"step": 0, "generation": 0, "groups": [group]} | more])

    def log(self, worker, *lines):
        with open(f"{self.folder.name}/workers/{worker}.log", "w") as file:
            file.writelines(f"2030-01-01T00:00:00.000Z debug {worker} account: {line}\n" for line in lines)

    def problems(self):
        return " | ".join(audit.audit(self.folder.name)["problems"])

    def test_what_trainer_and_workers_count_alike_is_well(self):
        result = audit.audit(self.folder.name)
        self.assertEqual((result["problems"], result["witnessed"], result["samples"]), ([], 1, 3))

    def test_a_microbatch_that_the_ledger_lacks_or_repeats_is_found(self):
        self.commit({"a": [0], "b": [1]})
        self.assertIn("microbatch 2 is not counted at stage 0", self.problems())
        self.commit({"a": [0, 1, 2], "b": [1]})
        self.assertIn("microbatch 1 is counted more than once", self.problems())

    def test_a_fold_that_the_ledger_does_not_know_is_found(self):
        self.log("b", "serves 0 0", "folds 0 0 1", "folds 0 0 2", "sums 0 0 0 1 7")
        self.assertIn("b says that it summed [1, 2] at stage 0, the ledger says [1]", self.problems())

    def test_a_microbatch_that_one_worker_folded_twice_is_found(self):
        self.log("b", "serves 0 0", "folds 0 0 1", "folds 0 0 1", "sums 0 0 0 1 7")
        self.assertIn("the workers' sums repeat microbatch 1 at stage 0", self.problems())

    def test_a_participant_that_never_began_the_sum_is_found(self):
        self.log("b", "serves 0 0", "folds 0 0 1")
        self.assertIn("b says that it summed None", self.problems())

    def test_what_was_cleared_or_belonged_to_an_earlier_life_does_not_count(self):
        self.log("a", "serves 0 0", "folds 0 0 1", "serves 0 0", "folds 0 0 1", "clears 0 0", "folds 0 0 0",
                 "folds 0 0 2", "sums 0 0 0 1 7")
        self.assertEqual(self.problems(), "")

    def test_a_step_that_a_new_trainer_adopted_is_judged_by_the_workers(self):
        self.commit({}, adopted=True)
        self.assertEqual(self.problems(), "")
        self.log("b", "serves 0 0", "sums 0 0 0 1 7")
        self.assertIn("the workers' sums lack microbatch 1 at stage 0", self.problems())

    def test_without_logs_of_workers_the_ledger_is_judged_alone(self):
        for worker in "ab":
            os.remove(f"{self.folder.name}/workers/{worker}.log")
        self.assertEqual(audit.audit(self.folder.name)["witnessed"], 0)
        self.assertEqual(self.problems(), "")


if __name__ == "__main__":
    unittest.main()
