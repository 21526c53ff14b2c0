//! Simulates a namespace over days, with an API server that stores what is written and a clock that may differ from the
//! controller's.

use proptest::prelude::*;
use serde_json::json;

use super::tests::merge;
use super::*;

const START: i64 = 1_800_000_000;

/// An API server with one Secret, and a record of its writes.
struct Server {
    secret: Value,
    /// The longest lifetime that the server grants, in seconds.
    longest: i64,
    /// When the token in the Secret expires, by the server's clock.
    valid_until: i64,
    writes: u32,
}

impl Server {
    fn new(uid: u32, longest: i64) -> Self {
        let mut secret = seed("team", &Credential::shared("logs"));
        secret["metadata"]["uid"] = json!(uid.to_string());
        Self { secret, longest, valid_until: 0, writes: 0 }
    }

    fn mint(&mut self, seen: &Secret, lifetime: u32, now: i64, clock: i64) {
        let asked = request(seen, "account-1", lifetime.into(), None);
        let life = asked["spec"]["expirationSeconds"].as_i64().unwrap().min(self.longest);
        let minted = Minted { data: format!("token{now}"), expires: Timestamp(now + life), lifetime: life };
        let tokens = Tokens { api_server: minted, audiences: Vec::new() };
        let Step::Patch { patch, .. } = fill(seen, "account-1", &tokens, Timestamp(clock)) else { panic!("no patch") };
        merge(&mut self.secret, &patch);
        self.valid_until = now + life;
        self.writes += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any requested and granted lifetime, with small clock differences, and with plans carried out late (by up to
    /// a tenth of the lifetime): the Secret always has a valid token, and each rotation is one write.
    #[test]
    fn tok7_rotation_never_leaves_the_secret_without_a_valid_token(
        uid: u32,
        lifetime in 600_u32..400_000,
        longest in 600_i64..400_000,
        skew in -20_i64..20,
        late in prop::collection::vec(0_i64..60, 20),
        restarts in prop::collection::vec(any::<bool>(), 20),
    ) {
        let mut server = Server::new(uid, longest);
        let credentials = BTreeMap::from([(Credential::shared("logs"), Vec::new())]);
        let needs = Needs { credentials, ..Needs::default() };
        let accounts =
            BTreeMap::from([("logs".to_owned(), Account { uid: "account-1".to_owned(), is_terminating: false })]);
        let mut now = START;
        for (rotation, (late, restarts)) in (1..).zip(late.into_iter().zip(restarts)) {
            let look = |server: &Server, clock: i64| {
                let secret = Secret::from_object(&server.secret).unwrap();
                let secrets = BTreeMap::from([(secret.name.clone(), secret)]);
                let seen = SidecarTokenInput { namespace: "team", needs: &needs, accounts: &accounts, secrets: &secrets };
                plan(&seen, &Rules::default(), Timestamp(clock))
            };
            let found = look(&server, now + skew);
            let [(_, Move::Mint { secret, .. })] = found.moves.as_slice() else {
                return Err(TestCaseError::fail(format!("{found:?}")));
            };
            server.mint(secret, lifetime, now, now + skew);
            prop_assert_eq!(server.writes, rotation);
            // There is nothing more to write, neither now nor after a restart halfway.
            let settled = look(&server, now + skew);
            prop_assert_eq!(&settled.moves, &vec![]);
            let next = settled.next.unwrap().0 - skew;
            if restarts {
                prop_assert_eq!(&look(&server, i64::midpoint(now, next) + skew).moves, &vec![]);
            }
            now = next + late;
            prop_assert!(now < server.valid_until, "{now} is after {}", server.valid_until);
        }
    }

    /// With any clock error, tokens are renewed more often, but not continuously.
    #[test]
    fn tok7_a_wrong_clock_makes_no_loop(uid: u32, lifetime in 600_u32..400_000, skew in -1_000_000_i64..1_000_000) {
        let mut server = Server::new(uid, i64::MAX);
        let seen = Secret::from_object(&server.secret).unwrap();

        server.mint(&seen, lifetime, START, START + skew);

        let Content::Token { renew_after, .. } = Secret::from_object(&server.secret).unwrap().content else {
            return Err(TestCaseError::fail("no token"));
        };
        let after = renew_after.0 - (START + skew);
        prop_assert!((42..=i64::from(lifetime) * 4 / 5).contains(&after), "{after}");
    }

    /// Reading does not panic for any object.
    #[test]
    fn mrg2_anything_can_be_looked_at(name in ".{0,20}", account in ".{0,20}", time in ".{0,30}", token in ".{0,20}") {
        let _ = Secret::from_object(&json!({"metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "pillion", "app.kubernetes.io/component": "sidecar-token"},
            "annotations": {
                ACCOUNT: account, RENEW_AFTER: time, EXPIRES: time, UNNEEDED_SINCE: time,
                SIDECAR_SET: name, AUDIENCES: token
            }
        }, "data": {"token": token}}));
    }
}
