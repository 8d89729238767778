"""Configuration files and command lines of every component; pure.

Each setting that is not a default has its reason beside it.
"""

import json
from collections.abc import Mapping
from typing import Any

from moorage_localcluster import layout as places
from moorage_localcluster.addresses import IPV4
from moorage_localcluster.layout import Layout


def kubeconfig(layout: Layout, user: str) -> str:
    """A kubeconfig for one certificate of the cluster (JSON, which is YAML)."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "moorage-local",
                    "cluster": {
                        "server": layout.server,
                        "certificate-authority": str(layout.pki / "ca.crt"),
                    },
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate": str(layout.pki / f"{user}.crt"),
                        "client-key": str(layout.pki / f"{user}.key"),
                    },
                }
            ],
            "contexts": [
                {
                    "name": "moorage-local",
                    "context": {
                        "cluster": "moorage-local",
                        "user": user,
                    },
                }
            ],
            "current-context": "moorage-local",
        },
        indent=2,
    )


def containerd(layout: Layout) -> str:
    """The configuration of containerd, with all files in the cluster's own folders."""
    return f"""version = 3
root = "{layout.state}/containerd"
state = "{layout.run}/containerd"
# it makes /opt/containerd, and puts what is installed there before the machine's own programs
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "{layout.containerd_socket}"
[plugins."io.containerd.image-verifier.v1.bindir"]
  # whatever another containerd asks about its images is not asked here; nothing is in this folder
  bin_dir = "{layout.state}/containerd/image-verifiers"
[plugins."io.containerd.nri.v1.nri"]
  # its socket has a fixed place outside, where another containerd may have one
  disable = true
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  # without CAP_SYS_RESOURCE a container may not lower its own score, and pods fail to start
  restrict_oom_score_adj = true
  # network namespaces then go away with the state folder, also after a crash
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    # not the one of another containerd that is on the PATH
    runtime_path = "{layout.binaries}/containerd-shim-runc-v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{layout.runc}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "{layout.config}/cni"
"""


PAUSE_IMAGE = "localhost/moorage-pause:1"


def cni(layout: Layout) -> str:
    """One bridge for all pods; addresses from files in the state folder."""
    family = places.ADDRESSES
    return json.dumps(
        {
            "cniVersion": "0.4.0",
            "name": "moorage-local",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": places.BRIDGE,
                    "isGateway": True,
                    "ipMasq": False,
                    "hairpinMode": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": str(layout.state / "cni"),
                        "ranges": [[{"subnet": places.POD_RANGE, "rangeStart": family.first_pod}]],
                        "routes": [{"dst": family.default_route}],
                    },
                }
            ],
        },
        indent=2,
    )


def kubelet(layout: Layout, *, cgroup_v1: bool) -> str:
    """The kubelet's configuration."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": places.BRIDGE_ADDRESS,
        "port": layout.ports.kubelet,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": layout.ports.kubelet_health,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(layout.pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(layout.pki / "kubelet-server.key"),
        "clusterDNS": [places.DNS_SERVICE_ADDRESS],
        "clusterDomain": places.CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "cgroupDriver": "cgroupfs",
        # All containers are in one group of the cluster, which is removed with it.
        "cgroupsPerQOS": False,
        "cgroupRoot": f"/{places.NODE_NAME}",
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        # kube-proxy uses nftables; iptables chains would only be left behind.
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(layout.logs / "pods"),
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "imageGCHighThresholdPercent": 100,
        "rotateCertificates": False,
        "syncFrequency": "10s",
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        # Image volumes are enabled by default from 1.35. A kubelet without a control group per pod
        # crashes when it takes a container's group for one to be resized in place.
        "featureGates": {"ImageVolume": True, "InPlacePodVerticalScaling": False},
        "resolvConf": str(layout.config / "resolv.conf"),
    }
    if cgroup_v1:
        config["failCgroupV1"] = False
    return json.dumps(config, indent=2)


def kube_proxy(layout: Layout) -> str:
    """The configuration of kube-proxy: nftables, with unchanged conntrack limits."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            # The default of one second suits large clusters; here a pod is reachable sooner.
            "nftables": {"minSyncPeriod": "100ms"},
            "clusterCIDR": places.POD_RANGE,
            "hostnameOverride": places.NODE_NAME,
            "healthzBindAddress": f"127.0.0.1:{layout.ports.proxy_health}",
            "metricsBindAddress": f"127.0.0.1:{layout.ports.proxy_metrics}",
            "clientConnection": {"kubeconfig": str(layout.config / "kube-proxy.kubeconfig")},
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        },
        indent=2,
    )


def corefile(layout: Layout) -> str:
    """The configuration of CoreDNS, which forwards other names to the host's resolvers."""
    return f""".:{places.DNS_PORT} {{
    bind {places.BRIDGE_ADDRESS}
    ready 127.0.0.1:{layout.ports.dns_ready}
    errors
    kubernetes {places.CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {layout.config / "coredns.kubeconfig"}
        pods insecure
    }}
    forward . /etc/resolv.conf
    cache 5
}}
"""


