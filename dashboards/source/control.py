"""The operator itself: its leader, its pace, and the answers of the API server."""

from panels import OPERATOR, dashboard, increase, now, quantile, rate, row, series, stat, variables


def of(metric, *more):
    return now(metric, ", ".join([OPERATOR, *more]))


def summary():
    return row(
        "Summary",
        stat("Leaders", "Replicas that lead: one, except for moments during a change.", "none",
             f"sum({of('leader_election_master_status')})", decimals=0,
             thresholds=[("red", None), ("green", 1), ("orange", 2)]),
        stat("SwarmJobs", "Objects that the operator looks after.", "none",
             f"sum(max by (state) ({of('swarmjob_operator_jobs')}))", decimals=0),
        stat("Queue", "SwarmJobs that wait for a reconcile.", "none", f"sum({of('workqueue_depth')})", decimals=0),
        stat("Reconcile, 99th percentile", "Seconds of one reconcile of one SwarmJob, in the time shown.", "s",
             quantile(0.99, "controller_runtime_reconcile_time_seconds", selector=OPERATOR, over=increase)),
        stat("Reconcile errors", "Reconciles that failed in the time shown. The operator tries them again.", "none",
             f"sum({increase('controller_runtime_reconcile_errors_total', OPERATOR)})", decimals=0),
        stat("Watches lost", "Lists that the operator read because a watch broke off, in the time shown.", "none",
             f"sum({increase('swarmjob_operator_watch_restarts_total', OPERATOR)})", decimals=0),
    )


def reconciles():
    return row(
        "Reconciles",
        series("Reconciles", "Per second, by result.", "ops",
               (f"sum by (result) ({rate('controller_runtime_reconcile_total', OPERATOR)})", "{{result}}"),
               stacked=True),
        series("Reconcile time", "Seconds of one reconcile.", "s",
               (quantile(0.5, "controller_runtime_reconcile_time_seconds", selector=OPERATOR), "median"),
               (quantile(0.99, "controller_runtime_reconcile_time_seconds", selector=OPERATOR), "99th percentile")),
        series("Errors", "Reconciles that failed, failed for good, or ended in an exception, per second.", "ops",
               (f"sum({rate('controller_runtime_reconcile_errors_total', OPERATOR)})", "failed"),
               (f"sum({rate('controller_runtime_terminal_reconcile_errors_total', OPERATOR)})", "for good"),
               (f"sum({rate('controller_runtime_reconcile_panics_total', OPERATOR)})", "exception")),
        series("Active workers", "Reconciles that run now, and their limit.", "none",
               (f"max by (controller) ({of('controller_runtime_active_workers')})", "active"),
               (f"max by (controller) ({of('controller_runtime_max_concurrent_reconciles')})", "limit")),
        series("Leader", "1 in the leading replica.", "none",
               (f"max by (instance) ({of('leader_election_master_status')})", "{{instance}}")),
        series("Silence of trainers", "Seconds since a trainer last answered: the ten longest.", "s",
               (f"topk(10, {of('swarmjob_operator_trainer_silence_seconds')})", "{{job_namespace}}/{{swarmjob}}")),
    )


def queue():
    return row(
        "Queue",
        series("Depth", "Waiting keys.", "none", (f"max by (name) ({of('workqueue_depth')})", "{{name}}")),
        series("Adds and retries", "Keys added, and added again after a failure, per second.", "ops",
               (f"sum by (name) ({rate('workqueue_adds_total', OPERATOR)})", "{{name}} adds"),
               (f"sum by (name) ({rate('workqueue_retries_total', OPERATOR)})", "{{name}} retries")),
        series("Waiting", "Seconds that a key waits.", "s",
               (quantile(0.5, "workqueue_queue_duration_seconds", selector=OPERATOR), "median"),
               (quantile(0.99, "workqueue_queue_duration_seconds", selector=OPERATOR), "99th percentile")),
        series("Work", "Seconds that the operator works on a key.", "s",
               (quantile(0.5, "workqueue_work_duration_seconds", selector=OPERATOR), "median"),
               (quantile(0.99, "workqueue_work_duration_seconds", selector=OPERATOR), "99th percentile")),
        series("Unfinished work", "Seconds that the keys in work have taken so far, and the longest of them.",
               "s", (f"max by (name) ({of('workqueue_unfinished_work_seconds')})", "{{name}} all"),
               (f"max by (name) ({of('workqueue_longest_running_processor_seconds')})", "{{name}} longest")),
    )


