//! The recipes for clouds, Vault and meshes (docs/guides/cloud-identities.md), on a real API server: the Pod of each
//! example is injected, its tokens are requested as a kubelet or the controller would, and the service on the other side
//! accepts them by what the example's own files say about it.

use std::fs;
use std::path::PathBuf;

use k8s_openapi::api::authentication::v1::{TokenRequestSpec, TokenReview};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use pillion_identity::names::{self, MOUNT_PATH};
use pillion_testenv::{Cluster, Options, apply};
use pillion_testkit::module::workspace;
use serde_json::{Value, json};

use crate::support::accounts::bound_to;
use crate::support::kubelet::{now, token_directory};
use crate::support::verifier::{Bearer, Refused, Verifier};
use crate::support::{Installation, create};

/// The issuer in the files of the recipes. A user puts the issuer of the cluster in its place, and so does the test.
const ISSUER: &str = "oidc.example.com/shop-cluster";
const NAMESPACE: &str = "shop";

/// An example, with the issuer of a cluster in its files.
struct Recipe {
    folder: PathBuf,
    issuer: String,
}

impl Recipe {
    fn text(&self, file: &str) -> String {
        let text = fs::read_to_string(self.folder.join(file)).unwrap();
        text.replace(ISSUER, self.issuer.strip_prefix("https://").unwrap())
    }

    fn json(&self, file: &str) -> Value {
        serde_json::from_str(&self.text(file)).unwrap()
    }

    fn yaml(&self, file: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(&self.text(file)).unwrap()
    }

    /// Returns the one object of this kind.
    fn object(&self, file: &str, kind: &str) -> Value {
        self.yaml(file).into_iter().find(|object| object["kind"] == kind).unwrap()
    }

    /// Returns the value of an option of the commands in a script.
    fn option(&self, script: &str, option: &str) -> String {
        let text = self.text(script);
        let (_, rest) = text.split_once(&format!("--{option}")).unwrap_or_else(|| panic!("no --{option}"));
        let value = rest.trim_start_matches(['=', ' ']);
        value.split_whitespace().next().unwrap().trim_matches('"').to_owned()
    }

    fn set(&self) -> Value {
        self.object("sidecarset.yaml", "SidecarSet")
    }

    /// Returns the settings, with the SidecarSet.
    fn settings(&self) -> Value {
        let [mut settings] = <[Value; 1]>::try_from(self.yaml("settings.yaml")).unwrap();
        settings["sidecarSets"] = json!([self.set()]);
        settings
    }

    /// Returns a Pod as the workload's controller would create it.
    fn pod(&self) -> Value {
        let mut pod = self.object("app.yaml", "Deployment")["spec"]["template"].take();
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = "web".into();
        pod
    }
}

/// What the test found in the Pod of a recipe.
struct Found {
    recipe: Recipe,
    cluster: Cluster,
    pod: Value,
    token: String,
    bearer: Bearer,
}

