//! Why the API server could not call a webhook, as the text of its refusal tells it.

/// The page about the ways on which calls get lost.
const PAGE: &str = "docs/guides/managed-control-planes.md";
/// The port of the server's Pods unless an option names another one.
const PORT: u64 = 8443;

/// A webhook that the API server could not call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedCall<'a> {
    /// The webhook, as in `pods.pillion.dev`.
    webhook: &'a str,
    error: &'a str,
}

/// Whose webhook was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Pillion's own server.
    Pillion,
    /// A policy server of Kubewarden, which may run Pillion's policy or another one.
    Kubewarden,
    Other,
}

/// Why a call of a webhook fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    AddressNotAllowed,
    Untrusted,
    OtherName,
    Expired,
    NoTls,
    NoEndpoints,
    NoService,
    NoName,
    Tunnel,
    Refused,
    NoRoute,
    Closed,
    Timeout,
    NotFound,
    ServerError,
    Unknown,
}

/// The texts by which a cause is known. The first one that the error contains counts: a proxy or a time limit may stand
/// before the error that says more.
const SIGNS: &[(&str, Cause)] = &[
    ("Address is not allowed", Cause::AddressNotAllowed),
    ("certificate signed by unknown authority", Cause::Untrusted),
    ("certificate has expired or is not yet valid", Cause::Expired),
    ("x509: certificate is valid for", Cause::OtherName),
    ("x509: certificate is not valid for any names", Cause::OtherName),
    ("x509: cannot validate certificate for", Cause::OtherName),
    ("server gave HTTP response to HTTPS client", Cause::NoTls),
    ("first record does not look like a TLS handshake", Cause::NoTls),
    ("no endpoints available for service", Cause::NoEndpoints),
    ("no such host", Cause::NoName),
    ("proxy error from", Cause::Tunnel),
    ("error dialing backend", Cause::Tunnel),
    ("No agent available", Cause::Tunnel),
    ("connection refused", Cause::Refused),
    ("no route to host", Cause::NoRoute),
    ("network is unreachable", Cause::NoRoute),
    ("connection reset by peer", Cause::Closed),
    ("EOF", Cause::Closed),
    ("context deadline exceeded", Cause::Timeout),
    ("Client.Timeout exceeded", Cause::Timeout),
    ("TLS handshake timeout", Cause::Timeout),
    ("i/o timeout", Cause::Timeout),
    ("dial timeout", Cause::Timeout),
    ("connection timed out", Cause::Timeout),
    ("could not find the requested resource", Cause::NotFound),
    ("has prevented the request from succeeding", Cause::ServerError),
    ("currently unable to handle the request", Cause::ServerError),
];

impl<'a> FailedCall<'a> {
    /// Finds a failed call in the message of a refusal.
    pub fn of_refusal(message: &'a str) -> Option<Self> {
        let (_, rest) = message.split_once("failed calling webhook \"")?;
        let (webhook, error) = rest.split_once("\": ")?;
        Some(Self { webhook, error })
    }

    /// Returns why the call failed and what to do. `port` is the one of the server's Pods that the API server calls, if
    /// it is known.
    pub fn reason(self, port: Option<u64>) -> String {
        let Self { webhook, .. } = self;
        let owner = self.owner();
        if owner == Owner::Other {
            return format!(
                "the webhook {webhook} is not Pillion's: ask its operator why the API server cannot call it"
            );
        }
        let cause = self.cause();
        let kubewarden = if owner == Owner::Kubewarden {
            "; the server is a policy server of Kubewarden, whose chart has such settings of its own"
        } else {
            ""
        };
        let (what, remedy) = (cause.what(), cause.remedy(port.unwrap_or(PORT)));
        format!("{what} (webhook {webhook}); {remedy}{kubewarden}: {PAGE}#{}", cause.part())
    }

    fn owner(self) -> Owner {
        if self.webhook.ends_with(".pillion.dev") {
            Owner::Pillion
        } else if self.webhook.ends_with(".kubewarden.admission") {
            Owner::Kubewarden
        } else {
            Owner::Other
        }
    }

    fn cause(self) -> Cause {
        let is_missing_service = self.error.contains("service \"") && self.error.contains("\" not found");
        let known = SIGNS.iter().find(|(sign, _)| self.error.contains(sign)).map(|(_, cause)| *cause);
        known.unwrap_or(if is_missing_service { Cause::NoService } else { Cause::Unknown })
    }
}

