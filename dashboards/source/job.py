"""One job: how it learns, how its pipeline runs, what it sends, what it lost and how it recovered."""

from panels import (FAILED, OF_JOB, OPERATOR_OF_JOB, PREEMPTED, dashboard, increase, now, quantile, rate, row, series,
                    stat, table, timeline, variables)

JOB = "namespace, swarmjob"
SERVING = OF_JOB + ', state=~"Ready|Leaving|Moving"'


def summary():
    return row(
        "Summary",
        stat("Step", "Version of the weights: steps committed since the job began.", "none",
             f"max({now('swarmjob_trainer_version')})", decimals=0),
        stat("Loss", "Mean training loss of the last step, in nats per token.", "none",
             f"avg({now('swarmjob_trainer_loss')})", decimals=4),
        stat("Throughput", "Tokens of committed steps, per second.", "suffix:tokens/s",
             f"sum({rate('swarmjob_trainer_tokens_total')})", decimals=0),
        stat("Goodput", "Share of the forwards and backwards that workers computed, whose results are in committed "
             "steps, in the time shown. Workers computed the rest again after a loss, or for a validation.",
             "percentunit",
             f"clamp_max(sum({increase('swarmjob_trainer_useful_tasks_total')})"
             f" / sum({increase('swarmjob_worker_service_seconds_count')}), 1)", decimals=1),
        stat("Workers", "Workers that train: in the roster, at the current state.", "none",
             f"sum({now('swarmjob_trainer_workers', SERVING)})", decimals=0),
        stat("Time left", "Expected until the last step, at the speed of the last steps.", "s",
             f"max({now('swarmjob_trainer_remaining_seconds')})"),
        stat("Preemptions", "Pods that ended by preemption in the time shown, by the operator's evidence.", "none",
             f"sum({increase('swarmjob_operator_pod_ends_total', PREEMPTED)})",
             decimals=0),
        stat("Failures", "Pods that ended by a failure of their own in the time shown. These count against the "
             "job's failure policy.", "none",
             f"sum({increase('swarmjob_operator_pod_ends_total', FAILED)})",
             decimals=0, thresholds=[("green", None), ("red", 1)]),
        stat("Recoveries", "Losses of workers after which training continued, in the time shown.", "none",
             f"sum({increase('swarmjob_trainer_recoveries_total')})", decimals=0),
        stat("Rollbacks", "Times that the job lost a whole stage and returned to its checkpoint, in the "
             "time shown.", "none", f"sum({increase('swarmjob_trainer_rollbacks_total')})", decimals=0,
             thresholds=[("green", None), ("orange", 1)]),
        stat("Rebalancing moves", "Workers that went to another stage in the time shown.", "none",
             f"sum({increase('swarmjob_trainer_moves_total')})", decimals=0),
        stat("Checkpoint", "Version of the newest checkpoint that this trainer knows.", "none",
             f"max({now('swarmjob_trainer_checkpoint_version')})", decimals=0),
    )