def api():
    return row(
        "API server",
        series("Requests", "Requests to the API server per second, by HTTP code.", "reqps",
               (f"sum by (code) ({rate('rest_client_requests_total', OPERATOR)})", "{{code}}"), stacked=True),
        series("Request time", "Seconds to the answer, 99th percentile.", "s",
               (quantile(0.99, "rest_client_request_duration_seconds", by=["verb"], selector=OPERATOR), "{{verb}}")),
        series("Own limit", "Seconds that requests wait for the operator's own limit, 99th percentile.", "s",
               (quantile(0.99, "rest_client_rate_limiter_duration_seconds", selector=OPERATOR), "wait")),
        series("Watches lost", "Lists that the operator read because a watch broke off, per hour.", "none",
               (f"sum by (resource) ({increase('swarmjob_operator_watch_restarts_total', OPERATOR, '1h')})",
                "{{resource}}")),
        series("Cache silence", "Seconds since the API server last confirmed what the operator has in memory. A bookmark "
               "comes every minute.", "s",
               (f"max by (resource) ({of('swarmjob_operator_cache_silence_seconds')})", "{{resource}}")),
        series("Status writes", "Writes of the status of SwarmJobs, per second.", "ops",
               (f"sum({rate('swarmjob_operator_status_writes_total', OPERATOR)})", "writes")),
        series("Pods created", "Pods that the operator created, per hour.", "none",
               (f"sum by (role) ({increase('swarmjob_operator_pods_created_total', OPERATOR, '1h')})", "{{role}}")),
    )


def clusters():
    return row(
        "Clusters",
        series("Clusters connected", "1 while the operator reaches another cluster through its satellite, 0 while it does "
               "not and jobs have pools there.", "none",
               (f"max by (cluster) ({of('swarmjob_operator_cluster_connected')})", "{{cluster}}")),
        series("Silence of clusters", "Seconds since the operator last heard the API server of another cluster. A "
               "bookmark comes every minute.", "s",
               (f"max by (cluster) ({of('swarmjob_operator_cluster_silence_seconds')})", "{{cluster}}")),
        series("Satellite connected", "Of an operator that is a satellite: 1 while home has its connection.", "none",
               (f"max by (instance) ({of('swarmjob_satellite_connected')})", "{{instance}}")),
        series("Pods of home", "Pods that a satellite keeps for home's jobs.", "none",
               (f"max by (instance) ({of('swarmjob_satellite_pods')})", "{{instance}}")),
        series("Refused to home", "Requests of home that a satellite did not carry out, per second.", "ops",
               (f"sum by (instance) ({rate('swarmjob_satellite_refused_requests_total', OPERATOR)})", "{{instance}}")),
        series("Satellite's certificate", "Seconds until it ends. It is renewed after half of its week.", "s",
               (f"max by (instance) ({of('swarmjob_satellite_certificate_end_timestamp_seconds')}) - time()",
                "{{instance}}")),
    )


def build():
    return dashboard(
        "swarmjob-operator", "SwarmJob / Operator",
        "The operator: leadership, reconciles, queue, requests to the API server, and other clusters.",
        variables("swarmjob_operator_.+|swarmjob_satellite_.+|controller_runtime_.+", jobs=False),
        [summary(), reconciles(), queue(), api(), clusters()])
