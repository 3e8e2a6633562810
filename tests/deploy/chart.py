"""The Helm chart, rendered and looked at: by helm's lint, by the schemas of each Kubernetes, and by what is to be true of it.

`./dev helm` runs this file; helm is $KILN_HELM, kilnd (which has to take the settings) $KILN_KILND. A kind that the
schemas do not know is a failure, but for the two of the Prometheus operator.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHART = ROOT / "deploy" / "helm" / "kiln"
PAGE = (ROOT / "docs" / "deployment.md").read_text()
VALUES = {name: ROOT / "tests" / "deploy" / "values" / file
          for name, file in (("open", "open.yaml"), ("fleet", "fleet.yaml"), ("bare", "bare.yaml"))}  # fmt: skip
HELM = os.environ.get("KILN_HELM", "helm")
KILND = os.environ.get("KILN_KILND", str(ROOT / "bazel-bin" / "server" / "kilnd"))
KUBERNETES = ["1.%d" % minor for minor in range(31, 38)]
NOBODY = 'tenant { name: "nobody" token { sha256: "%s" } }' % ("0" * 64)
OPERATORS = {"ServiceMonitor": ("selector", "endpoints"), "PrometheusRule": ("groups",)}

CLOSED = ["tenants.secretName=who", "tls.secretName=kiln-tls"]
# What is taken of what is refused with a word more or less.
TAKEN = [
    [*CLOSED],
    [*CLOSED, "settings.http_listen=127.0.0.1:8000"],
    [*CLOSED, "settings.http_listen=localhost:8000"],
    ["insecure=true", "networkPolicy.enabled=false", "settings.http_listen=0.0.0.0:8000"],
]
# What is refused, and how: values -> what helm says.
REFUSED = [
    ([], "nothing says who may use the server"),
    (["tenants.text=x"], "tokens would travel in the clear"),
    (["insecure=true", "tenants.text=x", "tenants.secretName=y"], "give secretName or text, not both"),
    (["tenants.text=x", "tls.secretName=t", "admin.enabled=false"], "the kubelet's gRPC probes do not encrypt"),
    (["insecure=true", "admin.enabled=false", "autoscaling.enabled=true"], "autoscaling is on a metric of the admin port"),
    ([*CLOSED, "networkPolicy.enabled=false"], "the admin port asks nobody and would be everybody's"),
    ([*CLOSED, "settings.http_listen=0.0.0.0:8000"], "tokens would travel in the clear to 0.0.0.0:8000"),
    ([*CLOSED, "settings.http_listen=127.0.0.1.example:8000"], "tokens would travel in the clear to 127.0.0.1.example:8000"),
    (["insecure=true", "gpu.vendor=intel"], "gpu/vendor"),
    (["insecure=true", "settings.listen=x"], "invalid propertyName 'listen'"),
    (["insecure=true", "tennants.text=x"], "tennants"),
    (["insecure=true", "image.digest=latest"], "image/digest"),
]


def helm(*words):
    return subprocess.run([HELM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rendered(name, kubernetes=KUBERNETES[-1], *given):
    """(kind, name) -> document, of a file of values and what is `given` besides."""
    words = [word for value in given for word in ("--set", value)] + (["--values", VALUES[name]] if name else [])
    ran = helm("template", "k", CHART, "--namespace", "pool", "--kube-version", kubernetes + ".0", *words)
    if ran.returncode != 0:
        raise AssertionError(ran.stdout)
    documents = [document for document in yaml.safe_load_all(ran.stdout) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in documents}


def pod_of(documents):
    return documents["StatefulSet", "k-kiln"]["spec"]["template"]["spec"]


class Chart(unittest.TestCase):
    def test_lint(self):
        for name, path in VALUES.items():
            ran = helm("lint", "--strict", CHART, "--values", path)
            self.assertEqual(ran.returncode, 0, "%s: %s" % (name, ran.stdout))

    def test_every_kubernetes_takes_it(self):
        seen = set()
        for version in KUBERNETES:
            for name in VALUES:
                for (kind, _), document in rendered(name, version).items():
                    with self.subTest(kubernetes=version, values=name, kind=kind):
                        seen.add(kind)
                        if kind in OPERATORS:
                            self.assertLessEqual(set(OPERATORS[kind]), set(document["spec"]))
                        else:
                            kubernetes_validate.validate(document, version, strict=True)
        self.assertEqual(seen, {"StatefulSet", "Service", "ConfigMap", "Secret", "ServiceAccount", "PodDisruptionBudget", "Pod",
                                "NetworkPolicy", "HorizontalPodAutoscaler", *OPERATORS})  # fmt: skip

    def test_what_is_refused(self):
        for given, text in REFUSED:
            ran = helm("template", "k", CHART, "--kube-version", "1.31.0", *(word for value in given for word in ("--set", value)))
            with self.subTest(given=given):
                self.assertNotEqual(ran.returncode, 0)
                self.assertIn(text, ran.stdout.replace(".", "/") if "/" in text else ran.stdout)

    def test_what_is_taken(self):
        for given in TAKEN:
            self.assertIn(("StatefulSet", "k-kiln"), rendered("", KUBERNETES[-1], *given))

    def mounted(self):
        """A folder with what a pod has of files, where / would be."""
        root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, root)
        for folder in ("etc/kiln/tls", "etc/kiln/tenants", "var/cache/kiln"):
            (root / folder).mkdir(parents=True)
        tls = root / "etc/kiln/tls"
        words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=k".split()
        subprocess.run(["openssl", *words, "-keyout", tls / "tls.key", "-out", tls / "tls.crt"], check=True,
                       stderr=subprocess.DEVNULL)  # fmt: skip
        # Not the values' own: of those, kilnd would ask a cluster for its keys.
        (root / "etc/kiln/tenants/tenants.txtpb").write_text(NOBODY)
        return root

    def test_kilnd_takes_its_settings(self):
        for name in VALUES:
            documents = rendered(name)
            root = self.mounted()
            text = documents["ConfigMap", "k-kiln"]["data"]["kilnd.txtpb"]
            text = text.replace('"/etc', '"%s/etc' % root).replace('"/var', '"%s/var' % root)
            environment = {row["name"]: row["value"].replace("$(POD)", "k-kiln-0")
                           for row in pod_of(documents)["containers"][0]["env"] if row["name"].startswith("KILN_")}  # fmt: skip
            ran = subprocess.run([KILND, "--config=/dev/stdin", "--check_config"], input=text, env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
            with self.subTest(name):
                self.assertEqual(ran.returncode, 0, ran.stdout)
                for key, value in (yaml.safe_load(VALUES[name].read_text()).get("settings") or {}).items():
                    self.assertRegex(ran.stdout, r'\b%s: "?%s\b' % (key, value))

    def test_pods_are_restricted(self):
        """As the Pod Security Standard "restricted" asks, and more."""
        for name in VALUES:
            for (kind, _), document in rendered(name).items():
                if kind not in ("StatefulSet", "Pod"):
                    continue
                pod = document["spec"]["template"]["spec"] if kind == "StatefulSet" else document["spec"]
                container = pod["containers"][0]
                with self.subTest(values=name, kind=kind):
                    whose = pod["securityContext"]
                    self.assertEqual((whose["runAsUser"], whose["runAsNonRoot"]), (65532, True))
                    self.assertEqual(whose["seccompProfile"], {"type": "RuntimeDefault"})
                    wanted = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
                    self.assertEqual(container["securityContext"], wanted)
                    self.assertIs(pod["automountServiceAccountToken"], False)

    def test_names_within_it_agree(self):
        for name in VALUES:
            documents = rendered(name)
            labels = documents["StatefulSet", "k-kiln"]["spec"]["template"]["metadata"]["labels"]
            pod = pod_of(documents)
            container = pod["containers"][0]
            ports = {port["name"] for port in container["ports"]}
            with self.subTest(name):
                self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                                 {volume["name"] for volume in pod["volumes"]} |
                                 {claim["metadata"]["name"] for claim in
                                  documents["StatefulSet", "k-kiln"]["spec"].get("volumeClaimTemplates", [])})  # fmt: skip
                for (kind, _), document in documents.items():
                    spec = document.get("spec", {})
                    if kind == "Service":
                        self.assertLessEqual(spec["selector"].items(), labels.items())
                        self.assertLessEqual({port["targetPort"] for port in spec["ports"]}, ports)
                    elif kind == "PodDisruptionBudget":
                        self.assertLessEqual(spec["selector"]["matchLabels"].items(), labels.items())
                    elif kind == "NetworkPolicy":
                        self.assertLessEqual(spec["podSelector"]["matchLabels"].items(), labels.items())
                        self.assertLessEqual({port["port"] for rule in spec["ingress"] for port in rule["ports"]}, ports)
                    elif kind == "ServiceMonitor":
                        service = documents["Service", "k-kiln-servers"]
                        self.assertLessEqual(spec["selector"]["matchLabels"].items(), service["metadata"]["labels"].items())
                        self.assertIn(spec["endpoints"][0]["port"], {port["name"] for port in service["spec"]["ports"]})

    def test_the_page_s_commands(self):
        """Rendered, as there is no cluster to install into."""
        values, client, adapter = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.S | re.M)
        lines = re.findall(r"^helm (?:install|upgrade) (.*)$", PAGE, re.M)
        self.assertEqual(len(lines), 3)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "values.yaml").write_text(values)
            for line in lines:
                words = line.replace("deploy/helm/kiln", str(CHART)).split()
                ran = subprocess.run([HELM, "template", *words, "--kube-version", "1.31.0"], cwd=folder, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)  # fmt: skip
                self.assertEqual(ran.returncode, 0, ran.stdout)
                services = {row["metadata"]["name"] for row in yaml.safe_load_all(ran.stdout) if row and row["kind"] == "Service"}
                self.assertEqual(services, {"kiln", "kiln-servers"})  # the names that the page tells clients
        for version in KUBERNETES:
            kubernetes_validate.validate(yaml.safe_load(client), version, strict=True)
        self.assertIn("kiln_predicted_wait_seconds", yaml.safe_load(adapter)["rules"][0]["seriesQuery"])

    def test_a_fleet(self):
        documents = rendered("fleet")
        stateful, pod = documents["StatefulSet", "k-kiln"]["spec"], pod_of(documents)
        container = pod["containers"][0]
        self.assertNotIn("replicas", stateful)  # the autoscaler's
        self.assertEqual(stateful["serviceName"], "k-kiln-servers")
        self.assertEqual(pod["terminationGracePeriodSeconds"], 5 + 60 + 10)
        environment = {row["name"]: row.get("value") for row in container["env"]}
        self.assertEqual(environment["KILN_ADVERTISE"], "$(POD).k-kiln-servers.pool:7437")
        self.assertEqual(environment["KILN_DRAIN_GRACE_SECONDS"], "5")
        self.assertEqual(container["resources"]["limits"], {"memory": "8Gi", "nvidia.com/gpu": 2})
        self.assertEqual(pod["tolerations"], [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}])
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/readyz", "port": "admin"})
        # For the API server's own audience, if none is said.
        for given, audience in (([], {}), (["clusterIdentity.audience=api"], {"audience": "api"})):
            volumes = {row["name"]: row for row in pod_of(rendered("fleet", KUBERNETES[-1], *given))["volumes"]}
            token = volumes["identity"]["projected"]["sources"][0]["serviceAccountToken"]
            self.assertEqual(token, {"path": "token", "expirationSeconds": 3600, **audience})
        scaler = documents["HorizontalPodAutoscaler", "k-kiln"]["spec"]["metrics"][0]["pods"]
        self.assertEqual(scaler, {"metric": {"name": "kiln_predicted_wait_seconds"},
                                  "target": {"type": "AverageValue", "averageValue": "500m"}})  # fmt: skip
        rules = documents["PrometheusRule", "k-kiln"]["spec"]
        self.assertEqual(rules, yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text()))
        dashboards = documents["ConfigMap", "k-kiln-dashboards"]
        self.assertEqual(dashboards["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(dashboards["data"], {path.name: path.read_text() for path in (ROOT / "deploy/grafana").glob("*.json")})

    def test_pods_begin_anew_for_settings_alone(self):
        before = rendered("fleet")
        tenants = rendered("fleet", KUBERNETES[-1], 'tenants.text=%s' % NOBODY.replace("{", "\\{").replace("}", "\\}"))
        self.assertNotEqual(before["Secret", "k-kiln-tenants"], tenants["Secret", "k-kiln-tenants"])
        self.assertEqual(before["StatefulSet", "k-kiln"], tenants["StatefulSet", "k-kiln"])
        longer = rendered("fleet", KUBERNETES[-1], "admin.port=9000")
        annotations = [row["StatefulSet", "k-kiln"]["spec"]["template"]["metadata"]["annotations"] for row in (before, longer)]
        self.assertNotEqual(*annotations)

    def test_a_port_is_said_to_be_clear_where_it_is(self):
        for name, said in (("fleet", None), ("open", "kubernetes.io/h2c"), ("bare", "kubernetes.io/h2c")):
            documents = rendered(name)
            for service in ("k-kiln", "k-kiln-servers"):
                self.assertEqual(documents["Service", service]["spec"]["ports"][0].get("appProtocol"), said)

    def test_a_full_cache_fits_its_volume(self):
        for size, most in (("8Gi", 6871947673), ("1.5Ti", 1319413953331), ("100M", 80000000), ("500k", 400000)):
            text = rendered("open", KUBERNETES[-1], "cache.size=" + size)["ConfigMap", "k-kiln"]["data"]["kilnd.txtpb"]
            self.assertIn("\nprogram_cache_disk_bytes: %d\n" % most, text)

    def test_helm_s_test_gets_in_and_ends(self):
        documents = rendered("fleet")
        pod = documents["Pod", "k-kiln-test"]
        clients = documents["NetworkPolicy", "k-kiln"]["spec"]["ingress"][0]["from"]
        self.assertEqual(clients, [{"namespaceSelector": {"matchLabels": {"team": "vision"}}},
                                   {"podSelector": {"matchLabels": pod["metadata"]["labels"]}}])  # fmt: skip
        # A Secret without ca.crt does not keep it from starting, and nothing keeps it for ever.
        (volume,) = pod["spec"]["volumes"]
        self.assertEqual(volume["secret"], {"secretName": "kiln-tls", "items": [{"key": "ca.crt", "path": "ca.crt"}],
                                            "optional": True})  # fmt: skip
        self.assertEqual(pod["spec"]["activeDeadlineSeconds"], 300)
        command = ["/usr/bin/kiln", "--server=k-kiln.pool:7437", "--tls_ca=/etc/kiln/tls/ca.crt", "health"]
        self.assertEqual(pod["spec"]["containers"][0]["command"], command)
        known = rendered("fleet", KUBERNETES[-1], "tls.ca=system")["Pod", "k-kiln-test"]["spec"]
        self.assertEqual((known["containers"][0]["command"][2], known.get("volumes")), ("--tls_ca=system", None))

    def test_gpus_that_were_asked_for_have_to_be_there(self):
        otherwise = ["gpu.vendor=nvidia", "settings.gpus=auto"]
        for name, given, wanted in (("fleet", [], ["cuda"]), ("bare", [], ["hip"]), ("open", [], []), ("open", otherwise, ["auto"])):
            pod = pod_of(rendered(name, KUBERNETES[-1], *given))
            self.assertEqual([row["value"] for row in pod["containers"][0]["env"] if row["name"] == "KILN_GPUS"], wanted)
        self.assertEqual(pod_of(rendered("bare"))["securityContext"]["supplementalGroups"], [44, 2000000109])

    def test_as_little_as_there_can_be(self):
        documents = rendered("bare")
        container = pod_of(documents)["containers"][0]
        self.assertEqual(container["readinessProbe"]["grpc"], {"port": 7437})
        self.assertEqual(container["livenessProbe"]["tcpSocket"], {"port": "grpc"})
        self.assertEqual(container["resources"], {"requests": {"cpu": "500m", "memory": "4Gi"},
                                                  "limits": {"amd.com/gpu": 1, "memory": "8Gi"}})  # fmt: skip
        self.assertEqual([port["name"] for port in container["ports"]], ["grpc"])
        self.assertEqual({kind for kind, _ in documents}, {"StatefulSet", "Service", "ConfigMap", "Pod"})
        self.assertEqual(pod_of(documents)["terminationGracePeriodSeconds"], 40)


if __name__ == "__main__":
    unittest.main()
