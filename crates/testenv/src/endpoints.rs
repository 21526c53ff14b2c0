//! Where the address of a Service leads, as the proxy of a node would find out.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

/// The label of an `EndpointSlice` with the name of its Service.
const SERVICE: &str = "kubernetes.io/service-name";

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
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), &service.namespace()?);
    let wanted = ListParams::default().labels(&format!("{SERVICE}={}", service.name_any()));
    slices.list(&wanted).await.ok()?.items.iter().find_map(|slice| {
        let ready =
            slice.endpoints.iter().flatten().find(|endpoint| {
                endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
            })?;
        // An `EndpointSlice` has "" where the Service has no name of the port.
        let name = port.name.as_deref().unwrap_or_default();
        let mut ports = slice.ports.iter().flatten();
        let port = ports.find(|known| known.name.as_deref().unwrap_or_default() == name)?.port?;
        Some(SocketAddr::new(ready.addresses.first()?.parse().ok()?, u16::try_from(port).ok()?))
    })
}