impl Found {
    /// Returns the value of a variable of the sidecars.
    fn variable(&self, name: &str) -> String {
        let mut all = containers(&self.pod).flat_map(|container| container["env"].as_array().into_iter().flatten());
        let variable = all.find(|variable| variable["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        variable["value"].as_str().unwrap().to_owned()
    }

    /// Returns what a server like Vault's or istiod learns about a token from the API server.
    async fn review(&self, token: &str, audiences: &[&str]) -> Value {
        let reviews: Api<TokenReview> = Api::all(self.cluster.admin().await.unwrap());
        let review: TokenReview =
            serde_json::from_value(json!({"spec": {"token": token, "audiences": audiences}})).unwrap();
        let review = reviews.create(&PostParams::default(), &review).await.unwrap();
        serde_json::to_value(review.status).unwrap()
    }

    /// Returns a token with the same audience that another account of the namespace got.
    async fn of_another_account(&self) -> String {
        let wanted = TokenRequestSpec { audiences: Some(self.bearer.audiences.clone()), ..TokenRequestSpec::default() };
        self.cluster.token(NAMESPACE, "default", &wanted).await.unwrap()
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"].into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
}

/// Does the controller's work for a set in mode `Isolate`: the tokens of its account, bound to their Secret (AUD-7).
async fn fill_secret(cluster: &Cluster, set: &Value) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let account = text(&set["spec"]["serviceAccountName"]);
    let name = names::token_secret(&names::credential(&account, Some(&text(&set["metadata"]["name"]))));
    let secrets: Api<Secret> = Api::namespaced(cluster.admin().await.unwrap(), NAMESPACE);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
    let secret = create(&secrets, &secret).await.unwrap();
    let mut files = json!({"token": cluster.token(NAMESPACE, &account, &bound_to("Secret", &secret)).await.unwrap()});
    for token in set["spec"]["serviceAccountTokens"].as_array().unwrap() {
        let wanted = TokenRequestSpec {
            audiences: Some(vec![text(&token["audience"])]),
            expiration_seconds: Some(token["expirationSeconds"].as_i64().unwrap_or(3600)),
            ..bound_to("Secret", &secret)
        };
        files[text(&token["path"])] = cluster.token(NAMESPACE, &account, &wanted).await.unwrap().into();
    }
    let patch = Patch::Merge(json!({"stringData": files}));
    secrets.patch(&name, &PatchParams::default(), &patch).await.unwrap();
}

/// Creates the Pod of an example, and checks what holds for every recipe: the sidecars have the token for the service,
/// the app has not, and the service accepts it by the issuer's published keys.
async fn found(example: &str) -> Found {
    let cluster = Cluster::start(Options::new()).await.unwrap();
    let verifier = Verifier::new(&cluster, "").await;
    let folder = workspace().join("examples").join(example);
    let recipe = Recipe { folder, issuer: verifier.issuer().to_owned() };
    let client = cluster.admin().await.unwrap();
    let default = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, namespace: shop}\n";
    apply(&client, &format!("{}---\n{default}", recipe.text("app.yaml")), "test").await.unwrap();
    let installation = Installation::start(&cluster, &recipe.settings(), &[], &["--cache-max-staleness=0s"]).await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = create(&pods, &recipe.pod()).await.unwrap();
    drop(installation);

    let set = recipe.set();
    if set["spec"]["serviceAccountMode"] == "Isolate" {
        fill_secret(&cluster, &set).await;
    }
    let [wanted] = set["spec"]["serviceAccountTokens"].as_array().unwrap().as_slice() else { panic!("{set}") };
    let (audience, file) = (wanted["audience"].as_str().unwrap(), wanted["path"].as_str().unwrap());
    let own: Vec<&str> = containers(&set).map(|container| container["name"].as_str().unwrap()).collect();
    let mut token = String::new();
    for container in containers(&pod).map(|container| container["name"].as_str().unwrap()) {
        let files = token_directory(&cluster, &pod, container).await.unwrap_or_default();
        assert_eq!(files.contains_key(file), own.contains(&container), "{container}: {:?}", files.keys());
        if let Some(found) = files.get(file) {
            token.clone_from(found);
        }
    }
    let service = verifier.called(audience);
    let bearer = service.verify(&token, now()).unwrap();
    assert_eq!(
        bearer.subject,
        format!("system:serviceaccount:{NAMESPACE}:{}", set["spec"]["serviceAccountName"].as_str().unwrap())
    );
    assert_eq!(bearer.audiences, [audience], "the token is for this service alone");
    assert_eq!(bearer.kubernetes["namespace"], NAMESPACE);
    let seconds = wanted["expirationSeconds"].as_i64().unwrap_or(3600);
    assert_eq!(bearer.expires - bearer.issued, seconds);
    assert_eq!(
        service.verify(&token, bearer.expires),
        Err(Refused::Time { from: bearer.issued, until: bearer.expires })
    );
    let other = verifier.called("https://other.example.com");
    assert_eq!(other.verify(&token, now()), Err(Refused::Audience(vec![audience.to_owned()])));
    Found { recipe, cluster, pod, token, bearer }
}

/// Returns the path of the recipe's token in its containers.
fn path(found: &Found) -> String {
    format!("{MOUNT_PATH}/{}", found.recipe.set()["spec"]["serviceAccountTokens"][0]["path"].as_str().unwrap())
}

/// Whether the trust policy of an AWS role allows the bearer, as `sts:AssumeRoleWithWebIdentity` compares.
fn aws_allows(policy: &Value, issuer: &str, bearer: &Bearer) -> bool {
    let [statement] = policy["Statement"].as_array().unwrap().as_slice() else { panic!("{policy}") };
    let provider = issuer.strip_prefix("https://").unwrap();
    let conditions = &statement["Condition"]["StringEquals"];
    let value = |key: &str| conditions[format!("{provider}:{key}")].as_str().unwrap();
    assert_eq!(conditions.as_object().unwrap().len(), 2, "{conditions}");
    statement["Effect"] == "Allow"
        && statement["Action"] == "sts:AssumeRoleWithWebIdentity"
        && statement["Principal"]["Federated"].as_str().unwrap().ends_with(&format!(":oidc-provider/{provider}"))
        && bearer.audiences == [value("aud")]
        && bearer.subject == value("sub")
}

#[tokio::test]
async fn aud1_aws_accepts_the_sidecar() {
    let found = found("cloud-aws").await;
    let (recipe, script) = (&found.recipe, "aws/setup.sh");
    let policy = recipe.json("aws/trust-policy.json");

    assert!(aws_allows(&policy, &recipe.issuer, &found.bearer), "{policy:#}");

    let other = Verifier::new(&found.cluster, &found.bearer.audiences[0]).await;
    let other = other.verify(&found.of_another_account().await, now()).unwrap();
    assert!(!aws_allows(&policy, &recipe.issuer, &other), "another account of the namespace has no role");
    assert_eq!(recipe.option(script, "url"), recipe.issuer);
    assert_eq!(vec![recipe.option(script, "client-id-list")], found.bearer.audiences);
    assert_eq!(found.variable("AWS_WEB_IDENTITY_TOKEN_FILE"), path(&found));
    let role = recipe.option(script, "role-name");
    assert!(found.variable("AWS_ROLE_ARN").ends_with(&format!(":role/{role}")), "{role}");
    assert!(!found.variable("AWS_REGION").is_empty());
}

#[tokio::test]
async fn aud1_google_accepts_the_sidecar() {
    let found = found("cloud-google").await;
    let (recipe, script) = (&found.recipe, "google/setup.sh");
    let map = recipe.object("app.yaml", "ConfigMap");
    let credentials: Value = serde_json::from_str(map["data"]["credentials.json"].as_str().unwrap()).unwrap();

    // The client library sends the audience and the content of the file to the token URL.
    assert_eq!(credentials["type"], "external_account");
    assert_eq!(credentials["subject_token_type"], "urn:ietf:params:oauth:token-type:jwt");
    assert_eq!(credentials["credential_source"]["file"], path(&found));
    assert_eq!(found.variable("GOOGLE_APPLICATION_CREDENTIALS"), "/etc/google/credentials.json");
    // The provider accepts its own name as the audience.
    let member = recipe.option(script, "member");
    let (pool, subject) = member.strip_prefix("principal:").unwrap().split_once("/subject/").unwrap();
    let provider = recipe.text(script);
    let provider = provider.split_once("create-oidc ").unwrap().1.split_whitespace().next().unwrap();
    let name = format!("{pool}/providers/{provider}");
    assert_eq!((&credentials["audience"], &found.bearer.audiences[0]), (&json!(name), &name));
    assert!(pool.ends_with(&format!("/workloadIdentityPools/{}", recipe.option(script, "workload-identity-pool"))));
    assert_eq!(recipe.option(script, "issuer-uri"), recipe.issuer);
    // It maps `sub`, and compares the namespace.
    assert_eq!(recipe.option(script, "attribute-mapping"), "google.subject=assertion.sub");
    assert_eq!(subject, found.bearer.subject);
    let condition = format!("assertion['kubernetes.io']['namespace'] in ['{NAMESPACE}']");
    assert!(recipe.text(script).contains(&condition));
    assert_eq!(found.bearer.kubernetes["namespace"], NAMESPACE);
}

#[tokio::test]
async fn aud1_azure_accepts_the_sidecar() {
    let found = found("cloud-azure").await;
    let (recipe, script) = (&found.recipe, "azure/setup.sh");
    let credential = recipe.json("azure/federated-credential.json");

    assert_eq!(credential["issuer"], recipe.issuer.as_str());
    assert_eq!(credential["subject"], found.bearer.subject.as_str());
    assert_eq!(credential["audiences"], json!(found.bearer.audiences));

    for (option, claim) in [("issuer", "issuer"), ("subject", "subject")] {
        assert_eq!(recipe.option(script, &format!("{option} ")), credential[claim].as_str().unwrap());
    }
    assert_eq!(credential["audiences"], json!([recipe.option(script, "audiences")]));
    assert_eq!(found.variable("AZURE_FEDERATED_TOKEN_FILE"), path(&found));
    assert_eq!(found.variable("AZURE_AUTHORITY_HOST"), "https://login.microsoftonline.com/");
    assert_eq!(found.variable("AZURE_CLIENT_ID").len() + found.variable("AZURE_TENANT_ID").len(), 72);
    // TOK-3: the app is as it was.
    let app = |pod: &Value| containers(pod).find(|container| container["name"] == "web").unwrap()["image"].clone();
    assert_eq!((app(&found.pod), &found.pod["spec"]["serviceAccountName"]), (app(&recipe.pod()), &json!("web")));
}

/// Returns the value of a key in the configuration of the Vault agent.
fn agent(recipe: &Recipe, key: &str) -> String {
    let map = recipe.yaml("app.yaml").into_iter().find(|object| object["metadata"]["name"] == "vault-agent").unwrap();
    let text = map["data"]["agent.hcl"].as_str().unwrap();
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(" = "));
    let (_, value) = lines.find(|(name, _)| *name == key).unwrap_or_else(|| panic!("no {key}"));
    value.trim_matches('"').to_owned()
}

