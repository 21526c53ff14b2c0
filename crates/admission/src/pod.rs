//! Admission of a Pod: select, inject, report (docs/spec/matching.md, injection.md).

use pillion_identity::decision::Decision;
use pillion_identity::tokens::{Owners, Settled};
use pillion_inject::Injected;
use pillion_inject::matching::opt_out::OptedOut;
use pillion_inject::matching::precedence::LeftOut;
use pillion_inject::matching::{self, Query, Selection, Sources};
use pillion_inject::order::{self, Order};
use pillion_inject::sources::Hidden;
use pillion_kubernetes::field::{Cause, FieldError, FieldPath};
use pillion_kubernetes::json::{self, Object};
use pillion_kubernetes::lookup::{Lookup, Memo};
use pillion_kubernetes::outcome::{Code, Outcome, Reason, Refusal, Verdict};
use pillion_kubernetes::time::Timestamp;
use pillion_sidecarset::pod::Pod;
use pillion_sidecarset::sidecar_set::SidecarSet;
use pillion_sidecarset::sidecar_set::compiled::CompiledSet;
use serde_json::Value;

use super::audit;
use super::pod_identity::{self, Identities};
use crate::settings::{BorrowedSettings, Role};

/// A request to create a Pod.
#[derive(Clone, Copy, Debug)]
pub struct PodRequest<'a> {
    /// The request's uid.
    pub uid: &'a str,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub object: &'a Value,
}

impl<'a> PodRequest<'a> {
    /// Returns the namespace of `pod`, which is the request's object: that in its metadata, else that of the request,
    /// else `default` (MATCH-3).
    pub fn namespace_of(&self, pod: Pod<'a>) -> &'a str {
        self.or_own(pod.namespace())
    }

    /// Like [`Self::namespace_of`], for a Pod that was not decoded.
    pub fn namespace(&self) -> &'a str {
        self.or_own(json::text(self.object, &["metadata", "namespace"]))
    }

    /// Returns the labels of the Pod, which need not be decoded.
    pub fn labels(&self) -> Option<&'a Object> {
        json::object(self.object, &["metadata", "labels"])
    }

    fn or_own(&self, own: &'a str) -> &'a str {
        let namespace = [own, self.namespace].into_iter().find(|namespace| !namespace.is_empty());
        namespace.unwrap_or("default")
    }
}

/// The inputs of admission besides the request.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The settings. Those of their `SidecarSet`s that count are in `sidecar_sets`.
    pub settings: &'a BorrowedSettings<'a>,
    /// The `SidecarSet`s of the settings and of bundles that may match the Pod.
    pub sidecar_sets: &'a [SidecarSet],
    /// The lookup of objects of the cluster.
    pub lookup: &'a dyn Lookup,
    /// The current time.
    pub now: Timestamp,
}

impl<'a> Context<'a> {
    /// Returns where revisions are found.
    pub fn sources(self) -> Sources<'a> {
        let BorrowedSettings { controller_revisions, system_namespace, native_sidecars, .. } = self.settings;
        Sources {
            revisions: controller_revisions,
            system_namespace,
            lookup: self.lookup,
            native_sidecars: *native_sidecars,
        }
    }
}

/// The most containers, volumes, and entries of containers' lists in a Pod that gets sidecars. Each is compared with
/// those of the sidecars several times (E18).
const PARTS_MAX: usize = 10_000;

/// Injects the `SidecarSet`s that match the Pod, and gives the sidecars their identities. Does not change a Pod that is
/// being deleted (MATCH-2) or a mirror Pod. Ignores the `status` of a new Pod.
///
/// With [`Role::Assert`], changes nothing, but refuses a Pod that differs from the result of injection.
pub fn admit(request: PodRequest<'_>, context: Context<'_>) -> Outcome {
    let PodRequest { uid, namespace, object } = request;
    admit_in_place(PodCreation { uid, namespace, object: &mut object.clone() }, context)
}

/// A request to create a Pod that is changed in place.
pub(crate) struct PodCreation<'a> {
    /// The request's uid.
    pub uid: &'a str,
    /// The request's namespace.
    pub namespace: &'a str,
    /// The Pod.
    pub object: &'a mut Value,
}

/// Like [`admit`], but without a copy: injects the Pod in place and moves it into the answer.
pub(crate) fn admit_in_place(creation: PodCreation<'_>, context: Context<'_>) -> Outcome {
    match admitted(creation, context) {
        Ok(outcome) => outcome,
        Err(reasons) => match Refusal::from_reasons(reasons) {
            Some(refusal) => refusal.into(),
            // Every failure has a reason. If one had none, refuse all the same.
            None => {
                Refusal::from(undecodable(FieldError::new(FieldPath::default(), Cause::Invalid, "cannot be judged")))
                    .into()
            }
        },
    }
}

