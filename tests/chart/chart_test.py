#!/usr/bin/env python3
"""Tests the chart: what it renders from given values, and which values it refuses.

Usage: tests/chart/chart_test.py [--operator PROGRAM]; The test takes helm from PATH or from .deps/kube. Without
helm it exits with 77, which ctest reports as skipped.
"""

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "helm/swarmjob"
DEPS = pathlib.Path(os.environ.get("SWARM_DEPS") or ROOT / ".deps")
HELM = next((str(path) for path in (DEPS / "kube/helm", DEPS / "kube/bin/helm") if path.exists()), shutil.which("helm"))
KUBERNETES = ["--kube-version", "1.36.0"]  # otherwise helm assumes its own default version, which may be old
MONITORING = ["--api-versions", "monitoring.coreos.com/v1"]


def helm(command, *arguments):
    version = KUBERNETES if command in ("template", "lint") else []
    run = subprocess.run([HELM, command, *version, *map(str, arguments)], capture_output=True, text=True, check=False)
    return run.returncode, run.stdout, run.stderr


def flags(values):
    """Turns {"a.b": 1} into arguments of helm."""
    return [word for key, value in values.items() for word in ("--set-json", f"{key}={json.dumps(value)}")]


def render(values=None, more=(), release="swarm"):
    """The objects by (kind, name); raises helm's message if it fails."""
    code, out, error = helm("template", release, CHART, "--namespace", f"{release}-system", *flags(values or {}), *more)
    if code != 0:
        raise AssertionError(error)
    objects = {}
    for document in yaml.safe_load_all(out):
        if document:
            key = document["kind"], document["metadata"]["name"]
            if key in objects:  # then it is another namespace's
                key = document["kind"], f"{document['metadata'].get('namespace')}/{document['metadata']['name']}"
                if key in objects:
                    raise AssertionError(f"{key} is there twice")
            objects[key] = document
    return objects


def of_kind(objects, kind):
    return [document for (each, _), document in objects.items() if each == kind]


def only(objects, kind):
    (document,) = of_kind(objects, kind)
    return document


class Lint(unittest.TestCase):
    def test_helm_finds_nothing_wrong_with_the_chart_nor_with_the_examples(self):
        examples = sorted((CHART / "examples").glob("*.yaml"))
        self.assertGreaterEqual(len(examples), 3)
        for values in ([], *(["--values", example] for example in examples)):
            with self.subTest(str(values)):
                code, out, error = helm("lint", "--strict", CHART, *values)
                self.assertEqual(code, 0, out + error)
                self.assertTrue(render(more=[*values, *MONITORING]))

    def test_every_value_is_in_the_schema_and_has_a_comment(self):
        schema = json.loads((CHART / "values.schema.json").read_text())

        def compare(values, properties, path):
            self.assertEqual(set(values), set(properties) - {"global", "claims", "podAffinity", "podAntiAffinity",
                                                             "nodeAffinity"}, path)
            for key, value in values.items():
                inner = properties[key].get("properties")
                if inner and isinstance(value, dict) and value:
                    compare(value, inner, f"{path}.{key}")

        compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema["properties"], "values")

    def test_values_that_mean_nothing_are_refused(self):
        for key, value in (("replicas", 3), ("replicaCount", "two"), ("replicaCount", -1), ("image.repo", "x"),
                           ("operator.logLevel", "loud"), ("avoidSpotNodes", True), ("metrics.podMonitor.interval", 15),
                           ("watchNamespaces", ["Not_A_Name"]), ("watchNamespaces", ["a", "a"]),
                           ("image.digest", "latest"), ("crds.enable", False),
                           ("kueue.multiKueue.serviceAccount.name", ""), ("kueue.multiKueue.rbac", "yes"),
                           ("kueue.multiKueue.serviceAccount.namespace", "Kueue"),
                           ("operator.extraArgs", ["kube-qps=1"])):
            with self.subTest(key, value=value):
                code, _, error = helm("template", "swarm", CHART, *flags({key: value}))
                self.assertNotEqual(code, 0)
                self.assertRegex(error, "schema|additional|Additional")


