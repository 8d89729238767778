"""What kube-proxy's rules say about the addresses behind a Service."""

from chaos.routes import routes_in

RULES = """table ip kube-proxy {
\tmap service-ips {
\t\telements = { 10.96.0.7 . tcp . 8000 : goto service-ULMVA6XW-chaos/pair/tcp/http }
\t}

\tchain service-ULMVA6XW-chaos/pair/tcp/http {
\t\tip daddr 10.96.0.7 tcp dport 8000 ip saddr != 10.244.0.0/24 jump mark-for-masquerade
\t\tnumgen random mod 2 vmap { 0 : goto endpoint-AAAA-chaos/pair/tcp/http__10.244.0.4/8000, \
1 : goto endpoint-BBBB-chaos/pair/tcp/http__10.244.0.5/8000 }
\t}

\tchain service-2QRHZV4L-chaos/pair/tcp/grpc {
\t\tnumgen random mod 1 vmap { 0 : goto endpoint-CCCC-chaos/pair/tcp/grpc__10.244.0.6/9000 }
\t}

\tchain service-6XWULMVA-other/pair/tcp/http {
\t\tnumgen random mod 1 vmap { 0 : goto endpoint-DDDD-other/pair/tcp/http__10.244.0.7/8000 }
\t}

\tchain endpoint-AAAA-chaos/pair/tcp/http__10.244.0.4/8000 {
\t\tip saddr 10.244.0.4 jump mark-for-masquerade
\t\tmeta l4proto tcp dnat to 10.244.0.4:8000
\t}
}
"""


def test_the_addresses_of_all_ports_of_a_service_in_its_namespace():
    assert routes_in(RULES, "chaos") == {
        "pair": frozenset({"10.244.0.4", "10.244.0.5", "10.244.0.6"})
    }


def test_no_address_without_rules():
    assert routes_in("table ip kube-proxy {\n}\n", "chaos") == {}