def learning():
    return row(
        "Learning",
        series("Loss", "Training loss of each step, and the loss of the last validation, in nats per token.", "none",
               (now("swarmjob_trainer_loss"), "training"), (now("swarmjob_trainer_validation_loss"), "validation"),
               minimum=None),
        series("Gradient norm", "Norm of the whole gradient before clipping.", "none",
               (now("swarmjob_trainer_gradient_norm"), "norm")),
        series("Learning rate", "Learning rate of the last step.", "sci",
               (now("swarmjob_trainer_learning_rate"), "learning rate")),
        series("Throughput", "Tokens of committed steps, per second. Steps that a rollback undid count again.",
               "suffix:tokens/s", (f"sum by ({JOB}) ({rate('swarmjob_trainer_tokens_total')})", "{{swarmjob}}")),
        series("Goodput", "Share of the forwards and backwards that workers computed, whose results are in committed "
               "steps.", "percentunit",
               (f"clamp_max(sum by ({JOB}) ({rate('swarmjob_trainer_useful_tasks_total')})"
                f" / sum by ({JOB}) ({rate('swarmjob_worker_service_seconds_count')}), 1)", "{{swarmjob}}")),
        series("Step duration", "Seconds from one committed step to the next.", "s",
               (quantile(0.5, "swarmjob_trainer_step_duration_seconds"), "median"),
               (quantile(0.99, "swarmjob_trainer_step_duration_seconds"), "99th percentile")),
        series("Steps", "Steps committed per second; of these skipped, because a gradient was not finite, and undone "
               "by a rollback.", "ops",
               (f"sum({rate('swarmjob_trainer_steps_total')})", "committed"),
               (f"sum({rate('swarmjob_trainer_skipped_steps_total')})", "skipped"),
               (f"sum({rate('swarmjob_trainer_discarded_steps_total')})", "undone")),
        series("Checkpoints", "Published checkpoints and failed tries, per hour.", "none",
               (f"sum({increase('swarmjob_trainer_checkpoints_total', window='1h')})", "published"),
               (f"sum({increase('swarmjob_trainer_checkpoint_failures_total', window='1h')})", "failed")),
        series("Steps since the checkpoint", "Steps that a rollback would undo.", "none",
               (f"max by ({JOB}) ({now('swarmjob_trainer_version')})"
                f" - max by ({JOB}) ({now('swarmjob_trainer_checkpoint_version')})", "{{swarmjob}}")),
        series("Reads of data", "Reads of shards, tries after one that failed, and sequences that were not there when "
               "they were to be sent, per second.", "ops",
               (f"sum({rate('swarmjob_trainer_data_reads_total')})", "reads"),
               (f"sum({rate('swarmjob_trainer_data_retries_total')})", "tried again"),
               (f"sum({rate('swarmjob_trainer_data_late_sequences_total')})", "late sequences")),
        series("Data in memory", "Bytes of shards that the trainer keeps; data.cacheBytes is the bound.", "bytes",
               (f"max by ({JOB}) ({now('swarmjob_trainer_data_cache_bytes')})", "{{swarmjob}}")),
    )


def pipeline():
    return row(
        "Pipeline",
        timeline("Stage map", "The stage that each worker serves, counted from 0; -1 while it has none. The job's page "
                 "shows more, live: swarmctl ui ${swarmjob} --namespace ${namespace}", "none",
                 (f"max by (worker) ({now('swarmjob_worker_stage')})", "{{worker}}")),
        series("Workers per stage", "Workers of each stage, those that join or leave included.", "none",
               (f"sum by (stage) ({now('swarmjob_trainer_workers')})", "stage {{stage}}"), stacked=True),
        series("Workers by state", "Loading and Joining: not serving yet. Leaving and Moving: finishing what they "
               "have.", "none", (f"sum by (state) ({now('swarmjob_trainer_workers')})", "{{state}}"), stacked=True),
        series("In flight per stage", "Microbatches issued to workers of a stage and not done there.", "none",
               (f"sum by (stage) ({now('swarmjob_trainer_in_flight_microbatches')})", "stage {{stage}}")),
        series("Queue depth", "Forwards and backwards that wait for a worker's compute thread. The bottleneck has "
               "the longest queue.", "none",
               (f"max by (worker, stage) ({now('swarmjob_worker_queue_depth')})", "{{worker}} (stage {{stage}})")),
        series("Queue depth per stage", "Mean of the workers of a stage.", "none",
               (f"avg by (stage) ({now('swarmjob_worker_queue_depth')})", "stage {{stage}}")),
        series("Utilization per stage", "Share of the time that the compute threads of a stage work.", "percentunit",
               (f"avg by (stage) ({rate('swarmjob_worker_busy_seconds_total')})", "stage {{stage}}")),
        series("Service time", "Compute seconds of one microbatch: mean of a stage, forward or backward.", "s",
               (f"sum by (stage, direction) ({rate('swarmjob_worker_service_seconds_sum')})"
                f" / sum by (stage, direction) ({rate('swarmjob_worker_service_seconds_count')})",
                "stage {{stage}} {{direction}}")),
        series("Parked frames", "Forwards that wait for a version of the weights that is not here yet.", "none",
               (f"sum by (stage) ({now('swarmjob_worker_parked_frames')})", "stage {{stage}}")),
        series("Memory by kind", "Bytes that workers hold beside the state that they serve: the largest of a stage.",
               "bytes", (f"max by (stage, kind) ({now('swarmjob_worker_memory_bytes')})", "stage {{stage}} {{kind}}")),
        series("Memory budget used", "Bytes that a worker holds beside its state, of its budget.", "percentunit",
               (f"sum by (worker) ({now('swarmjob_worker_memory_bytes')})"
                f" / sum by (worker) ({now('swarmjob_worker_memory_budget_bytes')})", "{{worker}}")),
        series("Refused frames", "Frames and orders that workers refused as late, doubled or not meant for them, per "
               "second. Every recovery causes some.", "ops",
               (f"sum by (reason) ({rate('swarmjob_worker_refused_total')})", "{{reason}}")),
        table("Workers", "The newest state of each worker.",
              ("Version", "none", now("swarmjob_worker_version")),
              ("Queue", "none", now("swarmjob_worker_queue_depth")),
              ("Utilization", "percentunit", rate("swarmjob_worker_busy_seconds_total")),
              by=("worker", "stage")),
    )


