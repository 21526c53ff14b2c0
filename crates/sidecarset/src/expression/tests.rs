use pillion_kubernetes::field::FieldError;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn q(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn read(text: &str) -> Expression {
    Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Evaluates with `cpu` = 200m and `memory` = 100Mi, the values of the vectors.
fn evaluate(slot: Slot, text: &str) -> Result<String, ExpressionError> {
    let variable = match slot {
        Slot::Cpu => q("200m"),
        Slot::Memory => q("100Mi"),
    };
    Ok(Expression::parse(text)?.evaluate(slot, &variable)?.to_string())
}

fn check(slot: Slot, text: &str) -> Result<(), ExpressionError> {
    Expression::parse(text)?.check(slot)
}

#[rstest]
#[case("cpu*50%", "100m")]
#[case("1/3*cpu", "66m")]
#[case("cpu*(1+10%)", "220m")]
#[case("max(CPU,1)", "1")]
#[case("cpu-200m", "0")]
#[case("--1", "1")]
#[case("0.5*cpu - 0.3*max(0, cpu-4) + 0.3*max(0, cpu-8)", "100m")]
#[case("1.5", "1500m")]
#[case("0.0019", "1m")]
#[case(".5", "500m")]
#[case("5.", "5")]
#[case("1e3", "1k")]
#[case("1E-1", "100m")]
#[case("1e+1%", "100m")]
#[case("2 - 1 - 1", "0")]
#[case("8 / 4 / 2", "1")]
#[case("1 + 2 * 3", "7")]
#[case("2 * -3 + 7", "1")]
#[case("-(1 - 3)", "2")]
#[case("-cpu + 1", "800m")]
#[case("Min ( Cpu , MAX(1, 50m) )", "200m")]
#[case("\t\n cpu\r ", "200m")]
#[case("200Mi", "200Mi")]
#[case("1.0001 + 0*cpu", "1")]
#[case("cpu + 1Ki", "1024200m")]
#[case("0*cpu + 1Ki", "1Ki")]
fn expr9_cpu_expressions_have_the_value_of_the_reference(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(evaluate(Slot::Cpu, text).as_deref(), Ok(expected));
    assert_eq!(check(Slot::Cpu, text), Ok(()));
}

#[rstest]
#[case("memory*50%", "50Mi")]
#[case("memory*1.5", "150Mi")]
#[case("memory*33.3%", "34917581")]
#[case("memory/3", "34952534")]
#[case("MEMORY", "100Mi")]
#[case("1.5", "2")]
#[case("1", "1")]
#[case("0.5", "1")]
#[case("1/3", "1")]
#[case("500m", "1")]
#[case("min(memory, 32Mi)", "32Mi")]
#[case("max(memory*10%, 64Mi)", "64Mi")]
#[case("1048576 * 2", "2097152")]
fn expr4_expr5_diff8_diff10_memory_results_are_whole_bytes_rounded_up(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(evaluate(Slot::Memory, text).as_deref(), Ok(expected));
    assert_eq!(check(Slot::Memory, text), Ok(()));
}

#[rstest]
#[case("10abc", 1)]
#[case("100E", 1)]
#[case("cpu + 1u", 7)]
#[case("5%5", 1)]
#[case("100Ei", 1)]
#[case("2*50%%", 3)]
#[case("1.2.3", 1)]
#[case(".", 1)]
#[case(".m", 1)]
#[case("1e", 1)]
#[case("1e+", 1)]
#[case("1e3m", 1)]
#[case("1_000", 1)]
#[case("0x10", 1)]
#[case("1ki", 1)]
#[case("1%m", 1)]
#[case("2cpu", 1)]
#[case("1é", 1)]
fn diff7_malformed_literals_are_errors(#[case] text: &str, #[case] at: usize) {
    let error = Expression::parse(text).unwrap_err();
    assert!(matches!(error, ExpressionError::Literal { column, .. } if column == at), "{error}");
    assert!(error.to_string().contains("suffixes m k M G T P Ki Mi Gi Ti Pi"), "{error}");
}

#[rstest]
#[case("", "syntax error at column 1: found the end, expected a number")]
#[case(" ", "syntax error at column 2: found the end, expected a number")]
#[case("cpu +", "syntax error at column 6: found the end, expected a number")]
#[case("+1", "syntax error at column 1: found '+', expected a number")]
#[case("(cpu", "syntax error at column 5: found the end, expected one of + - * / or )")]
#[case("cpu)", "syntax error at column 4: found ')', expected one of + - * /")]
#[case("cpu cpu", "syntax error at column 5: found \"cpu\", expected one of + - * /")]
#[case("2 3", "syntax error at column 3: found a number, expected one of + - * /")]
#[case("\"é\"", "syntax error at column 1: found '\"'")]
#[case("1 + \u{0}", "syntax error at column 5: found '\\0'")]
#[case("max()", "syntax error at column 5: found ')', expected a number")]
#[case("max(1, 2", "syntax error at column 9: found the end, expected one of + - * / , or )")]
#[case("max(1)", "max at column 1 requires exactly 2 arguments, got 1")]
#[case("1 + Min(1,2,3)", "min at column 5 requires exactly 2 arguments, got 3")]
#[case("avg(1, 2)", "unknown function: avg at column 1")]
#[case("cpu(1)", "unknown function: cpu at column 1")]
#[case("1 + é", "undefined variable: é at column 5: the variables are cpu and memory")]
#[case("max", "undefined variable: max at column 1")]
#[case("1e400", "overflow at column 1")]
#[case("2 * 1e400%", "overflow at column 5")]
fn expr6_expr8_syntax_errors_name_the_column(#[case] text: &str, #[case] expected: &str) {
    let error = Expression::parse(text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case(Slot::Cpu, "cpu*cpu", ExpressionError::QuantityTimesQuantity { column: 4 })]
#[case(Slot::Cpu, "2 * 100m * 1Gi", ExpressionError::QuantityTimesQuantity { column: 10 })]
#[case(Slot::Cpu, "1/cpu", ExpressionError::DivisionByQuantity { column: 2 })]
#[case(Slot::Cpu, "cpu/(cpu-1)", ExpressionError::DivisionByQuantity { column: 4 })]
#[case(Slot::Cpu, "0/1m", ExpressionError::DivisionByQuantity { column: 2 })]
#[case(Slot::Cpu, "cpu/0", ExpressionError::DivisionByZero { column: 4 })]
#[case(Slot::Memory, "memory/(1-1)", ExpressionError::DivisionByZero { column: 7 })]
#[case(Slot::Cpu, "1/-0", ExpressionError::DivisionByZero { column: 2 })]
#[case(Slot::Cpu, "cpu + Memory", ExpressionError::WrongVariable { column: 7, found: Slot::Memory })]
#[case(Slot::Memory, "cpu*0", ExpressionError::WrongVariable { column: 1, found: Slot::Cpu })]
#[case(Slot::Cpu, "1e300*1e300", ExpressionError::Overflow { column: 6 })]
#[case(Slot::Cpu, "cpu + 1e300", ExpressionError::Overflow { column: 5 })]
#[case(Slot::Cpu, "max(1e16, cpu)", ExpressionError::Overflow { column: 1 })]
#[case(Slot::Cpu, "10P*1000", ExpressionError::Overflow { column: 4 })]
#[case(Slot::Cpu, "100m/1e-300", ExpressionError::Overflow { column: 5 })]
#[case(Slot::Cpu, "1e16", ExpressionError::Overflow { column: 1 })]
#[case(Slot::Memory, "1e19", ExpressionError::Overflow { column: 1 })]
#[case(Slot::Cpu, "10000000000000000000000m", ExpressionError::Overflow { column: 1 })]
#[case(Slot::Memory, "9000P + 8192Pi", ExpressionError::Overflow { column: 1 })]
#[case(Slot::Cpu, "-1", ExpressionError::Negative("-1".to_owned()))]
#[case(Slot::Memory, "1Mi - 1Gi", ExpressionError::Negative("-1023Mi".to_owned()))]
fn diff6_diff7_what_no_value_can_cure_is_an_error_at_the_sidecar_set(
    #[case] slot: Slot,
    #[case] text: &str,
    #[case] expected: ExpressionError,
) {
    assert_eq!(check(slot, text), Err(expected.clone()));
    assert_eq!(evaluate(slot, text), Err(expected));
}

#[rstest]
#[case(Slot::Cpu, "cpu-1", "calculation result is negative: -800m")]
#[case(Slot::Cpu, "cpu - 2", "calculation result is negative: -1800m")]
#[case(Slot::Memory, "memory-200Mi", "calculation result is negative: -100Mi")]
#[case(Slot::Memory, "memory*1e12", "overflow at column 7")]
fn diff6_what_depends_on_the_value_is_an_error_at_the_pod(
    #[case] slot: Slot,
    #[case] text: &str,
    #[case] expected: &str,
) {
    assert_eq!(check(slot, text), Ok(()));
    let error = evaluate(slot, text).unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}

#[rstest]
#[case("1e15", Slot::Cpu, true)]
#[case("9.3e15", Slot::Cpu, false)]
#[case("9e18", Slot::Memory, true)]
#[case("9.3e18", Slot::Memory, false)]
fn floats_become_integers_only_within_64_bits(#[case] text: &str, #[case] slot: Slot, #[case] fits: bool) {
    assert_eq!(evaluate(slot, text).is_ok(), fits);
}

#[rstest]
#[case("cpu", "8Ei")]
#[case("cpu + cpu", "1e100")]
#[case("cpu * 2", "1e100")]
#[case("cpu / 3", "1n")]
#[case("cpu - 1e-9", "0")]
fn values_of_any_size_give_a_result_or_an_error(#[case] text: &str, #[case] value: &str) {
    let result = read(text).evaluate(Slot::Cpu, &q(value));
    assert!(!result.is_ok_and(|quantity| quantity.is_negative()));
}

#[test]
fn expr11_lim2_a_thousand_levels_are_an_error_and_a_long_chain_is_none() {
    for deep in ["(".repeat(1_000), "-".repeat(1_000), "max(".repeat(1_000), "-(".repeat(1_000)] {
        let error = Expression::parse(&format!("{deep}1")).unwrap_err();
        assert!(matches!(error, ExpressionError::TooDeep { column: 65.. }), "{error}");
    }
    let nested = |levels: usize| format!("{}cpu{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(evaluate(Slot::Cpu, &nested(64)).as_deref(), Ok("200m"));
    assert_eq!(Expression::parse(&nested(65)).unwrap_err(), ExpressionError::TooDeep { column: 65 });
    let long = format!("0{}", " + 1m".repeat(100_000));
    assert_eq!(evaluate(Slot::Cpu, &long).as_deref(), Ok("100"));
}

#[rstest]
#[case("200m", true)]
#[case("max(1, 2*3)", true)]
#[case("0*cpu", false)]
#[case("1 + min(2, -Memory)", false)]
fn diff9_an_expression_without_a_variable_is_constant(#[case] text: &str, #[case] constant: bool) {
    assert_eq!(read(text).is_constant(), constant);
}

fn target(name: &str, resources: &Value) -> Value {
    json!({ "name": name, "resources": resources })
}

fn a5() -> [Value; 2] {
    [
        target(
            "a",
            &json!({"limits": {"cpu": "200m", "memory": "100Mi"}, "requests": {"cpu": "100m", "memory": "50Mi"}}),
        ),
        target("b", &json!({"limits": {"cpu": "300m"}, "requests": {"memory": "1G"}})),
    ]
}

fn aggregated(mode: Mode, containers: &[&Value]) -> Result<Aggregate, Vec<FieldError>> {
    let amounts: Vec<_> = containers.iter().copied().map(Amounts::from_container).collect();
    aggregate(mode, &amounts.iter().collect::<Vec<_>>())
}

fn text(quantity: Option<&Quantity>) -> Option<String> {
    quantity.map(Quantity::to_string)
}

#[test]
fn expr2_sums_and_maxima_treat_missing_limits_as_unlimited_and_missing_requests_as_zero() {
    let [a, b] = a5();
    let sum = aggregated(Mode::Sum, &[&a, &b]).unwrap();
    assert_eq!(text(sum.limits.cpu.as_ref()).as_deref(), Some("500m"));
    assert_eq!(sum.limits.memory, None);
    assert_eq!(sum.requests.cpu.to_string(), "100m");
    assert_eq!(sum.requests.memory.to_string(), "1052428800", "the format of the first that is not zero");
    let max = aggregated(Mode::Max, &[&a, &b]).unwrap();
    assert_eq!(text(max.limits.cpu.as_ref()).as_deref(), Some("300m"));
    assert_eq!(max.limits.memory, None);
    assert_eq!(max.requests.memory.to_string(), "1G");
    assert_eq!(aggregated(Mode::Sum, &[]), Ok(Aggregate::default()));
}

#[test]
fn expr2_a_sum_is_canonical_and_a_maximum_is_as_written() {
    let one = target("a", &json!({"limits": {"cpu": "+1", "memory": null}}));
    let other = target("b", &json!({"limits": {"cpu": 1, "memory": "1.Ki"}, "requests": {"memory": "-1"}}));
    let sum = aggregated(Mode::Sum, &[&one]).unwrap();
    assert_eq!(text(sum.limits.cpu.as_ref()).as_deref(), Some("1"));
    let max = aggregated(Mode::Max, &[&one, &other]).unwrap();
    assert_eq!(text(max.limits.cpu.as_ref()).as_deref(), Some("+1"), "the first of two that are equal");
    assert_eq!(text(max.limits.memory.as_ref()).as_deref(), Some("1.Ki"));
    assert_eq!(max.requests.memory.to_string(), "-1");
}

#[test]
fn expr2_every_unreadable_quantity_is_named() {
    let one = target("a", &json!({"limits": {"cpu": "1K"}, "requests": {"memory": true}}));
    let other = target("b", &json!({"limits": {"cpu": "1", "memory": ""}}));
    let errors = aggregated(Mode::Sum, &[&one, &other]).unwrap_err();
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "containers[a].resources.limits[cpu]",
            "containers[b].resources.limits[memory]",
            "containers[a].resources.requests[memory]"
        ]
    );
}

fn policy(expressions: &Value) -> ResourcesPolicy {
    ResourcesPolicy::from_json(&json!({
        "targetContainersMode": "sum", "targetContainersNameRegex": "^[ab]$", "resourcesExpr": expressions
    }))
    .unwrap()
}

#[rstest]
#[case(
    json!({"limits": {"cpu": "cpu*50%", "memory": "200Mi"}, "requests": {"cpu": "cpu*33.3%", "memory": "memory*10%"}}),
    json!({"limits": {"cpu": "250m", "memory": "200Mi"}, "requests": {"cpu": "33m", "memory": "105242880"}})
)]
#[case(json!({"requests": {"memory": "memory*0.333"}}), json!({"requests": {"memory": "350458791"}}))]
#[case(json!({"limits": {"cpu": "", "memory": "memory"}}), json!({}))]
#[case(json!({"limits": {"memory": "0*memory + 1Mi"}, "requests": {"cpu": "0"}}), json!({"requests": {"cpu": "0"}}))]
#[case(json!({}), json!({}))]
fn expr1_expr3_diff9_resources_are_computed_from_the_targets(#[case] expressions: Value, #[case] expected: Value) {
    let [a, b] = a5();
    let policy = policy(&expressions);
    let targets = policy.aggregate(&[&Amounts::from_container(&a), &Amounts::from_container(&b)]).unwrap();
    assert_eq!(policy.evaluate(&targets), Ok(expected));
    assert_eq!(policy.name_regex(), "^[ab]$");
}

