"""Which certificates a cluster has, and that openssl agrees with what they are for."""

import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from moorage_localcluster import certificates, layout, render
from moorage_localcluster.layout import Ports

NODE = layout.node(Path("/srv/node"))
PLANE = layout.control_plane(Path("/srv/plane"), Ports())


def by_file(cluster):
    return {subject.file: subject for subject in certificates.subjects(cluster)}


def test_a_control_plane_alone_has_no_certificates_of_a_node():
    control = {"apiserver", "admin", "kube-controller-manager", "front-proxy-client"}
    assert set(by_file(PLANE)) == control
    assert set(by_file(PLANE)) < set(by_file(NODE))


# https://kubernetes.io/docs/reference/access-authn-authz/node/ and .../rbac/#core-component-roles
@pytest.mark.parametrize(
    ("file", "name", "organization"),
    [
        ("kubelet", "system:node:moorage-local", "system:nodes"),
        ("kube-controller-manager", "system:kube-controller-manager", ""),
        ("kube-scheduler", "system:kube-scheduler", ""),
        ("kube-proxy", "system:kube-proxy", "system:node-proxier"),
        ("admin", "moorage-local-admin", "system:masters"),
        ("front-proxy-client", "front-proxy-client", ""),
    ],
)
def test_a_client_has_the_name_that_its_rights_are_bound_to(file, name, organization):
    subject = by_file(NODE)[file]
    assert (subject.common_name, subject.organization) == (name, organization)


@pytest.mark.parametrize(
    "name",
    ["IP:127.0.0.1", "IP:10.244.0.1", "IP:10.96.0.1", "DNS:kubernetes.default.svc"],
)
def test_the_api_server_answers_to_every_way_of_reaching_it(name):
    assert name in by_file(NODE)["apiserver"].names.split(",")


def test_every_certificate_that_a_command_line_names_is_made():
    flags = [word for line in render.commands(NODE).values() for word in line]
    named = {Path(word.partition("=")[2]).stem for word in flags if word.endswith(".crt")}
    assert named - {"ca"} <= set(by_file(NODE))
    assert named >= {"ca", "apiserver", "apiserver-kubelet-client", "front-proxy-client"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    plane = layout.control_plane(tmp_path_factory.mktemp("plane"), Ports())
    certificates.make_all(plane)
    return plane


def test_keys_are_for_their_owner_alone(made):
    keys = list(made.pki.glob("*.key"))

    assert len(keys) == 6
    assert {stat.S_IMODE(key.stat().st_mode) for key in keys} == {0o600}
    assert stat.S_IMODE(made.pki.stat().st_mode) == 0o700


def test_the_authority_signed_what_python_and_openssl_accept(made):
    context = ssl.create_default_context(cafile=str(made.pki / "ca.crt"))
    context.load_cert_chain(made.pki / "admin.crt", made.pki / "admin.key")
    for certificate in ("apiserver.crt", "admin.crt", "kube-controller-manager.crt"):
        said = subprocess.run(
            ["openssl", "verify", "-CAfile", made.pki / "ca.crt", made.pki / certificate],
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.stdout.strip().endswith("OK"), said.stderr


def test_a_repeated_call_keeps_every_file_and_mends_a_missing_one(made):
    before = {path.name: path.read_bytes() for path in made.pki.iterdir()}
    (made.pki / "admin.crt").unlink()

    certificates.make_all(made)

    after = {path.name: path.read_bytes() for path in made.pki.iterdir()}
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"admin.crt", "admin.key", "ca.srl"}
    assert set(after) == set(before)