def network():
    return row(
        "Network",
        series("Bytes per boundary", "Activations and gradients sent over each boundary between stages b and b + 1.",
               "Bps", (f"sum by (boundary, direction) ({rate('swarmjob_worker_boundary_bytes_total')})",
                       "boundary {{boundary}} {{direction}}"), stacked=True),
        series("Bytes by region", "Activations, gradients, sums and copied state, by the regions of sender and receiver. Clouds "
               "charge for bytes between regions.", "Bps",
               (f"sum by (source_region, destination_region) ({rate('swarmjob_worker_region_bytes_total')})",
                "{{source_region}} to {{destination_region}}"), stacked=True),
        series("Gradient exchange", "Bytes sent to sum gradients within each stage.", "Bps",
               (f"sum by (stage) ({rate('swarmjob_worker_reduce_bytes_total')})", "stage {{stage}}"), stacked=True),
        series("Relayed", "Bytes that workers, and the trainer, pass on for pairs that do not reach each other.", "Bps",
               (f"sum by (worker) ({rate('swarmjob_worker_relayed_bytes_total')})", "{{worker}}"),
               (f"sum ({rate('swarmjob_trainer_relayed_bytes_total')})", "trainer"), stacked=True),
        series("Unheard neighbours", "Neighbours that a worker has not heard for too long.", "none",
               (f"sum by (worker) ({now('swarmjob_worker_unheard_neighbours')})", "{{worker}}")),
        series("Sent by program", "All bytes that a program sends to peers, headers included.", "Bps",
               (f"sum by (program) ({rate('swarmjob_net_sent_bytes_total')})", "{{program}}")),
        series("Received by program", "All bytes that a program receives from peers, headers included.", "Bps",
               (f"sum by (program) ({rate('swarmjob_net_received_bytes_total')})", "{{program}}")),
        series("Malformed messages", "Messages that were malformed, too large, or had a wrong checksum, per second.",
               "ops", (f"sum by (program) ({rate('swarmjob_net_refused_messages_total')})", "{{program}}")),
    )