impl Cause {
    fn what(self) -> &'static str {
        match self {
            Self::AddressNotAllowed => "the control plane has no way to the addresses of Pods",
            Self::Untrusted => "the API server does not trust the server's certificate",
            Self::OtherName => "the server's certificate has another name than that of the Service",
            Self::Expired => "the server's certificate is out of date",
            Self::NoTls => "what answers does not speak TLS, so it is not the server's port for webhooks",
            Self::NoEndpoints => "no Pod of the server is ready",
            Self::NoService => "the Service that the webhook names does not exist",
            Self::NoName => "the control plane cannot resolve the name of the Service",
            Self::Tunnel => "the tunnel from the control plane to the nodes does not reach the server",
            Self::Refused => "no process listens on the port that the API server calls",
            Self::NoRoute => "the network has no route from the control plane to the server's Pods",
            Self::Closed => "the connection was closed before the server answered",
            Self::Timeout => "no answer came in time",
            Self::NotFound => "what answers does not know the path of the webhook (404)",
            Self::ServerError => "what answers is not able to (5xx)",
            Self::Unknown => "the API server could not call the server",
        }
    }

    fn remedy(self, port: u64) -> String {
        match self {
            Self::AddressNotAllowed => {
                "run the server in the network of its nodes (server.hostNetwork, `pillion manifest standalone --host-network`)".to_owned()
            }
            Self::Untrusted => {
                "if a GitOps tool applies the webhook configurations, let it ignore caBundle; otherwise the \
                                server's log says what it could not write"
                    .to_owned()
            }
            Self::OtherName => "issue it for SERVICE.NAMESPACE.svc".to_owned(),
            Self::Expired => "the server's log says why it was not renewed".to_owned(),
            Self::NoTls => {
                format!("let the Service lead to port {port} of the server's Pods, which nothing else may have")
            }
            Self::NoEndpoints => "look at the Pods of the server and at what their log says".to_owned(),
            Self::NoService => {
                "apply the manifests again; without Pillion, delete its webhook configurations".to_owned()
            }
            Self::NoName => "look at the DNS of the control plane".to_owned(),
            Self::Tunnel => {
                format!("look at the tunnel's agents on the nodes, and allow them TCP port {port} of the server's Pods")
            }
            Self::Refused => format!("look whether the server's Pods run and listen on port {port}"),
            Self::NoRoute => {
                format!(
                    "add the route, allow TCP port {port}, or run the server in the network of its nodes (server.hostNetwork)"
                )
            }
            Self::Closed => "look whether the server was restarted, and take its Pods out of a service mesh".to_owned(),
            Self::Timeout => format!(
                "allow the control plane TCP port {port} of the server's Pods in firewalls, security groups and network \
                 policies"
            ),
            Self::NotFound => "apply the webhook configurations of the server's version".to_owned(),
            Self::ServerError => {
                "look at the server's log, and at proxies between the API server and the server".to_owned()
            }
            Self::Unknown => "the end of the message says why".to_owned(),
        }
    }

    /// Returns the part of the page.
    fn part(self) -> &'static str {
        match self {
            Self::AddressNotAllowed | Self::NoRoute => "eks-with-another-network-plugin",
            Self::Timeout => "private-clusters-of-gke",
            Self::Untrusted
            | Self::OtherName
            | Self::Expired
            | Self::NoTls
            | Self::NoEndpoints
            | Self::NoService
            | Self::NoName
            | Self::Tunnel
            | Self::Refused
            | Self::Closed
            | Self::NotFound
            | Self::ServerError
            | Self::Unknown => "what-a-failed-call-says",
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PAGE_TEXT: &str = include_str!("../../../../../docs/guides/managed-control-planes.md");

    fn refusal(error: &str) -> String {
        let call = "Post \"https://pillion.pillion-system.svc:443/mutate?timeout=10s\"";
        format!(
            "Internal error occurred: failed calling webhook \"pods.pillion.dev\": failed to call webhook: {call}: {error}"
        )
    }

    #[rstest]
    #[case::eks("Address is not allowed", Cause::AddressNotAllowed)]
    #[case::gke("context deadline exceeded", Cause::Timeout)]
    #[case::headers("context deadline exceeded (Client.Timeout exceeded while awaiting headers)", Cause::Timeout)]
    #[case::connecting(
        "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)",
        Cause::Timeout
    )]
    #[case::handshake("net/http: TLS handshake timeout", Cause::Timeout)]
    #[case::dialing("dial tcp 10.4.0.9:8443: i/o timeout", Cause::Timeout)]
    #[case::refused("dial tcp 10.4.0.9:8443: connect: connection refused", Cause::Refused)]
    #[case::no_endpoints("no endpoints available for service \"pillion\"", Cause::NoEndpoints)]
    #[case::no_service("service \"pillion\" not found", Cause::NoService)]
    #[case::no_authority(
        "tls: failed to verify certificate: x509: certificate signed by unknown authority",
        Cause::Untrusted
    )]
    #[case::another_authority(
        "x509: certificate signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" while \
         trying to verify candidate authority certificate \"pillion\")",
        Cause::Untrusted
    )]
    #[case::another_name("x509: certificate is valid for localhost, not pillion.pillion-system.svc", Cause::OtherName)]
    #[case::no_name(
        "x509: certificate is not valid for any names, but wanted to match pillion.pillion-system.svc",
        Cause::OtherName
    )]
    #[case::expired(
        "x509: certificate has expired or is not yet valid: current time 2026-01-02T03:04:05Z is after 2026-01-01T00:00:00Z",
        Cause::Expired
    )]
    #[case::no_route("dial tcp 10.4.0.9:8443: connect: no route to host", Cause::NoRoute)]
    #[case::plain_http("http: server gave HTTP response to HTTPS client", Cause::NoTls)]
    #[case::no_tls("tls: first record does not look like a TLS handshake", Cause::NoTls)]
    #[case::dns("dial tcp: lookup pillion.pillion-system.svc on 10.96.0.10:53: no such host", Cause::NoName)]
    #[case::rke2(
        "proxy error from 127.0.0.1:9345 while dialing 10.42.1.5:8443, code 502: 502 Bad Gateway",
        Cause::Tunnel
    )]
    #[case::konnectivity("No agent available", Cause::Tunnel)]
    #[case::mesh("EOF", Cause::Closed)]
    #[case::reset("read tcp 10.0.0.1:40000->10.4.0.9:8443: read: connection reset by peer", Cause::Closed)]
    #[case::something_else("a new text", Cause::Unknown)]
    fn the_cause_of_a_failed_call_is_known_by_its_text(#[case] error: &str, #[case] cause: Cause) {
        let refusal = refusal(error);
        assert_eq!(FailedCall::of_refusal(&refusal).map(FailedCall::cause), Some(cause));
    }

    /// The texts of answers have no URL.
    #[rstest]
    #[case::not_found("the server could not find the requested resource", Cause::NotFound)]
    #[case::error("an error on the server (\"\") has prevented the request from succeeding", Cause::ServerError)]
    #[case::unavailable("the server is currently unable to handle the request", Cause::ServerError)]
    fn an_answer_without_a_review_is_known_by_its_status(#[case] error: &str, #[case] cause: Cause) {
        let refusal = format!(
            "Internal error occurred: failed calling webhook \"pods.pillion.dev\": failed to call webhook: {error}"
        );
        assert_eq!(FailedCall::of_refusal(&refusal).map(FailedCall::cause), Some(cause));
    }

    #[test]
    fn each_reason_names_a_remedy_and_a_part_of_the_page() {
        let causes = SIGNS.iter().map(|(_, cause)| *cause).chain([Cause::NoService, Cause::Unknown]);
        for cause in causes {
            let heading = format!("## {}", cause.part().replace('-', " "));
            assert!(PAGE_TEXT.to_lowercase().lines().any(|line| line == heading), "{heading}");
        }
        let told: String = SIGNS
            .iter()
            .map(|(sign, _)| FailedCall::of_refusal(&refusal(sign)).map(|call| call.reason(None)).unwrap() + "\n")
            .collect();
        insta::assert_snapshot!(told);
    }

    #[test]
    fn the_port_in_use_is_named() {
        let refusal = refusal("context deadline exceeded");
        let call = FailedCall::of_refusal(&refusal).unwrap();
        for (port, expected) in [(Some(10250), "TCP port 10250 "), (None, "TCP port 8443 ")] {
            assert!(call.reason(port).contains(expected), "{}", call.reason(port));
        }
    }

    #[rstest]
    #[case::another(
        "sidecar-injector.istio.io",
        "the webhook sidecar-injector.istio.io is not Pillion's: ask its operator"
    )]
    #[case::kubewarden("clusterwide-pillion-pods.kubewarden.admission", "no answer came in time (webhook clusterwide-")]
    fn webhooks_of_others_are_told_apart(#[case] webhook: &str, #[case] expected: &str) {
        let refusal = refusal("context deadline exceeded").replace("pods.pillion.dev", webhook);
        let reason = FailedCall::of_refusal(&refusal).unwrap().reason(None);
        assert!(reason.starts_with(expected), "{reason}");
        assert_eq!(reason.contains("Kubewarden"), webhook.contains("kubewarden"), "{reason}");
    }

    #[rstest]
    #[case("admission webhook \"pods.pillion.dev\" denied the request: no")]
    #[case("error looking up service account shop/default: serviceaccount \"default\" not found")]
    fn other_refusals_are_no_failed_calls(#[case] message: &str) {
        assert_eq!(FailedCall::of_refusal(message), None);
    }
}
