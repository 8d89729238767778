"""What is written for every component holds together: files, ports, addresses and names."""

import json
import tomllib
from pathlib import Path

import pytest

from moorage_localcluster import certificates, layout, ports, render, running
from moorage_localcluster.layout import Ports

NODE = layout.node(Path("/srv/node"))
PLANE = layout.control_plane(Path("/srv/plane"), Ports(api=30001, etcd=30002))


def flags(cluster, name):
    """The flags of a process as a dict; a bare flag is ""."""
    words = render.commands(cluster)[name][1:]
    return {word.partition("=")[0]: word.partition("=")[2] for word in words}


def test_a_control_plane_alone_runs_nothing_of_a_node():
    assert set(render.commands(PLANE)) == {"etcd", "kube-apiserver", "kube-controller-manager"}
    assert set(render.commands(NODE)) == {*running.STOP_ORDER, "containerd"}


def test_every_command_line_names_a_folder_of_its_cluster():
    # by which a process without a record is found again
    for cluster in (NODE, PLANE):
        for name, line in render.commands(cluster).items():
            assert any(str(cluster.state) in word for word in line[1:]), name


def test_a_control_plane_alone_listens_on_loopback_only():
    api = flags(PLANE, "kube-apiserver")
    etcd = flags(PLANE, "etcd")

    assert api["--bind-address"] == "127.0.0.1"
    assert api["--secure-port"] == "30001"
    assert api["--etcd-servers"] == etcd["--listen-client-urls"] == "http://127.0.0.1:30002"


def test_pods_and_logs_can_reach_the_api_server_and_the_kubelet():
    api = flags(NODE, "kube-apiserver")

    assert api["--bind-address"] == "0.0.0.0"
    assert api["--advertise-address"] == layout.BRIDGE_ADDRESS
    assert api["--kubelet-preferred-address-types"] == "InternalIP"
    assert flags(NODE, "kubelet")["--node-ip"] == layout.BRIDGE_ADDRESS


@pytest.mark.parametrize("user", ["admin", "kubelet"])
def test_a_kubeconfig_has_one_context_whose_names_fit(user):
    config = json.loads(render.kubeconfig(NODE, user))

    (context,) = config["contexts"]
    assert config["current-context"] == context["name"]
    assert context["context"] == {
        "cluster": config["clusters"][0]["name"],
        "user": config["users"][0]["name"],
    }
    assert config["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:16443",
        "certificate-authority": "/srv/node/pki/ca.crt",
    }
    assert config["users"][0]["user"]["client-certificate"] == f"/srv/node/pki/{user}.crt"


def test_containerd_keeps_everything_in_the_clusters_folders():
    config = tomllib.loads(render.containerd(NODE))
    plugins = config["plugins"]
    runtime = plugins["io.containerd.cri.v1.runtime"]
    runc = runtime["containerd"]["runtimes"]["runc"]

    assert config["root"].startswith("/srv/node/")
    assert config["state"].startswith("/run/moorage-local-node/")
    assert config["grpc"]["address"] == str(NODE.containerd_socket)
    assert runc["options"]["Root"] == str(NODE.runc)
    assert runtime["cni"]["conf_dir"] == str(NODE.config / "cni")
    assert runtime["restrict_oom_score_adj"] is True
    assert plugins["io.containerd.nri.v1.nri"]["disable"] is True
    images = plugins["io.containerd.cri.v1.images"]
    assert images["pinned_images"]["sandbox"] == render.PAUSE_IMAGE


def test_containerd_and_its_shim_are_those_that_were_built_and_not_the_machines():
    config = tomllib.loads(render.containerd(NODE))
    runtimes = config["plugins"]["io.containerd.cri.v1.runtime"]["containerd"]["runtimes"]
    programs = [render.commands(NODE)["containerd"][0], runtimes["runc"]["runtime_path"]]

    assert programs == [
        str(NODE.binaries / name) for name in ("containerd", "containerd-shim-runc-v2")
    ]


def test_api_server_and_kubelet_have_image_volumes():
    assert "ImageVolume=true" in flags(NODE, "kube-apiserver")["--feature-gates"].split(",")
    assert json.loads(render.kubelet(NODE, cgroup_v1=False))["featureGates"]["ImageVolume"] is True


