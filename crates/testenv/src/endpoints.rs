//! Finds the Pod behind the address of a Service, as kube-proxy does. Pods of real nodes have loopback addresses. No
//! `EndpointSlice` may contain those, so this module lists the Pods that the Service selects.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// Returns the address of a Pod that is ready, for an address of its Service such as `10.96.0.7:443`; `None` without one,
/// and if the API server gives no answer.
pub(crate) async fn find(client: &Client, address: &str) -> Option<SocketAddr> {
    let address: SocketAddr = address.parse().ok()?;
    let services: Api<Service> = Api::all(client.clone());
    let services = services.list(&ListParams::default()).await.ok()?.items;
    let (service, port) = services.iter().find_map(|service| {
        let spec = service.spec.as_ref()?;
        let ip: IpAddr = spec.cluster_ip.as_ref()?.parse().ok()?;
        let port = spec.ports.iter().flatten().find(|port| port.port == i32::from(address.port()))?;
        (ip == address.ip()).then_some((service, port))
    })?;
    let selector = service.spec.as_ref()?.selector.as_ref()?;
    let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &service.namespace()?);
    let pods = pods.list(&ListParams::default().labels(&labels.join(","))).await.ok()?.items;
    pods.iter().filter(|pod| is_ready(pod)).find_map(|pod| {
        let ip = pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()?;
        Some(SocketAddr::new(ip, target(pod, port)?))
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Returns the port of a Pod for a port of its Service.
fn target(pod: &Pod, port: &ServicePort) -> Option<u16> {
    let number = match &port.target_port {
        Some(IntOrString::String(name)) => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            ports.find(|known| known.name.as_ref() == Some(name))?.container_port
        }
        Some(IntOrString::Int(number)) => *number,
        None => port.port,
    };
    u16::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::the_name_of_a_port(json!({"port": 443, "targetPort": "https"}), Some(8443))]
    #[case::a_name_that_no_container_has(json!({"port": 443, "targetPort": "other"}), None)]
    #[case::a_number(json!({"port": 443, "targetPort": 9443}), Some(9443))]
    #[case::the_same(json!({"port": 443}), Some(443))]
    fn a_port_of_a_service_leads_to(#[case] port: serde_json::Value, #[case] expected: Option<u16>) {
        let pod = json!({"spec": {"containers": [
            {"name": "other"}, {"name": "server", "ports": [{"name": "https", "containerPort": 8443}]},
        ]}});
        let (pod, port): (Pod, ServicePort) =
            (serde_json::from_value(pod).unwrap(), serde_json::from_value(port).unwrap());

        assert_eq!(target(&pod, &port), expected);
    }
}