class Crd(unittest.TestCase):
    SOURCE = ROOT / "crds/swarmjob.yaml"

    def test_is_the_one_of_crds_and_stays_when_the_release_goes(self):
        crd = only(render(), "CustomResourceDefinition")
        self.assertEqual(crd["metadata"].pop("annotations"), {"helm.sh/resource-policy": "keep"})
        source = yaml.safe_load(self.SOURCE.read_text())
        source["metadata"].pop("annotations", None)
        self.assertEqual(crd, source)

    def test_can_go_with_the_release_or_come_from_elsewhere(self):
        crd = only(render({"crds.keep": False}), "CustomResourceDefinition")
        self.assertEqual(crd, yaml.safe_load(self.SOURCE.read_text()))
        self.assertFalse(of_kind(render({"crds.enabled": False}), "CustomResourceDefinition"))

    def test_is_packed_with_the_dashboards_and_without_their_sources(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, error = helm("package", CHART, "--destination", folder)
            self.assertEqual(code, 0, out + error)
            (archive,) = pathlib.Path(folder).iterdir()
            names = tarfile.open(fileobj=io.BytesIO(archive.read_bytes())).getnames()
        for name in ("crds/swarmjob.yaml", "dashboards/job.json", "dashboards/alerts.yaml"):
            self.assertIn(f"swarmjob/files/{name}", names)
        self.assertFalse([name for name in names if name.endswith(".py") or name.endswith("_test.yaml")])


class Operator(unittest.TestCase):
    def pod(self, values=None):
        deployment = only(render(values), "Deployment")
        return deployment["spec"]["template"]["spec"]

    def test_runs_two_replicas_of_which_one_leads(self):
        objects = render()
        self.assertEqual(only(objects, "Deployment")["spec"]["replicas"], 2)
        self.assertIn("--leader-elect", self.pod()["containers"][0]["args"])
        self.assertEqual(only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"], 1)
        self.assertFalse(of_kind(render({"replicaCount": 1}), "PodDisruptionBudget"))

    def test_two_replicas_that_both_decide_are_refused(self):
        code, _, error = helm("template", "swarm", CHART, *flags({"leaderElection.enabled": False}))
        self.assertNotEqual(code, 0)
        self.assertIn("replicaCount must be 1", error)
        alone = only(render({"leaderElection.enabled": False, "replicaCount": 1}), "Deployment")["spec"]
        self.assertNotIn("--leader-elect", alone["template"]["spec"]["containers"][0]["args"])
        self.assertEqual(alone["strategy"], {"type": "Recreate"})
        self.assertNotIn("strategy", only(render(), "Deployment")["spec"])

    def test_fits_a_namespace_under_restricted_pod_security(self):
        pod = self.pod()
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        for container in pod["containers"]:
            context = container["securityContext"]
            self.assertFalse(context["allowPrivilegeEscalation"])
            self.assertTrue(context["readOnlyRootFilesystem"])
            self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
        self.assertFalse({"hostNetwork", "hostPID", "hostIPC"} & set(pod))
        self.assertFalse([volume for volume in pod["volumes"] if "hostPath" in volume])

    def test_is_probed_and_bounded(self):
        (container,) = self.pod()["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual(ports, {"metrics": 8080, "health": 8081})
        self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/healthz", "port": "health"})
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/readyz", "port": "health"})
        self.assertIn("--health-listen=0.0.0.0:8081", container["args"])
        self.assertIn("memory", container["resources"]["limits"])

    def test_keeps_off_spot_nodes_as_far_as_it_is_told(self):
        def keys(terms):
            return {each["key"] for each in terms["matchExpressions"]}

        affinity = self.pod()["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        self.assertIn("karpenter.sh/capacity-type", keys(term))
        self.assertTrue(all(each["operator"] == "NotIn" for each in term["matchExpressions"]))
        affinity = self.pod({"avoidSpotNodes": "Preferred"})["affinity"]["nodeAffinity"]
        (wish,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        self.assertIn("cloud.google.com/gke-spot", keys(wish["preference"]))
        self.assertNotIn("affinity", self.pod({"avoidSpotNodes": "Off"}))

    def test_affinity_of_ones_own_is_added_to_that(self):
        pods = {"preferredDuringSchedulingIgnoredDuringExecution": []}
        affinity = self.pod({"affinity": {"podAntiAffinity": pods}})["affinity"]
        self.assertEqual(affinity["podAntiAffinity"], pods)
        self.assertIn("nodeAffinity", affinity)

    def test_spreads_over_zones_and_nodes(self):
        spread = self.pod()["topologySpreadConstraints"]
        self.assertEqual([each["topologyKey"] for each in spread],
                         ["topology.kubernetes.io/zone", "kubernetes.io/hostname"])
        selector = only(render(), "Deployment")["spec"]["selector"]
        self.assertTrue(all(each["labelSelector"] == selector for each in spread))

    def test_runs_the_images_of_the_release_or_those_it_is_told(self):
        version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
        (container,) = self.pod()["containers"]
        self.assertEqual(container["image"], f"swarmjob/swarm-operator:{version}")
        self.assertIn(f"--worker-image=swarmjob/swarm-worker:{version}", container["args"])
        self.assertIn("--worker-platform=linux/amd64", container["args"])
        digest = "sha256:" + "0" * 64
        (container,) = self.pod({"image.digest": digest, "workerImage.tag": "mine",
                                 "workerImage.platform": ""})["containers"]
        self.assertFalse([each for each in container["args"] if "platform" in each])
        self.assertEqual(container["image"], f"swarmjob/swarm-operator@{digest}")
        self.assertIn("--worker-image=swarmjob/swarm-worker:mine", container["args"])

    def test_the_program_knows_every_flag_that_it_is_given(self):
        if PROGRAM is None:
            self.skipTest("no --operator PROGRAM")
        known = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        for values in ({"watchNamespaces": ["training"]}, {"satellites.enabled": True},
                       {"satellite.enabled": True, "satellite.token": "sj1_a"}, {"gateways.home": "gw.example:7444"},
                       {"satellite.enabled": True, "satellite.proof.enabled": True, "satellite.proof.home": "a:1"},
                       {"proof.enabled": True}):
            for argument in self.pod(values)["containers"][0]["args"]:
                self.assertRegex(known, re.escape(argument.split("=")[0]) + r"\b")


class Satellites(unittest.TestCase):
    HOME = {"satellites.enabled": True}
    SATELLITE = {"satellite.enabled": True, "satellite.token": "sj1_a"}

    def test_home_expects_them_at_a_service_of_its_own(self):
        objects = render({**self.HOME, "satellites.service.port": 443})
        service = objects["Service", "swarm-swarm-operator-satellites"]["spec"]
        self.assertEqual((service["type"], service["ports"][0]["port"]), ("LoadBalancer", 443))
        container = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]
        self.assertIn("--satellites-listen=[::]:7443", container["args"])
        ports = {each["name"]: each["containerPort"] for each in container["ports"]}
        self.assertEqual(ports[service["ports"][0]["targetPort"]], 7443)
        ingress = [port["port"] for rule in only(objects, "NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
        self.assertIn("satellites", ingress)
        self.assertNotIn(("Service", "swarm-swarm-operator-satellites"), render())

    def test_a_satellite_has_its_token_and_no_jobs(self):
        objects = render(self.SATELLITE)
        pod = only(objects, "Deployment")["spec"]["template"]["spec"]
        arguments = pod["containers"][0]["args"]
        self.assertIn("--satellite", arguments)
        self.assertFalse([each for each in arguments if "image" in each])
        (secret,) = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
        self.assertEqual(objects["Secret", secret]["stringData"], {"token": "sj1_a"})
        later = render({**self.SATELLITE, "satellite.token": ""})
        self.assertFalse(of_kind(later, "Secret"))

    def test_a_satellite_has_no_rights_on_jobs_and_removes_what_jobs_have_left(self):
        rules = [rule for document in of_kind(render({**self.SATELLITE, "rbac.aggregate": False}), "ClusterRole")
                 for rule in document["rules"]]
        self.assertNotIn("swarmjobs", [resource for rule in rules for resource in rule["resources"]])
        (maps,) = [rule for rule in rules if "configmaps" in rule["resources"]]
        self.assertEqual(set(maps["verbs"]), {"get", "list", "create", "patch", "delete"})
        (budgets,) = [rule for rule in rules if "poddisruptionbudgets" in rule["resources"]]
        self.assertEqual(set(budgets["verbs"]), {"get", "create", "patch"})

    def test_where_pods_prove_themselves_the_satellite_may_have_tokens_judged_and_nothing_else_is_new(self):
        proving = {**self.SATELLITE, "satellite.proof.enabled": True, "satellite.proof.home": "203.0.113.9:7443"}
        for scope in ({}, {"watchNamespaces": ["training"]}):
            before, after = render({**self.SATELLITE, **scope}), render({**proving, **scope})
            new = set(after) - set(before)
            self.assertEqual({kind for kind, _ in new}, {"ClusterRole", "ClusterRoleBinding"})
            (role,) = [after[each] for each in new if each[0] == "ClusterRole"]
            self.assertEqual(role["rules"], [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"],
                                              "verbs": ["create"]}])
            arguments = [only(each, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
                         for each in (before, after)]
            self.assertEqual(set(arguments[1]) - set(arguments[0]),
                             {"--pods-prove", "--proof-home=203.0.113.9:7443"})

    def test_workers_at_home_reach_the_leader_to_prove_themselves_and_it_may_have_tokens_judged(self):
        for scope in ({}, {"watchNamespaces": ["training"]}):
            before, after = render(scope), render({"proof.enabled": True, **scope})
            new = set(after) - set(before)
            self.assertEqual({each for each in new if "Binding" not in each[0]},
                             {("ClusterRole", "swarm-swarm-operator-proof"), ("Role", "swarm-swarm-operator-satellites"),
                              ("Service", "swarm-swarm-operator-proof")})
            self.assertEqual(after["ClusterRole", "swarm-swarm-operator-proof"]["rules"],
                             [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}])
            service = after["Service", "swarm-swarm-operator-proof"]["spec"]
            self.assertEqual(service["clusterIP"], "None", "a standby does not listen: callers try all replicas")
            container = only(after, "Deployment")["spec"]["template"]["spec"]["containers"][0]
            self.assertEqual(set(container["args"]) - set(only(before, "Deployment")["spec"]["template"]["spec"]
                                                          ["containers"][0]["args"]),
                             {"--satellites-listen=[::]:7443", "--pods-prove",
                              "--proof-home=swarm-swarm-operator-proof.swarm-system.svc:7443"})
            (port,) = [each["containerPort"] for each in container["ports"] if each["name"] == "satellites"]
            self.assertEqual((service["ports"][0]["port"], port), (7443, 7443), "a headless Service maps no ports")
            ingress = [port["port"] for rule in only(after, "NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
            self.assertIn("satellites", ingress)

    def test_each_keeps_its_own_secret(self):
        published = [None, ["swarm-home"]]
        for values, name, more in ((self.HOME, "swarm-satellites", published), (self.SATELLITE, "swarm-satellite", [])):
            (role,) = [each for each in of_kind(render(values), "Role")
                       if each["metadata"]["name"].endswith("-satellites")]
            self.assertEqual(role["metadata"]["namespace"], "swarm-system")
            self.assertEqual([rule.get("resourceNames") for rule in role["rules"]], [None, [name], *more])

    def test_two_homes_have_a_satellite_each_in_one_cluster(self):
        releases = [render({**self.SATELLITE, "watchNamespaces": [team], "crds.enabled": False}, release=team)
                    for team in ("blue", "red")]
        shared = [{key for key, each in release.items() if each["metadata"].get("namespace") is None}
                  for release in releases]
        self.assertTrue(shared[0] and shared[1])
        self.assertFalse(shared[0] & shared[1], "objects of the cluster that both would own")
        for release, team in zip(releases, ("blue", "red")):
            self.assertLessEqual({each["metadata"].get("namespace") for each in release.values()},
                                 {None, team, f"{team}-system"})

    def test_everyone_may_read_whom_machines_shall_trust_and_nothing_else(self):
        (role,) = [each for each in of_kind(render(self.HOME), "Role") if each["metadata"]["name"].endswith("-home")]
        self.assertEqual(role["rules"], [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["swarm-home"],
                                          "verbs": ["get"]}])

    def test_what_does_not_go_together_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "a cluster has jobs, or has pods of another one"):
            render({**self.HOME, "satellite.enabled": True})
        with self.assertRaisesRegex(AssertionError, "satellite.proof.enabled needs satellite.enabled"):
            render({"satellite.proof.enabled": True})
        with self.assertRaisesRegex(AssertionError, "of a satellite it is satellite.proof.enabled"):
            render({**self.SATELLITE, "proof.enabled": True})
        with self.assertRaisesRegex(AssertionError, "needs rbac.nodes"):
            render({**self.SATELLITE, "watchNamespaces": ["training"], "rbac.nodes": False})
        with self.assertRaisesRegex(AssertionError, "is that of their own cluster"):
            render({**self.SATELLITE, "page.enabled": True})


class Gateways(unittest.TestCase):
    HOME = {"gateway.enabled": True, "gateways": {"home": "203.0.113.9:7444", "west": "gw.west.example:443"}}

    def test_a_gateway_has_a_service_and_the_configuration_that_is_tested(self):
        objects = render({**self.HOME, "gateway.service.port": 443})
        service = objects["Service", "swarm-swarm-operator-gateway"]["spec"]
        self.assertEqual((service["type"], service["ports"][0]["port"]), ("LoadBalancer", 443))
        pod = objects["Deployment", "swarm-swarm-operator-gateway"]["spec"]["template"]
        container = pod["spec"]["containers"][0]
        self.assertEqual(service["selector"].items() & pod["metadata"]["labels"].items(), service["selector"].items())
        operator = objects["Deployment", "swarm-swarm-operator"]["spec"]
        self.assertFalse(operator["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items())
        self.assertEqual(objects["ConfigMap", "swarm-swarm-operator-gateway"]["data"]["gateway.cfg"].strip(),
                         (CHART / "files/gateway.cfg").read_text(encoding="utf-8").strip())
        self.assertFalse(pod["spec"]["automountServiceAccountToken"])
        self.assertEqual(container["image"], "haproxy:2.8")
        environment = {each["name"]: each["value"] for each in container["env"]}
        self.assertEqual(environment["SWARM_GATEWAY_NAMESPACES"], "[a-z0-9-]+")
        self.assertFalse([key for key in render() if "gateway" in key[1]])

    def test_it_leads_to_the_namespaces_of_jobs_only(self):
        objects = render({**self.HOME, "watchNamespaces": ["one", "two"]})
        container = objects["Deployment", "swarm-swarm-operator-gateway"]["spec"]["template"]["spec"]["containers"][0]
        self.assertIn({"name": "SWARM_GATEWAY_NAMESPACES", "value": "(?:one|two)"}, container["env"])

    def test_home_tells_pods_of_all_gateways(self):
        objects = render({"gateways": self.HOME["gateways"]})
        arguments = objects["Deployment", "swarm-swarm-operator"]["spec"]["template"]["spec"]["containers"][0]["args"]
        self.assertIn("--gateway=home=203.0.113.9:7444", arguments)
        self.assertIn("--gateway=west=gw.west.example:443", arguments)

    def test_its_load_balancer_tells_the_operator_where_it_is(self):
        flag = "--gateway-service=swarm-swarm-operator-gateway"
        right = {"apiGroups": [""], "resources": ["services"], "resourceNames": ["swarm-swarm-operator-gateway"],
                 "verbs": ["get"]}
        connected = [{"satellites.enabled": True}, {"satellite.enabled": True, "satellite.token": "sj1_a"}]
        for values in connected:
            told = render({"gateway.enabled": True, **values})
            operator = told["Deployment", "swarm-swarm-operator"]["spec"]["template"]["spec"]["containers"][0]
            self.assertIn(flag, operator["args"])
            self.assertIn(right, told["Role", "swarm-swarm-operator-satellites"]["rules"])
        for values in [connected[0], {"gateway.enabled": True},
                       {**connected[0], "gateway.enabled": True, "gateway.service.type": "NodePort"}]:
            silent = render(values)
            operator = silent["Deployment", "swarm-swarm-operator"]["spec"]["template"]["spec"]["containers"][0]
            self.assertNotIn(flag, operator["args"])
            self.assertNotIn(right, silent.get(("Role", "swarm-swarm-operator-satellites"), {}).get("rules", []))

    def test_what_does_not_go_together_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "tells pods which gateways there are"):
            render({"satellite.enabled": True, "gateways.home": "a:1"})
        with self.assertRaisesRegex(AssertionError, "gateways"):
            render({"gateways.home": "without-port"})
        self.assertTrue(render({"satellite.enabled": True, "gateway.enabled": True}))


class Rights(unittest.TestCase):
    def rules(self, objects, kind):
        return [rule for document in of_kind(objects, kind) for rule in document["rules"]]

    def test_are_no_more_than_are_needed(self):
        rules = self.rules(render(), "ClusterRole") + self.rules(render(), "Role")
        for rule in rules:
            for list_ in (rule["apiGroups"], rule["resources"], rule["verbs"]):
                self.assertNotIn("*", list_)
            self.assertFalse({"escalate", "bind", "impersonate"} & set(rule["verbs"]))
            if "secrets" in rule["resources"]:
                self.assertFalse({"list", "watch"} & set(rule["verbs"]))
            if "nodes" in rule["resources"]:
                self.assertEqual(rule["verbs"], ["get", "list", "watch"])
            self.assertFalse({"pods/exec", "pods/log", "serviceaccounts"} & set(rule["resources"]))

    def test_of_the_namespaced_mode_end_at_the_namespaces_but_for_reading_nodes(self):
        values = {"watchNamespaces": ["training", "research"], "rbac.aggregate": False}
        objects = render(values)
        self.assertEqual([rule["resources"] for rule in self.rules(objects, "ClusterRole")], [["nodes"]])
        for kind in ("Role", "RoleBinding"):
            namespaces = sorted(each["metadata"]["namespace"] for each in of_kind(objects, kind))
            self.assertEqual(namespaces, ["research", "swarm-system", "training"])
        rules = {each["metadata"]["namespace"]: each["rules"] for each in of_kind(objects, "Role")}
        self.assertEqual(rules["training"], rules["research"])
        alone = render({**values, "rbac.nodes": False})
        self.assertFalse(of_kind(alone, "ClusterRole") + of_kind(alone, "ClusterRoleBinding"))
        arguments = only(alone, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
        self.assertEqual([each for each in arguments if "--namespace" in each],
                         ["--namespace=training", "--namespace=research"])

    def test_of_kueue_are_there_only_where_they_are_asked_for(self):
        def kueue(objects, kind):
            return [rule for rule in self.rules(objects, kind) if "kueue.x-k8s.io" in rule["apiGroups"]]
        self.assertFalse(kueue(render(), "ClusterRole"))
        values = {"kueue.enabled": True, "watchNamespaces": ["training"], "rbac.aggregate": False}
        objects = render(values)
        self.assertEqual(sorted(sum((rule["resources"] for rule in kueue(objects, "Role")), [])),
                         ["workloads", "workloads/status"])
        (cluster,) = kueue(objects, "ClusterRole")
        self.assertEqual(cluster["verbs"], ["get"])
        self.assertEqual(cluster["resources"], ["resourceflavors", "workloadpriorityclasses"])
        self.assertEqual(len(of_kind(objects, "ClusterRoleBinding")), 2)

    def of_multikueue(self, values):
        """The roles and bindings for Kueue's account, by (kind, namespace)."""
        return {(kind, each["metadata"].get("namespace")): each for (kind, _), each in render(values).items()
                if each["metadata"]["name"].endswith("-multikueue")}

    def test_of_kueue_itself_are_those_that_multikueue_needs_and_bound_to_its_account_alone(self):
        objects = self.of_multikueue({"kueue.enabled": True})
        self.assertEqual(set(objects), {("ClusterRole", None), ("ClusterRoleBinding", None)})
        crd = yaml.safe_load((ROOT / "crds/swarmjob.yaml").read_text())["spec"]
        kind = crd["names"]["plural"]
        self.assertEqual(objects["ClusterRole", None]["rules"],
                         [{"apiGroups": [crd["group"]], "resources": [kind, f"{kind}/status"],
                           "verbs": ["get", "list", "watch", "patch", "update"]}])
        binding = objects["ClusterRoleBinding", None]
        self.assertEqual(binding["roleRef"]["kind"], "ClusterRole")
        self.assertEqual(binding["roleRef"]["name"], objects["ClusterRole", None]["metadata"]["name"])
        self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", "name": "kueue-controller-manager",
                                                "namespace": "kueue-system"}])
        (account,) = self.of_multikueue({"kueue.enabled": True, "kueue.multiKueue.serviceAccount.name": "ours",
                                         "kueue.multiKueue.serviceAccount.namespace": "queues"}
                                        )["ClusterRoleBinding", None]["subjects"]
        self.assertEqual((account["name"], account["namespace"]), ("ours", "queues"))

    def test_of_kueue_itself_end_at_the_namespaces_that_are_watched(self):
        objects = self.of_multikueue({"kueue.enabled": True, "watchNamespaces": ["training", "research"]})
        self.assertEqual(set(objects), {(kind, namespace) for kind in ("Role", "RoleBinding")
                                        for namespace in ("training", "research")})
        whole = self.of_multikueue({"kueue.enabled": True})["ClusterRole", None]["rules"]
        for namespace in ("training", "research"):
            binding = objects["RoleBinding", namespace]
            self.assertEqual(objects["Role", namespace]["rules"], whole)
            self.assertEqual((binding["roleRef"]["kind"], binding["roleRef"]["name"]),
                             ("Role", objects["Role", namespace]["metadata"]["name"]))
            self.assertEqual(binding["subjects"][0]["namespace"], "kueue-system")

    def test_of_kueue_itself_are_left_out_where_nobody_asks_for_them(self):
        satellite = {"satellite.enabled": True, "satellite.token": "sj1_a"}
        for values in ({}, {"kueue.enabled": True, "kueue.multiKueue.rbac": False},
                       {"kueue.enabled": True, "rbac.create": False}, {"kueue.enabled": True, **satellite}):
            with self.subTest(values):
                self.assertEqual(self.of_multikueue(values), {})
        with_it, without = (render({"kueue.enabled": True, "kueue.multiKueue.rbac": rbac}) for rbac in (True, False))
        self.assertEqual({key: each for key, each in with_it.items() if not key[1].endswith("-multikueue")}, without)

    def test_of_the_account_in_another_cluster_are_told_as_its_kubeconfig_needs_them(self):
        text = (ROOT / "docs/swarmjob.md").read_text(encoding="utf-8").split("### MultiKueue\n")[1].split("\n## ")[0]
        (rules,) = [rules for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
                    if (rules := yaml.safe_load(block)) and isinstance(rules, list)]
        rights = {(group, resource): set(rule["verbs"]) for rule in rules for group in rule["apiGroups"]
                  for resource in rule["resources"]}
        self.assertEqual(rights, {("swarmjob.dev", "swarmjobs"): {"create", "delete", "get", "list", "watch"},
                                  ("swarmjob.dev", "swarmjobs/status"): {"get"}})

    def test_are_bound_to_the_account_that_the_operator_has(self):
        for values in ({}, {"serviceAccount.create": False, "serviceAccount.name": "ours"}):
            objects = render(values)
            account = only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
            self.assertEqual(len(of_kind(objects, "ServiceAccount")), 0 if values else 1)
            bindings = of_kind(objects, "ClusterRoleBinding") + of_kind(objects, "RoleBinding")
            self.assertEqual(len(bindings), 3)
            for binding in bindings:
                self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", "name": account,
                                                        "namespace": "swarm-system"}])
                self.assertIn((binding["roleRef"]["kind"], binding["roleRef"]["name"]), objects)

    def test_of_users_are_part_of_view_and_edit(self):
        roles = {role["metadata"]["name"]: role for role in of_kind(render(), "ClusterRole")}
        viewer = roles["swarm-swarm-operator-viewer"]
        editor = roles["swarm-swarm-operator-editor"]
        aggregate = "rbac.authorization.k8s.io/aggregate-to-"
        self.assertEqual(viewer["metadata"]["labels"][aggregate + "view"], "true")
        self.assertNotIn(aggregate + "view", editor["metadata"]["labels"])
        self.assertEqual(editor["metadata"]["labels"][aggregate + "edit"], "true")
        self.assertEqual({verb for rule in viewer["rules"] for verb in rule["verbs"]}, {"get", "list", "watch"})
        self.assertNotIn("swarmjobs/status", [r for rule in editor["rules"] for r in rule["resources"]])


class Network(unittest.TestCase):
    def test_the_operator_reaches_dns_the_api_server_and_trainers(self):
        policy = only(render(), "NetworkPolicy")["spec"]
        ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
        self.assertEqual(ports, [53, 53, 443, 6443, 7000])
        (trainers,) = policy["egress"][-1]["to"]
        self.assertEqual(trainers["namespaceSelector"], {})
        self.assertEqual(trainers["podSelector"]["matchLabels"]["app.kubernetes.io/component"], "trainer")
        self.assertFalse(of_kind(render({"networkPolicy.enabled": False}), "NetworkPolicy"))

    def test_metrics_may_be_for_some_alone(self):
        peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
        policy = only(render({"networkPolicy.metricsFrom": peers,
                               "watchNamespaces": ["training", "research"]}), "NetworkPolicy")["spec"]
        self.assertEqual([rule.get("from") for rule in policy["ingress"]], [None, peers])
        (trainers,) = policy["egress"][-1]["to"]
        self.assertEqual(trainers["namespaceSelector"]["matchExpressions"],
                         [{"key": "kubernetes.io/metadata.name", "operator": "In",
                           "values": ["training", "research"]}])


class Monitoring(unittest.TestCase):
    def test_without_the_prometheus_operator_says_what_is_missing(self):
        for kind in ("serviceMonitor", "podMonitor", "prometheusRule"):
            with self.subTest(kind):
                code, _, error = helm("template", "swarm", CHART, *flags({f"metrics.{kind}.enabled": True}))
                self.assertNotEqual(code, 0)
                self.assertIn("install the Prometheus Operator first", error)

    def test_scrapes_the_operator_and_the_pods_of_jobs(self):
        objects = render({"metrics.serviceMonitor.enabled": True, "metrics.podMonitor.enabled": True,
                          "metrics.podMonitor.labels": {"release": "prometheus"}}, MONITORING)
        service = only(objects, "Service")
        for label, value in only(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items():
            self.assertEqual(service["metadata"]["labels"][label], value)
        monitor = only(objects, "PodMonitor")
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        self.assertEqual([each["targetLabel"] for each in endpoint["relabelings"]], ["swarmjob", "pool", "zone"])
        self.assertEqual(monitor["spec"]["namespaceSelector"], {"any": True})

    def test_behind_a_proxy_the_operator_answers_nobody_but_it(self):
        proxy = {"metrics.authProxy.enabled": True, "metrics.authProxy.image": "proxy:1",
                 "metrics.serviceMonitor.enabled": True}
        objects = render(proxy, MONITORING)
        operator, beside = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        self.assertIn("--metrics-listen=127.0.0.1:8080", operator["args"])
        self.assertEqual([port["name"] for port in operator["ports"]], ["health"])
        self.assertEqual([(port["name"], port["containerPort"]) for port in beside["ports"]], [("metrics", 8443)])
        self.assertIn("--upstream=http://127.0.0.1:8080/", beside["args"])
        self.assertEqual(beside["securityContext"], operator["securityContext"])
        self.assertEqual(only(objects, "Service")["spec"]["ports"][0]["port"], 8443)
        (endpoint,) = only(objects, "ServiceMonitor")["spec"]["endpoints"]
        self.assertEqual(endpoint["scheme"], "https")
        self.assertIn("bearerTokenFile", endpoint)
        roles = {name: role["rules"] for (kind, name), role in objects.items() if kind == "ClusterRole"}
        self.assertEqual([rule["resources"] for rule in roles["swarm-swarm-operator-metrics-auth"]],
                         [["tokenreviews"], ["subjectaccessreviews"]])
        self.assertEqual(roles["swarm-swarm-operator-metrics-reader"],
                         [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
        self.assertIn(("ClusterRoleBinding", "swarm-swarm-operator-metrics-auth"), objects)

    def test_the_page_of_all_jobs_is_served_where_it_is_wanted_and_guarded_as_metrics_are(self):
        (operator,) = only(render(), "Deployment")["spec"]["template"]["spec"]["containers"]
        self.assertFalse([word for word in operator["args"] if word.startswith("--page")])
        objects = render({"page.enabled": True})
        (operator,) = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        self.assertIn("--page-listen=0.0.0.0:8082", operator["args"])
        self.assertIn({"name": "page", "containerPort": 8082, "protocol": "TCP"}, operator["ports"])
        ports = [port["port"] for rule in only(objects, "NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]]
        self.assertEqual(ports, ["health", "metrics", "page"])
        objects = render({"page.enabled": True, "metrics.authProxy.enabled": True, "metrics.authProxy.image": "proxy:1"})
        operator, _, beside = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
        self.assertIn("--page-listen=127.0.0.1:8082", operator["args"])
        self.assertIn("--page-behind-proxy", operator["args"])
        self.assertEqual([port["name"] for port in operator["ports"]], ["health"])
        self.assertIn("--upstream=http://127.0.0.1:8082/", beside["args"])
        self.assertEqual([(port["name"], port["containerPort"]) for port in beside["ports"]], [("page", 8444)])
        (rule,) = objects["ClusterRole", "swarm-swarm-operator-page-reader"]["rules"]
        embedded = re.search(r"FILES ([^)]*)", (ROOT / "operator/jobs_page/CMakeLists.txt").read_text())[1].split()
        self.assertEqual(set(rule["nonResourceURLs"]), {"/", "/jobs", *(f"/{name}" for name in embedded)})

    def test_a_proxy_without_an_image_is_refused(self):
        code, _, error = helm("template", "swarm", CHART, *flags({"metrics.authProxy.enabled": True}))
        self.assertNotEqual(code, 0)
        self.assertIn("metrics.authProxy.image", error)

    def test_alerts_are_those_of_the_dashboards_folder_and_point_to_a_page(self):
        url = "https://wiki.example.com/swarmjob"
        objects = render({"metrics.prometheusRule.enabled": True, "metrics.prometheusRule.runbookUrl": url}, MONITORING)
        spec = only(objects, "PrometheusRule")["spec"]
        text = (ROOT / "dashboards/alerts.yaml").read_text()
        self.assertEqual(spec, yaml.safe_load(text.replace("docs/alerts.md", url).replace(f"# {url}", "#")))
        self.assertTrue(all(rule["annotations"]["runbook_url"].startswith(url + "#")
                            for group in spec["groups"] for rule in group["rules"]))

    def test_dashboards_are_found_by_the_label_that_the_sidecar_wants(self):
        self.assertFalse(of_kind(render(), "ConfigMap"))
        maps = of_kind(render({"dashboards.enabled": True, "dashboards.labelKey": "show", "dashboards.labelValue": "yes",
                               "dashboards.namespace": "grafana"}), "ConfigMap")
        files = {}
        for each in maps:
            self.assertEqual(each["metadata"]["labels"]["show"], "yes")
            self.assertEqual(each["metadata"]["namespace"], "grafana")
            files.update(each["data"])
        self.assertEqual({name: json.loads(text) for name, text in files.items()},
                         {f"swarmjob-{path.name}": json.loads(path.read_text())
                          for path in (ROOT / "dashboards").glob("*.json")})

    def test_the_dashboards_lead_to_the_pages_that_the_values_name(self):
        alerts, jobs = "https://wiki.example.com/alerts", "https://jobs.example.com/"
        maps = of_kind(render({"dashboards.enabled": True, "dashboards.pageUrl": jobs,
                               "metrics.prometheusRule.runbookUrl": alerts}), "ConfigMap")
        text = "".join(text for each in maps for text in each["data"].values())
        self.assertNotIn('"docs/', text)
        self.assertIn(f'"url": "{alerts}#swarmjobrollsback"', text)
        self.assertIn(f'"url": "{jobs}#${{__field.labels.namespace}}/${{__field.labels.swarmjob}}"', text)


class Notes(unittest.TestCase):
    def notes(self, values):
        """The chart's notes. helm prints them only when it installs, so this renders them as a template."""
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(folder) / "swarmjob"
            shutil.copytree(CHART, chart)
            text = (chart / "templates/NOTES.txt").read_text()
            (chart / "templates/notes.yaml").write_text(
                '{{- define "notes" -}}' + text + '{{- end -}}\nkind: Notes\nmetadata: {name: notes}\n'
                'text: {{ include "notes" . | toJson }}\n')
            code, out, error = helm("template", "swarm", chart, "--show-only", "templates/notes.yaml", *flags(values))
        self.assertEqual(code, 0, error)
        return yaml.safe_load(out)["text"]

    def test_say_what_the_namespaced_mode_does_not_see(self):
        self.assertNotIn("with these limits", self.notes({}))
        self.assertNotIn("with these limits", self.notes({"watchNamespaces": ["training"]}))
        without_nodes = self.notes({"watchNamespaces": ["training", "research"], "rbac.nodes": False})
        self.assertIn("does not see the notices on nodes", without_nodes)
        self.assertIn("SwarmJobs of training, research.", without_nodes)

    def test_say_how_another_cluster_comes_to_the_jobs(self):
        self.assertNotIn("west", self.notes({}))
        balanced = self.notes({"satellites.enabled": True, "image.repository": "registry.example/operator"})
        self.assertIn("swarmctl satellite token west --namespace default > west.token\n", balanced)
        self.assertIn("--set image.repository=registry.example/operator --set satellite.enabled=true", balanced)
        self.assertIn("--home HOST:PORT > west.token",
                      self.notes({"satellites.enabled": True, "satellites.service.type": "NodePort"}))

    def test_say_to_a_satellite_what_it_needs_and_nothing_of_jobs_of_its_own(self):
        satellite = self.notes({"satellite.enabled": True, "satellite.token": "sj1_a"})
        self.assertIn("namespaces of the jobs must exist here", satellite)
        self.assertNotIn("kubectl apply", satellite)
        self.assertNotIn("gateways.NAME", satellite)
        self.assertIn("--set gateways.NAME=ADDRESS:443", self.notes(
            {"satellite.enabled": True, "gateway.enabled": True, "gateway.service.port": 443,
             "gateway.service.type": "NodePort"}))

    def test_they_lead_from_a_gateway_without_an_address_to_one_that_workers_know(self):
        before = self.notes({"gateway.enabled": True})
        self.assertIn("get service swarm-swarm-operator-gateway", before)
        self.assertIn("--reuse-values --set gateways.home=ADDRESS:7444", before)
        after = self.notes({"gateway.enabled": True, "gateways.home": "203.0.113.9:7444"})
        self.assertIn("by the gateway, at 203.0.113.9:7444.", after)
        self.assertNotIn("ADDRESS", after)
        balanced = self.notes({"gateway.enabled": True, "satellites.enabled": True})
        self.assertIn("at the address of its load balancer", balanced)
        self.assertNotIn("ADDRESS", balanced)


PROGRAM = None
if __name__ == "__main__":
    if HELM is None:
        print("SKIPPED: there is no helm on PATH nor in .deps/kube; e2e/build.sh makes one", file=sys.stderr)
        sys.exit(77)
    if "--operator" in sys.argv:
        at = sys.argv.index("--operator")
        PROGRAM = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    unittest.main()