#[test]
fn diff9_a_policy_of_constants_needs_no_targets() {
    let constant = policy(&json!({"limits": {"cpu": "2*100m", "memory": "1Gi"}, "requests": {"cpu": ""}}));
    assert!(!constant.needs_targets());
    let expected = json!({"limits": {"cpu": "200m", "memory": "1Gi"}});
    assert_eq!(constant.evaluate(&Aggregate::default()), Ok(expected));
    let mixed = policy(&json!({"limits": {"cpu": "2"}, "requests": {"cpu": "cpu"}}));
    assert!(mixed.needs_targets());
    let expected = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "0"}});
    assert_eq!(mixed.evaluate(&Aggregate::default()), Ok(expected));
}

#[test]
fn diff6_every_expression_that_fails_is_named() {
    let policy = policy(&json!({
        "limits": {"cpu": "cpu*cpu", "memory": "cpu"}, "requests": {"cpu": "cpu-1", "memory": "memory/0"}
    }));
    let places =
        |errors: Vec<(String, ExpressionError)>| errors.into_iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
    let [a, b] = a5();
    let targets = aggregated(Mode::Sum, &[&a, &b]).unwrap();
    let failed = places(policy.evaluate(&targets).unwrap_err());
    assert_eq!(failed, ["resourcesExpr.limits.cpu", "resourcesExpr.requests.cpu", "resourcesExpr.requests.memory"]);
}

