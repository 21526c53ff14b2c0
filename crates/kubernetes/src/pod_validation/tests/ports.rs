use rstest::rstest;
use serde_json::{Value, json};

use super::{assert_paths, container, of_container, paths, with};

#[rstest]
#[case(json!([{"containerPort": 80, "protocol": "TCP"}]), "")]
#[case(json!([{"containerPort": 80, "protocol": "SCTP"}, {"containerPort": 80, "protocol": "SCTP"}]), "")]
#[case(json!([{"protocol": "TCP"}]), "ports[0].containerPort")]
#[case(json!([{"containerPort": 0, "protocol": "TCP"}]), "ports[0].containerPort")]
#[case(json!([{"containerPort": 65536, "protocol": "TCP"}]), "ports[0].containerPort")]
#[case(json!([{"containerPort": 65535, "hostPort": 65536, "protocol": "TCP"}]), "ports[0].hostPort")]
#[case(json!([{"containerPort": 1, "hostPort": -1, "protocol": "TCP"}]), "ports[0].hostPort")]
#[case(json!([{"containerPort": 1, "hostPort": 0, "protocol": "TCP"}]), "")]
#[case(json!([{"containerPort": 1}]), "ports[0].protocol")]
#[case(json!([{"containerPort": 1, "protocol": "tcp"}]), "ports[0].protocol")]
#[case(
    json!([{"name": "a", "containerPort": 1, "protocol": "TCP"}, {"name": "a", "containerPort": 2, "protocol": "UDP"}]),
    "ports[1].name"
)]
fn val12_ports(#[case] ports: Value, #[case] expected: &str) {
    assert_paths(&of_container(&json!({"ports": ports})), expected, &ports);
}

#[rstest]
#[case("http", true)]
#[case("8a", true)]
#[case("abcdefghijklmno", true)]
#[case("abcdefghijklmnop", false)]
#[case("80", false)]
#[case("a--b", false)]
#[case("-a", false)]
#[case("a-", false)]
#[case("HTTP", false)]
#[case("a_b", false)]
#[case("", true)]
fn val12_port_names(#[case] name: &str, #[case] fine: bool) {
    let ports = json!([{"name": name, "containerPort": 80, "protocol": "TCP"}]);
    assert_paths(&of_container(&json!({"ports": ports})), if fine { "" } else { "ports[0].name" }, &ports);
}

#[test]
fn val12_containers_share_the_ports_of_the_host() {
    let port = |protocol: &str, address: &str| json!({"ports": [{"containerPort": 1, "hostPort": 80, "hostIP": address, "protocol": protocol}]});
    let (tcp, udp, other) = (port("TCP", ""), port("UDP", ""), port("TCP", "10.0.0.1"));
    let plain = [with("a", &tcp), with("b", &udp), with("c", &other), with("d", &tcp)];
    assert_eq!(paths(&[with("i", &tcp), with("j", &tcp)], &plain, &[]), ["spec.containers[3].ports[0].hostPort"]);
}

#[test]
fn val12_an_init_container_can_only_clash_with_itself_and_is_reported_as_the_first() {
    let port = json!({"containerPort": 1, "hostPort": 80, "protocol": "TCP"});
    let twice = with("j", &json!({"ports": [port, port]}));
    let found = paths(&[container("i"), twice], &[container("c")], &[]);
    assert_eq!(found, ["spec.initContainers[0].ports[1].hostPort"]);
}