def environment(given: Mapping[str, str]) -> Mapping[str, str]:
    """The environment of the cluster's programs, from that of the user.

    containerd may need a proxy for the registries of images. None of the programs may use it for
    the addresses of the cluster, which only this machine knows.

    Source: the package golang.org/x/net/http/httpproxy, for the ranges.
    """
    own = [places.POD_RANGE, places.SERVICE_RANGE, ".svc", f".{places.CLUSTER_DOMAIN}"]
    direct = given.get("NO_PROXY") or given.get("no_proxy") or ""
    exempt = ",".join([*([direct] if direct else []), *own])
    return {**given, "NO_PROXY": exempt, "no_proxy": exempt}


def commands(layout: Layout) -> Mapping[str, list[str]]:
    """The command line of every process, in start order."""
    binary, pki, config, ports = layout.binaries, layout.pki, layout.config, layout.ports
    api_flags = _api_flags(layout)
    lines = {
        "etcd": [
            "/usr/bin/etcd",
            f"--data-dir={layout.state / 'etcd'}",
            "--name=moorage",
            f"--listen-client-urls=http://127.0.0.1:{ports.etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{ports.etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{ports.etcd_peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{ports.etcd_peer}",
            f"--initial-cluster=moorage=http://127.0.0.1:{ports.etcd_peer}",
            # The cluster is disposable, so data loss on a power failure is acceptable.
            "--unsafe-no-fsync",
            "--logger=zap",
        ],
        "kube-apiserver": [str(binary / "kube-apiserver"), *api_flags],
        "kube-controller-manager": [
            str(binary / "kube-controller-manager"),
            f"--kubeconfig={config / 'kube-controller-manager.kubeconfig'}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--service-account-private-key-file={pki / 'sa.key'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.controller_manager}",
        ],
    }
    if not layout.full:
        return lines
    return {
        **lines,
        "kube-scheduler": [
            str(binary / "kube-scheduler"),
            f"--kubeconfig={config / 'kube-scheduler.kubeconfig'}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            f"--secure-port={ports.scheduler}",
        ],
        "containerd": [str(binary / "containerd"), f"--config={config / 'containerd.toml'}"],
        "kubelet": [
            str(binary / "kubelet"),
            f"--config={config / 'kubelet.json'}",
            f"--kubeconfig={config / 'kubelet.kubeconfig'}",
            f"--root-dir={layout.state / 'kubelet'}",
            f"--hostname-override={places.NODE_NAME}",
            f"--node-ip={places.BRIDGE_ADDRESS}",
        ],
        "kube-proxy": [str(binary / "kube-proxy"), f"--config={config / 'kube-proxy.json'}"],
        "coredns": [str(binary / "coredns"), "-conf", str(config / "Corefile")],
    }


def _api_flags(layout: Layout) -> list[str]:
    pki, ports = layout.pki, layout.ports
    # Without a node, the API server's own address is 127.0.0.1, whose family Services must have.
    family = places.ADDRESSES if layout.full else IPV4
    flags = [
        f"--etcd-servers=http://127.0.0.1:{ports.etcd}",
        f"--secure-port={ports.api}",
        f"--service-cluster-ip-range={family.services}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--service-account-issuer=https://kubernetes.default.svc.{places.CLUSTER_DOMAIN}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        f"--cert-dir={layout.state / 'apiserver'}",
        # For API extensions such as metrics-server. The same authority signs client certificates,
        # so only the name distinguishes this one.
        f"--requestheader-client-ca-file={pki / 'ca.crt'}",
        f"--requestheader-allowed-names={places.FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / f'{places.FRONT_PROXY}.crt'}",
        f"--proxy-client-key-file={pki / f'{places.FRONT_PROXY}.key'}",
        "--allow-privileged=true",
        "--profiling=false",
        # Debian's etcd cannot stream lists, so a client that requests one would wait forever.
        # Image volumes are enabled by default from 1.35.
        "--feature-gates=WatchList=false,ImageVolume=true",
    ]
    if layout.full:
        return [
            *flags,
            # Pods connect through the Service address, which is routed to the bridge.
            f"--bind-address={places.ADDRESSES.every}",
            f"--advertise-address={places.BRIDGE_ADDRESS}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            f"--kubelet-certificate-authority={pki / 'ca.crt'}",
            # DNS does not resolve the node's name.
            "--kubelet-preferred-address-types=InternalIP",
        ]
    return [
        *flags,
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--authorization-mode=RBAC",
        # No controller creates the default service accounts that it requires.
        "--disable-admission-plugins=ServiceAccount",
    ]


def dns_objects() -> list[dict[str, Any]]:
    """The Service for the host's DNS server, and the rights of that server."""
    labels = {"k8s-app": "kube-dns", "kubernetes.io/service-name": "kube-dns"}
    ports = [
        {"name": "dns", "protocol": "UDP", "port": 53, "targetPort": places.DNS_PORT},
        {"name": "dns-tcp", "protocol": "TCP", "port": 53, "targetPort": places.DNS_PORT},
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {"clusterIP": places.DNS_SERVICE_ADDRESS, "ports": ports},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "kube-dns-host", "namespace": "kube-system", "labels": labels},
            "addressType": places.ADDRESSES.family,
            "endpoints": [{"addresses": [places.BRIDGE_ADDRESS]}],
            "ports": [
                {"name": port["name"], "protocol": port["protocol"], "port": places.DNS_PORT}
                for port in ports
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services", "pods", "namespaces", "endpoints"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "system:coredns",
            },
            "subjects": [
                {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "system:coredns"}
            ],
        },
    ]