def faults():
    ends = "swarmjob_operator_pod_ends_total"
    return row(
        "Preemption and recovery",
        series("Pods that ended", "Pods that ended before the job did, per hour, by what the evidence says.", "none",
               (f"sum by (role, cause) ({increase(ends, OPERATOR_OF_JOB, '1h')})", "{{role}}: {{cause}}")),
        series("Avoided nodes", "Nodes that new pods avoid because pods failed there. The status of the SwarmJob names "
               "them.", "none",
               (f"max by (swarmjob) ({now('swarmjob_operator_avoided_nodes', OPERATOR_OF_JOB)})", "{{swarmjob}}")),
        series("Workers lost, joined and left", "As the trainer sees them, per hour. It notices a silent worker long "
               "before Kubernetes does.", "none",
               (f"sum({increase('swarmjob_trainer_losses_total', window='1h')})", "lost"),
               (f"sum({increase('swarmjob_trainer_leaves_total', window='1h')})", "left in order"),
               (f"sum({increase('swarmjob_trainer_joins_total', window='1h')})", "joined")),
        series("Recovery", "The cost of losses, per hour: contributions computed again, microbatches taken from a "
               "worker without progress, and returns of the job to a checkpoint.", "none",
               (f"sum({increase('swarmjob_trainer_recoveries_total', window='1h')})", "recoveries"),
               (f"sum({increase('swarmjob_trainer_replays_total', window='1h')})", "contributions computed again"),
               (f"sum({increase('swarmjob_trainer_revocations_total', window='1h')})", "microbatches revoked"),
               (f"sum({increase('swarmjob_trainer_rollbacks_total', window='1h')})", "rollbacks")),
        series("Audits", "Microbatches that other workers computed again, per hour; those that found a worker to be wrong, and "
               "those that nobody could decide.", "none",
               (f"sum({increase('swarmjob_trainer_audits_total', window='1h')})", "audits"),
               (f"sum({increase('swarmjob_trainer_audits_wrong_total', window='1h')})", "a worker is wrong"),
               (f"sum({increase('swarmjob_trainer_audits_undecided_total', window='1h')})", "not decided")),
        series("Rebalancing moves", "Workers that went to another stage, per hour.", "none",
               (f"sum({increase('swarmjob_trainer_moves_total', window='1h')})", "begun by the trainer"),
               (f"sum({increase('swarmjob_operator_moves_total', OPERATOR_OF_JOB, '1h')})",
                "ordered by the operator")),
        series("Drains", "Workers told to hand over and leave because their node ends, per hour.", "none",
               (f"sum({increase('swarmjob_operator_drains_total', OPERATOR_OF_JOB, '1h')})", "drains")),
        series("Workers wanted and ready", "The workers that the SwarmJob asks for, and those that train.", "none",
               (f"max by (swarmjob) ({now('swarmjob_operator_workers_desired', OPERATOR_OF_JOB)})",
                "{{swarmjob}} wanted"),
               (f"max by (swarmjob) ({now('swarmjob_operator_workers_ready', OPERATOR_OF_JOB)})",
                "{{swarmjob}} ready")),
        series("Pods by pool", "Workers' pods in each pool, by phase. Pods that stay Pending show that a pool is dry.",
               "none", (f"max by (pool, phase) ({now('swarmjob_operator_pool_pods', OPERATOR_OF_JOB)})",
                        "{{pool}} {{phase}}"), stacked=True, width=12),
        timeline("Conditions", "Conditions of the SwarmJob over time.", "none",
                 (f"max by (condition) ({now('swarmjob_operator_condition', OPERATOR_OF_JOB)})", "{{condition}}"),
                 words=("False", "True"), width=12, height=8),
    )


def money():
    dollars = f"max by (swarmjob) ({now('swarmjob_operator_spent_dollars', OPERATOR_OF_JOB)})"
    per_hour = f"max by (swarmjob) ({now('swarmjob_operator_dollars_per_hour', OPERATOR_OF_JOB)})"
    traffic = f"max by (swarmjob) ({now('swarmjob_operator_traffic_dollars_per_hour', OPERATOR_OF_JOB)})"
    tokens = f"sum by (swarmjob) ({rate('swarmjob_trainer_tokens_total')})"
    return row(
        "Money",
        series("Dollars", "What the workers and their traffic have cost since the job began, by the prices of the manifest, "
               "and what the job may cost. 0 while nothing has a price.", "currencyUSD",
               (dollars, "{{swarmjob}} spent"),
               (f"max by (swarmjob) ({now('swarmjob_operator_budget_dollars', OPERATOR_OF_JOB)}) > 0",
                "{{swarmjob}} budget")),
        series("Dollars an hour", "Of the machines that the workers hold, and of what they exchange between regions.",
               "currencyUSD", (per_hour, "{{swarmjob}} machines"), (traffic, "{{swarmjob}} traffic"), stacked=True),
        series("Dollars a billion tokens", "At the present price an hour and the present throughput.", "currencyUSD",
               (f"1e9 / 3600 * ({per_hour} + {traffic}) / ({tokens} > 0)", "{{swarmjob}}")),
    )


def build():
    return dashboard(
        "swarmjob-job", "SwarmJob / Job",
        "One SwarmJob: how it learns, how its pipeline runs, what it sends, and how it survives preemption.",
        variables("swarmjob_.+", jobs=True),
        [summary(), learning(), pipeline(), network(), faults(), money()])
