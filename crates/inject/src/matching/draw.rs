//! Pseudorandom draws: the same request always draws the same number.

/// Returns a number in `[0, 1)` that depends only on a request's uid and a `SidecarSet`'s name (ORDER-2). Different
/// uids and names draw independently.
pub fn draw(uid: &str, set: &str) -> f64 {
    // FNV-1a, 64 bit, then the finaliser of SplitMix64: with FNV alone, similar texts have similar high bits.
    let bytes = uid.bytes().chain([0]).chain(set.bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let mixed = mixed ^ (mixed >> 31);
    // 53 bits, the precision of an f64, so that the quotient never rounds up to 1.
    #[allow(clippy::cast_precision_loss)]
    let fraction = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    fraction
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn draws_are_spread_evenly() {
        let uids: Vec<String> = (0..20_000).map(|n| format!("705ab4f5-6393-11e8-b7cc-{n:012}")).collect();
        for tenth in 1..10 {
            let limit = f64::from(tenth) / 10.0;
            let below = uids.iter().filter(|uid| draw(uid, "set") < limit).count();
            let share = f64::from(u32::try_from(below).unwrap()) / 20_000.0;
            assert!((share - limit).abs() < 0.02, "{share} of draws below {limit}");
        }
    }

    #[test]
    fn names_draw_independently() {
        let both = (0..10_000).filter(|n| {
            let uid = n.to_string();
            draw(&uid, "one") < 0.5 && draw(&uid, "two") < 0.5
        });
        let both = both.count();
        assert!((2_200..2_800).contains(&both), "{both}");
    }

    proptest! {
        #[test]
        fn draws_are_at_least_zero_and_below_one(uid: String, set: String) {
            prop_assert!((0.0..1.0).contains(&draw(&uid, &set)));
        }
    }
}