#[test]
fn a_policy_that_is_not_well_formed_names_its_expressions() {
    let errors = ResourcesPolicy::from_json(&json!({
        "targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "10abc"}, "requests": {"memory": "("}}
    }))
    .unwrap_err();
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(messages[0].starts_with("resourcesExpr.limits.cpu: Invalid value: \"10abc\": malformed number"));
    assert!(messages[1].starts_with("resourcesExpr.requests.memory: Invalid value: \"(\": syntax error at column 2"));
}

#[test]
fn expr2_an_unknown_mode_puts_nothing_together() {
    let policy = ResourcesPolicy::from_json(&json!({
        "targetContainersMode": "avg", "resourcesExpr": {"limits": {"cpu": "cpu"}, "requests": {"cpu": "cpu"}}
    }))
    .unwrap();
    let [a, b] = a5();
    let targets = policy.aggregate(&[&Amounts::from_container(&a), &Amounts::from_container(&b)]).unwrap();
    assert_eq!(policy.evaluate(&targets), Ok(json!({"requests": {"cpu": "0"}})));
}

fn any_expression() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "cpu", "memory", "max(", "min(", "(", ")", ",", "+", "-", "*", "/", " ", "1", "0", "50%", "1e9", "1e308",
        "200m", "8000P", "1.5Gi", "0.1m", "1e-308",
    ]);
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = Expression::parse(&text);
    }

    #[test]
    fn evaluation_never_panics_and_a_check_refuses_only_what_fails(
        text in any_expression(),
        value in "[0-9]{1,22}(\\.[0-9]{1,4})?([numkMGTPE]|[KMGTPE]i|e[0-9]{1,2})?",
        memory in any::<bool>(),
    ) {
        let slot = if memory { Slot::Memory } else { Slot::Cpu };
        if let Ok(expression) = Expression::parse(&text) {
            let result = expression.evaluate(slot, &q(&value));
            if expression.check(slot).is_err() {
                prop_assert!(result.is_err());
            } else if expression.is_constant() {
                prop_assert!(result.is_ok());
            }
            if let Ok(quantity) = result {
                prop_assert!(!quantity.is_negative());
                prop_assert!(quantity.is_whole() || slot == Slot::Cpu);
            }
        }
    }
}