#[tokio::test]
async fn aud1_vault_accepts_the_sidecar_by_its_keys() {
    let found = found("vault-jwt").await;
    let recipe = &found.recipe;
    let (config, role) = (recipe.json("vault/config.json"), recipe.json("vault/role.json"));
    let allows = |bearer: &Bearer| {
        let audiences = role["bound_audiences"].as_array().unwrap();
        role["role_type"] == "jwt"
            && bearer.audiences.iter().any(|audience| audiences.contains(&json!(audience)))
            && role["bound_subject"] == bearer.subject.as_str()
    };

    assert_eq!(config["bound_issuer"], recipe.issuer.as_str());
    assert_eq!(config["oidc_discovery_url"], recipe.issuer.as_str());
    assert_eq!(role["user_claim"], "sub");
    assert!(allows(&found.bearer), "{role}");

    let other = Verifier::new(&found.cluster, "vault").await;
    assert!(!allows(&other.verify(&found.of_another_account().await, now()).unwrap()), "{role}");
    assert_eq!((agent(recipe, "path"), agent(recipe, "role")), (path(&found), "log-agent".to_owned()));
    assert_eq!(agent(recipe, "remove_jwt_after_reading"), "false");
    assert!(recipe.text("vault/setup.sh").contains("auth/jwt/role/log-agent @role.json"));
}