fn admitted(creation: PodCreation<'_>, context: Context<'_>) -> Result<Outcome, Vec<Reason>> {
    let PodCreation { uid, namespace, object } = creation;
    let memo = Memo::new(context.lookup);
    let context = Context { lookup: &memo, ..context };
    let Context { settings, sidecar_sets, lookup, now } = context;
    let request = PodRequest { uid, namespace, object };
    let pod = Pod::decode(request.object).map_err(|errors| errors.into_iter().map(undecodable).collect::<Vec<_>>())?;
    if pod_identity::is_mirror(request.object) {
        return Ok(Verdict::Unchanged.into());
    }
    let gate = settings.gates.service_account_injection;
    if !pod.is_injectable() {
        return unless(pod_identity::without(request.object), Verdict::Unchanged.into());
    }
    let query = Query { pod, namespace: request.namespace_of(pod), uid: request.uid };
    // Accounts belong to the request's namespace, in which the Pod will be, whatever the object says (SAP-6).
    let accounts_in = if namespace.is_empty() { query.namespace.to_owned() } else { namespace.to_owned() };
    let compiled: Vec<CompiledSet<'_>> = sidecar_sets.iter().map(CompiledSet::new).collect();
    let rules = &settings.service_accounts;
    let Selection { sets, left_out, opted_out, overrides, mut reasons } =
        matching::select(&compiled, query, context.sources());
    let identities = Identities::collect(&sets, gate).and_then(|of| of.fit(&sets, &rules.trusted_csi_drivers));
    let mut identities = identities.unwrap_or_else(|more| {
        reasons.extend(more);
        Identities::default()
    });
    reasons.extend(identities.read_token_containers(request.object, &accounts_in, rules, lookup).err());
    if !sets.is_empty() && pod.parts() > PARTS_MAX {
        reasons.push(too_many_parts());
        return Err(reasons);
    }
    let mut order = Order::default();
    if settings.role == Role::Assert {
        if gate && !identities.asking.is_empty() {
            order = order::check(pod, &sets);
        }
        let is_judged = gate || identities.token_containers.is_some();
        if is_judged && reasons.is_empty() {
            reasons = pod_identity::assert(&identities, &sets, request.object, &accounts_in, rules, lookup);
            reasons.append(&mut order.reasons);
        } else if !is_judged {
            reasons.extend(pod_identity::without(request.object));
        }
        // A Pod without any of the sidecars has not passed the mutating policy, which might refuse it. Go on to find
        // out.
        if !gate || !reasons.is_empty() || pod_identity::has_sidecars(request.object, &sets) {
            let outcome = Outcome { warnings: order.warnings, ..Verdict::Unchanged.into() };
            return unless(reasons, outcome);
        }
    }
    // The mutating policy has already told about the Pod.
    let (opted_out, overrides) =
        if settings.role == Role::Assert { Default::default() } else { (opted_out, overrides) };
    let left_out = left_out.iter().map(LeftOut::to_string).chain(opted_out.iter().map(OptedOut::to_string));
    let left_out = left_out.chain(overrides.warnings());
    if sets.is_empty() && identities.leave_tokens_alone() {
        reasons.extend(pod_identity::without(request.object));
        let told = if settings.role == Role::Assert { Vec::new() } else { identities.warnings };
        let (warnings, audit) = (left_out.chain(told).collect(), audit::opted_out(&opted_out));
        return unless(reasons, Outcome { warnings, audit, ..Verdict::Unchanged.into() });
    }
    let how = pillion_inject::Context {
        now,
        sort_by_name: settings.gates.sort_sidecar_containers_by_name,
        hides_tokens: (!identities.leave_tokens_alone())
            .then_some(Hidden { asking: &identities.asking, trusted: &rules.trusted_csi_drivers }),
        other_webhooks: Some(&settings.other_webhooks),
    };
    let changes = pillion_inject::plan(pod, &sets, how);
    // Usually it is certain that the Pod changes, and no copy is needed to compare.
    let is_certain = changes.as_ref().is_ok_and(|changes| changes.is_certain(pod));
    let before = (!is_certain).then(|| object.clone());
    let mut injected = match changes {
        Ok(changes) => changes.apply(object),
        Err(more) => {
            reasons.extend(more);
            Injected::default()
        }
    };
    let mut audit = audit::injected(&injected.sidecars);
    audit.extend(audit::opted_out(&opted_out));
    audit.extend(audit::overridden(&overrides));
    injected.warnings.extend(left_out);
    injected.warnings.extend(identities.warnings.iter().cloned());
    if identities.leave_tokens_alone() {
        reasons.extend(pod_identity::without(object));
    } else {
        match give_tokens(object, &identities, (&sets, &injected.sidecars), &accounts_in, context) {
            Ok((decision, warnings)) => {
                audit::identities(&decision, &mut audit);
                injected.warnings.extend(warnings);
            }
            Err(more) => reasons.extend(more),
        }
    }
    if settings.role == Role::Assert {
        return unless(reasons, Verdict::Unchanged.into());
    }
    let verdict = if before.is_some_and(|before| before == *object) {
        Verdict::Unchanged
    } else {
        Verdict::Mutated(object.take())
    };
    unless(reasons, Outcome { verdict, warnings: injected.warnings, audit })
}

