//! Requests of every kind with settings: an answer within the bounds, never a trap (E18).

use pillion_fuzz::corpus;
use pillion_fuzz::document::documents;
use pillion_fuzz::policy::Policy;
use pillion_fuzz::pool::Pool;
use pillion_fuzz::run::FuzzTarget;

#[test]
fn e18_every_request_gets_an_answer_within_the_bounds() -> anyhow::Result<()> {
    let policy = Policy::load()?;
    let inputs = [corpus::read("request")?, policy.samples("validate")?].concat();
    let pool = Pool::new(inputs.iter().map(|named| &named.input));
    FuzzTarget("request").run(&inputs, documents(&inputs, &pool), |document| policy.answer(document).map(drop))
}