def test_the_kubelet_resizes_no_container_in_place():
    assert not json.loads(render.kubelet(NODE, cgroup_v1=False))["featureGates"][
        "InPlacePodVerticalScaling"
    ]


def test_pods_get_addresses_of_the_bridges_range():
    (bridge,) = json.loads(render.cni(NODE))["plugins"]

    assert bridge["bridge"] == layout.BRIDGE
    ((subnet,),) = bridge["ipam"]["ranges"]
    assert subnet["subnet"] == layout.POD_RANGE
    assert bridge["ipam"]["dataDir"].startswith("/srv/node/")


def test_the_kubelet_finds_containerd_dns_and_its_certificate():
    config = json.loads(render.kubelet(NODE, cgroup_v1=False))

    assert config["containerRuntimeEndpoint"] == f"unix://{NODE.containerd_socket}"
    assert config["clusterDNS"] == [layout.DNS_SERVICE_ADDRESS]
    assert Path(config["tlsCertFile"]).stem in {
        subject.file for subject in certificates.subjects(NODE)
    }
    assert config["port"] in ports.of_process(NODE.ports, "kubelet")


@pytest.mark.parametrize(("cgroup_v1", "told"), [(True, False), (False, None)])
def test_the_kubelet_is_told_of_cgroup_v1_only_where_it_is(cgroup_v1, told):
    config = json.loads(render.kubelet(NODE, cgroup_v1=cgroup_v1))
    assert config.get("failCgroupV1") is told


@pytest.mark.parametrize("given", [{}, {"no_proxy": "a.example"}, {"NO_PROXY": "a.example"}])
def test_no_program_uses_a_proxy_for_the_addresses_of_the_cluster(given):
    env = render.environment({"HTTPS_PROXY": "http://proxy:3128", **given})

    exempt = env["NO_PROXY"].split(",")
    assert env["no_proxy"] == env["NO_PROXY"]
    assert {layout.POD_RANGE, layout.SERVICE_RANGE, ".svc", ".cluster.local"} <= set(exempt)
    assert exempt[0] == ("a.example" if given else layout.POD_RANGE)
    assert env["HTTPS_PROXY"] == "http://proxy:3128"


def test_kube_proxy_programs_nftables_for_the_pods_range():
    config = json.loads(render.kube_proxy(NODE))

    assert config["mode"] == "nftables"
    assert config["clusterCIDR"] == layout.POD_RANGE
    assert config["hostnameOverride"] == flags(NODE, "kubelet")["--hostname-override"]


def test_dns_answers_where_its_service_leads():
    service, endpoints = render.dns_objects()[:2]
    corefile = render.corefile(NODE)

    assert service["spec"]["clusterIP"] == layout.DNS_SERVICE_ADDRESS
    assert endpoints["endpoints"] == [{"addresses": [layout.BRIDGE_ADDRESS]}]
    assert {port["targetPort"] for port in service["spec"]["ports"]} == {layout.DNS_PORT}
    assert {port["port"] for port in endpoints["ports"]} == {layout.DNS_PORT}
    assert corefile.startswith(f".:{layout.DNS_PORT} {{")
    assert f"bind {layout.BRIDGE_ADDRESS}" in corefile


def test_dns_may_read_as_the_user_of_its_certificate():
    binding = render.dns_objects()[-1]
    names = {subject.common_name for subject in certificates.subjects(NODE)}
    assert {subject["name"] for subject in binding["subjects"]} <= names


def test_every_configuration_file_that_a_command_line_names_is_written(tmp_path):
    node = layout.node(tmp_path)
    running.write_config(node)

    for name, line in render.commands(node).items():
        for word in line[1:]:
            path = Path(word.rpartition("=")[2])
            if path.is_relative_to(node.config):
                assert path.is_file(), f"{name}: {word}"


def test_configuration_files_hold_keys_paths_and_are_for_root_alone(tmp_path):
    node = layout.node(tmp_path)
    running.write_config(node)
    modes = {path.stat().st_mode & 0o777 for path in node.config.rglob("*") if path.is_file()}
    assert modes == {0o600}