/// Gives the containers of a Pod their tokens, after the injection of these sets with their containers. `namespace` is that
/// of the accounts. Returns the decision, and warnings for the user.
///
/// # Errors
/// The reasons to refuse the Pod. `object` may be null then.
fn give_tokens(
    object: &mut Value,
    identities: &Identities,
    (sets, owners): (&[SidecarSet], &Owners),
    namespace: &str,
    context: Context<'_>,
) -> Result<(Decision, Vec<String>), Vec<Reason>> {
    let rules = &context.settings.service_accounts;
    let (decision, Settled { pod, mut warnings }) =
        identities.settle(object.take(), owners, namespace, rules, context.lookup)?;
    let mut reasons = pod_identity::shared_volumes(identities, sets, &decision);
    warnings.extend(identities.token_container_warnings(&pod, &decision));
    match pod_identity::judge_exposure(&pod, &identities.exposure(sets, &decision, owners), sets, rules) {
        Ok(more) => warnings.extend(more),
        Err(more) => reasons.extend(more),
    }
    *object = pod;
    pod_identity::skip(object, &decision, owners, &rules.skip_containers);
    if reasons.is_empty() { Ok((decision, warnings)) } else { Err(reasons) }
}

fn unless(reasons: Vec<Reason>, outcome: Outcome) -> Result<Outcome, Vec<Reason>> {
    if reasons.is_empty() { Ok(outcome) } else { Err(reasons) }
}

fn too_many_parts() -> Reason {
    let problem =
        format!("has more than {PARTS_MAX} containers, volumes, mounts, devices, ports and variables of containers");
    Reason::forbidden("spec", problem, "use fewer, or change the Pod's labels so that no SidecarSet matches it")
}

