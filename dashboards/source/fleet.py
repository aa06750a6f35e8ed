"""All jobs: which ones train, how fast, with how many workers, and which ones have trouble."""

from panels import (FAILED, OPERATOR, OPERATOR_OF_JOB, PREEMPTED, dashboard, increase, now, rate, row, series, stat,
                    table, variables)

JOB = "namespace, swarmjob"
OPERATOR_JOB = "job_namespace, swarmjob"
CONDITION = "swarmjob_operator_condition"
WITH_CAPACITY = OPERATOR_OF_JOB + ', condition="CapacityAvailable"'
RUNNING = OPERATOR + ', state=~"Running|Recovering"'


def summary():
    ends = "swarmjob_operator_pod_ends_total"
    return row(
        "Summary",
        stat("Jobs running", "SwarmJobs in the state Running or Recovering.", "none",
             f"sum(max by (state) ({now('swarmjob_operator_jobs', RUNNING)}))", decimals=0),
        stat("Workers ready", "Workers that train, in all jobs.", "none",
             f"sum(max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_ready', OPERATOR_OF_JOB)}))", decimals=0),
        stat("Workers missing", "Workers that jobs ask for and do not have.", "none",
             f"sum(max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_desired', OPERATOR_OF_JOB)}))"
             f" - sum(max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_ready', OPERATOR_OF_JOB)}))",
             decimals=0, thresholds=[("green", None), ("orange", 1)]),
        stat("Throughput", "Tokens of committed steps of all jobs, per second.", "suffix:tokens/s",
             f"sum({rate('swarmjob_trainer_tokens_total')})", decimals=0),
        stat("Preemptions", "Pods that ended by preemption in the time shown.", "none",
             f"sum({increase(ends, PREEMPTED)})", decimals=0),
        stat("Failures", "Pods that ended by a failure of their own in the time shown.", "none",
             f"sum({increase(ends, FAILED)})", decimals=0,
             thresholds=[("green", None), ("red", 1)]),
    )


def jobs():
    return row(
        "Jobs",
        table("Training", "The newest numbers of each job that trains.",
              ("Step", "none", now("swarmjob_trainer_version")),
              ("Loss", "none", now("swarmjob_trainer_loss")),
              ("Tokens per second", "none", rate("swarmjob_trainer_tokens_total")),
              ("Time left", "s", now("swarmjob_trainer_remaining_seconds")),
              ("Checkpoint", "none", now("swarmjob_trainer_checkpoint_version")),
              by=("namespace", "swarmjob"), width=16),
        series("Jobs by state", "SwarmJobs by the state in their status.", "none",
               (f"max by (state) ({now('swarmjob_operator_jobs', OPERATOR)})", "{{state}}"), stacked=True),
        series("Throughput", "Tokens of committed steps, per second.", "suffix:tokens/s",
               (f"sum by ({JOB}) ({rate('swarmjob_trainer_tokens_total')})", "{{namespace}}/{{swarmjob}}"),
               stacked=True),
        series("Goodput", "Share of the forwards and backwards that workers computed, whose results are in committed "
               "steps.", "percentunit",
               (f"clamp_max(sum by ({JOB}) ({rate('swarmjob_trainer_useful_tasks_total')})"
                f" / sum by ({JOB}) ({rate('swarmjob_worker_service_seconds_count')}), 1)",
                "{{namespace}}/{{swarmjob}}")),
        series("Loss", "Mean training loss of each job's last step, in nats per token.", "none",
               (now("swarmjob_trainer_loss"), "{{namespace}}/{{swarmjob}}"), minimum=None),
    )


def capacity():
    ends = "swarmjob_operator_pod_ends_total"
    return row(
        "Capacity and preemption",
        series("Workers ready", "Workers that train, by job.", "none",
               (f"max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_ready', OPERATOR_OF_JOB)})",
                "{{job_namespace}}/{{swarmjob}}"), stacked=True),
        series("Workers missing", "Workers that a job asks for and does not have.", "none",
               (f"max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_desired', OPERATOR_OF_JOB)})"
                f" - max by ({OPERATOR_JOB}) ({now('swarmjob_operator_workers_ready', OPERATOR_OF_JOB)})",
                "{{job_namespace}}/{{swarmjob}}"), minimum=None),
        series("Pods by pool", "Workers' pods of all jobs, by pool and phase.", "none",
               (f"sum by (pool, phase) (max by ({OPERATOR_JOB}, pool, phase) "
                f"({now('swarmjob_operator_pool_pods', OPERATOR_OF_JOB)}))", "{{pool}} {{phase}}"), stacked=True),
        series("Preemptions", "Pods that ended by preemption, per hour.", "none",
               (f"sum by ({OPERATOR_JOB}) ({increase(ends, PREEMPTED, '1h')})",
                "{{job_namespace}}/{{swarmjob}}"), stacked=True),
        series("Failures", "Pods that ended by a failure of their own, per hour.", "none",
               (f"sum by ({OPERATOR_JOB}) ({increase(ends, FAILED, '1h')})",
                "{{job_namespace}}/{{swarmjob}}"), stacked=True),
        series("Rollbacks", "Returns of a job to its checkpoint, per hour.", "none",
               (f"sum by ({JOB}) ({increase('swarmjob_trainer_rollbacks_total', window='1h')})",
                "{{namespace}}/{{swarmjob}}"), stacked=True),
        series("Jobs without capacity", "Jobs without room in any pool: condition CapacityAvailable is not True.",
               "none", (f"sum by (job_namespace) (1 - max by ({OPERATOR_JOB}) ({now(CONDITION, WITH_CAPACITY)}))",
                        "{{job_namespace}}")),
        series("Checkpoint failures", "Checkpoints that failed to be written or published, per hour.", "none",
               (f"sum by ({JOB}) ({increase('swarmjob_trainer_checkpoint_failures_total', window='1h')})",
                "{{namespace}}/{{swarmjob}}"), stacked=True),
        series("Bytes between regions", "Activations and gradients, by the regions of sender and receiver.", "Bps",
               (f"sum by (source_region, destination_region) ({rate('swarmjob_worker_region_bytes_total')})",
                "{{source_region}} to {{destination_region}}"), stacked=True),
    )


def build():
    return dashboard(
        "swarmjob-fleet", "SwarmJob / Fleet",
        "All SwarmJobs that the chosen data source knows: speed, capacity and preemption.",
        variables("swarmjob_.+", jobs=True), [summary(), jobs(), capacity()], since="now-6h")