#[tokio::test]
async fn aud1_vault_accepts_the_sidecar_by_a_review() {
    let found = found("vault-kubernetes").await;
    let recipe = &found.recipe;
    let role = recipe.json("vault/role.json");
    let audience = role["audience"].as_str().unwrap();

    let review = found.review(&found.token, &[audience]).await;

    assert_eq!(review["authenticated"], true, "{review}");
    let only = |key: &str| match role[key].as_array().unwrap().as_slice() {
        [one] => one.as_str().unwrap().to_owned(),
        _ => panic!("{role}"),
    };
    let (namespace, account) = (only("bound_service_account_namespaces"), only("bound_service_account_names"));
    assert_eq!(review["user"]["username"], format!("system:serviceaccount:{namespace}:{account}"));
    // The API server itself does not accept the token, so Vault cannot use it to review it.
    let own = found.review(&found.token, &[]).await;
    assert_ne!(own["authenticated"], true, "{own}");
    assert_eq!((agent(recipe, "token_path"), agent(recipe, "role")), (path(&found), "log-agent".to_owned()));
    assert_eq!(
        recipe.object("app.yaml", "ClusterRoleBinding")["roleRef"]["name"],
        "system:auth-delegator",
        "Vault may review tokens"
    );
    assert_eq!(found.bearer.kubernetes["secret"]["name"].as_str().map(str::len), Some(33));
}

#[tokio::test]
async fn aud1_a_mesh_accepts_the_sidecar() {
    let found = found("spiffe-mesh").await;
    let recipe = &found.recipe;
    let review = found.review(&found.token, &["istio-ca"]).await;

    assert_eq!(review["authenticated"], true, "{review}");

    let user = review["user"]["username"].as_str().unwrap().strip_prefix("system:serviceaccount:").unwrap();
    let (namespace, account) = user.split_once(':').unwrap();
    let policy = recipe.object("istio/authorization-policy.yaml", "AuthorizationPolicy");
    let principals = &policy["spec"]["rules"][0]["from"][0]["source"]["principals"];
    assert_eq!(principals, &json!([format!("cluster.local/ns/{namespace}/sa/{account}")]));
    // Other proxies expect the ID of the Pod's ServiceAccount, and a SPIRE server asks for the Pod.
    assert_eq!(found.pod["spec"]["serviceAccountName"], account);
    assert_eq!(review["user"]["extra"]["authentication.kubernetes.io/pod-name"], json!(["web"]));
    let link = containers(&found.pod).find(|container| container["name"] == "mesh-proxy-link").unwrap();
    assert_eq!(link["command"][2], path(&found));
}