fn undecodable(error: FieldError) -> Reason {
    let field = if error.path.is_empty() { "object".to_owned() } else { error.path };
    Reason::new(Code::Undecodable, field, error.detail, "")
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::settings::Settings;
    use pillion_kubernetes::lookup::Failure;
    use pillion_samples::lookups::FakeObjects;
    use pillion_sidecarset::gates::Gates;

    /// Returns the refusal of a Pod with an `app` container and an annotation `k`, in a cluster that does not answer.
    fn refused(sets: &[Value]) -> Refusal {
        let sets: Vec<SidecarSet> = sets.iter().cloned().map(SidecarSet::from_decoded).collect();
        let pod = json!({
            "metadata": {"name": "p", "labels": {"app": "x"}, "annotations": {"k": "no document"}},
            "spec": {"containers": [{"name": "app"}]}
        });
        let settings = Settings::default();
        let context = Context {
            settings: &settings,
            sidecar_sets: &sets,
            lookup: &FakeObjects::answering(Err(Failure::Timeout)),
            now: Timestamp(0),
        };
        let outcome = admit(PodRequest { uid: "u", namespace: "n", object: &pod }, context);
        let Verdict::Refused(refusal) = outcome.verdict else { panic!("{outcome:?}") };
        refusal
    }

    fn set(name: &str, edit: impl FnOnce(&mut Value)) -> Value {
        let mut set = json!({
            "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "containers": [{"name": name, "image": "i:1"}]
            }
        });
        edit(&mut set);
        set
    }

    /// Returns the outcome for a Pod with these parts, which the SidecarSet `s` matches.
    fn admitted_with(parts: &Value, role: Role) -> Outcome {
        let mut pod = json!({
            "metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"containers": [{"name": "app"}]}
        });
        for (part, value) in parts.as_object().unwrap() {
            pod[part] = value.clone();
        }
        let sets = [SidecarSet::from_decoded(set("s", |_| {}))];
        let gates = Gates { service_account_injection: true, ..Gates::default() };
        let settings = Settings { gates, role, ..Settings::default() };
        let context = Context {
            settings: &settings,
            sidecar_sets: &sets,
            lookup: &FakeObjects::answering(Err(Failure::Timeout)),
            now: Timestamp(0),
        };
        admit(PodRequest { uid: "u", namespace: "n", object: &pod }, context)
    }

    #[rstest]
    #[case::succeeded(json!({"status": {"phase": "Succeeded"}}))]
    #[case::failed(json!({"status": {"phase": "Failed", "reason": "Evicted"}}))]
    #[case::with_conditions(json!({"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False"}]}}))]
    fn match2_a_manifest_that_says_it_has_finished_keeps_no_sidecar_out(#[case] parts: Value) {
        let Verdict::Mutated(pod) = admitted_with(&parts, Role::Inject).verdict else { panic!("not injected") };
        let names: Vec<_> = json::items(&pod, &["spec", "containers"]).iter().map(|it| it["name"].clone()).collect();
        assert_eq!(names, ["s", "app"]);
        assert_eq!(pod["status"], parts["status"]);
    }

    #[test]
    fn match2_the_twin_judges_a_manifest_that_says_it_has_finished() {
        let theft = |status: Value| {
            json!({
                "status": status,
                "spec": {
                    "containers": [{"name": "app", "volumeMounts": [{"name": "t", "mountPath": "/t"}]}],
                    "volumes": [{"name": "t", "secret": {"secretName": "sidecarset-token-0123456789abcdef"}}],
                },
            })
        };
        for status in [json!({}), json!({"phase": "Succeeded"})] {
            let verdict = admitted_with(&theft(status), Role::Assert).verdict;
            assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        }
    }

    #[test]
    fn match2_a_pod_that_is_being_deleted_stays_as_it_is() {
        let going = json!({"metadata": {
            "name": "p", "labels": {"app": "x"}, "finalizers": ["x/y"], "deletionTimestamp": "2026-01-01T00:00:00Z"
        }});
        assert_eq!(admitted_with(&going, Role::Inject).verdict, Verdict::Unchanged);
    }

    #[rstest]
    #[case::as_many_as_allowed(PARTS_MAX - 1, true)]
    #[case::one_more(PARTS_MAX, false)]
    fn e18_a_pod_of_too_many_parts_gets_no_sidecars(#[case] volumes: usize, #[case] expected: bool) {
        let volumes: Vec<Value> = (0..volumes).map(|index| json!({"name": format!("v{index}")})).collect();
        let parts = json!({"spec": {"containers": [{"name": "app"}], "volumes": volumes}});
        let verdict = admitted_with(&parts, Role::Inject).verdict;
        assert_eq!(matches!(verdict, Verdict::Mutated(_)), expected);
        if let Verdict::Refused(refusal) = verdict {
            let shown: Vec<String> = refusal.reasons().map(ToString::to_string).collect();
            assert_eq!(
                shown,
                ["spec: has more than 10000 containers, volumes, mounts, devices, ports and variables of containers; \
                 use fewer, or change the Pod's labels so that no SidecarSet matches it"]
            );
        }
    }

    #[test]
    fn refusals_name_every_set_whatever_step_it_fails_at() {
        let namespace = set("a", |set| set["spec"]["namespaceSelector"] = json!({"matchLabels": {"x": "y"}}));
        let revision = set("b", |set| {
            set["spec"]["injectionStrategy"] = json!({"revision": {"customVersion": "v"}});
        });
        let merge = set("c", |set| {
            let patch = json!([{"patchPolicy": "MergePatchJson", "annotations": {"k": "{}"}}]);
            set["spec"]["patchPodMetadata"] = patch;
        });
        let name = set("d", |set| set["spec"]["containers"][0]["name"] = json!("app"));
        let refusal = refused(&[name, merge, revision, namespace]);
        let sets: Vec<_> = refusal.reasons().filter_map(|reason| reason.sidecar_set.as_deref()).collect();
        assert_eq!(sets, ["a", "b", "c", "d"]);
        assert_eq!(refusal.code(), Code::Forbidden);
    }

    #[test]
    fn a_base_is_not_blamed_while_its_canary_is_in_doubt() {
        let canary = set("a", |set| {
            set["metadata"]["annotations"] =
                json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "b"});
            set["spec"]["namespaceSelector"] = json!({"matchLabels": {"x": "y"}});
        });
        let base = set("b", |set| set["spec"]["containers"][0]["name"] = json!("app"));
        assert_eq!(refused(&[canary, base]).code(), Code::Unavailable);
    }
}
