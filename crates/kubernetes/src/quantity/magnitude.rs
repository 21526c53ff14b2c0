//! Whole numbers of nano-units of any size.
//!
//! Every parsed quantity is a multiple of 10⁻⁹ (QTY-1), so an unsigned number of nanos holds it exactly. The base is
//! 10⁹: the lowest limb is the fraction, and the other limbs are the whole units. Decimal printing and decimal rounding
//! therefore need no long division.

use std::cmp::Ordering;

use super::MAX_DIGITS;

const BASE: u64 = 1_000_000_000;
/// Decimal digits of a limb; also of the fraction.
pub(super) const LIMB_DIGITS: usize = 9;
/// The power of ten of the smallest value.
pub(super) const NANO: i64 = -9;

/// A number of nanos. Limbs are in base 10⁹, the lowest first, and the highest is not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Magnitude(Vec<u32>);

/// Returns the low and the high limb of a value below `BASE * 2³²`.
fn split(value: u64) -> (u32, u64) {
    (u32::try_from(value % BASE).unwrap_or_default(), value / BASE)
}

impl Magnitude {
    /// Converts `digits * 10^exponent` units to nanos, rounding up.
    ///
    /// `digits` are ASCII digits. Returns `None` if more than twice [`MAX_DIGITS`] zeros would have to be appended.
    pub(super) fn from_decimal(mut digits: Vec<u8>, exponent: i64) -> Option<Self> {
        let Some(first) = digits.iter().position(|digit| *digit != b'0') else { return Some(Self::default()) };
        digits.drain(..first);
        let shift = exponent.saturating_sub(NANO);
        let mut round_up = false;
        if shift < 0 {
            let dropped = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
            let kept = digits.len().saturating_sub(dropped);
            round_up = digits.iter().skip(kept).any(|digit| *digit != b'0');
            digits.truncate(kept);
        } else {
            let zeros = usize::try_from(shift).ok().filter(|zeros| *zeros <= MAX_DIGITS * 2)?;
            digits.resize(digits.len() + zeros, b'0');
        }
        let limb = |chunk: &[u8]| chunk.iter().fold(0, |limb, digit| limb * 10 + u32::from(digit - b'0'));
        let magnitude = Self(digits.rchunks(LIMB_DIGITS).map(limb).collect());
        Some(if round_up { magnitude.plus(&Self(vec![1])) } else { magnitude })
    }

    /// Returns `value * 10^-decimals` units; `decimals` is at most 9.
    pub(super) fn from_scaled(value: u64, decimals: u32) -> Self {
        let (low, rest) = split(value);
        let (middle, high) = split(rest);
        let (high, _) = split(high);
        let mut magnitude = Self(vec![low, middle, high]);
        magnitude.trim();
        magnitude.times(10_u32.saturating_pow(9_u32.saturating_sub(decimals)))
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the value is a whole number of units.
    pub(super) fn is_whole(&self) -> bool {
        self.0.first().is_none_or(|fraction| *fraction == 0)
    }

    /// Returns an upper bound for the number of decimal digits.
    pub(super) fn digits(&self) -> usize {
        self.0.len() * LIMB_DIGITS
    }

    pub(super) fn plus(&self, other: &Self) -> Self {
        let (long, short) = if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let mut sum = long.clone();
        sum.add(short);
        sum
    }

    /// Adds a number in place. The time depends on the length of `other` alone, apart from carries (E18).
    pub(super) fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut carry = 0;
        let mut others = other.0.iter();
        for limb in &mut self.0 {
            let other = others.next();
            if other.is_none() && carry == 0 {
                return;
            }
            let (low, high) = split(u64::from(*limb) + u64::from(*other.unwrap_or(&0)) + carry);
            *limb = low;
            carry = high;
        }
        if carry > 0 {
            self.0.push(split(carry).0);
        }
    }

    /// Returns `self - other`; `other` must not be greater than `self`.
    pub(super) fn minus(&self, other: &Self) -> Self {
        let mut difference = Vec::with_capacity(self.0.len());
        let mut borrow = 0;
        let others = other.0.iter().chain(std::iter::repeat(&0));
        for (left, right) in self.0.iter().zip(others) {
            let (limb, high) = split(BASE + u64::from(*left) - u64::from(*right) - borrow);
            difference.push(limb);
            borrow = 1 - high.min(1);
        }
        let mut difference = Self(difference);
        difference.trim();
        difference
    }

    pub(super) fn times(&self, factor: u32) -> Self {
        let mut product = Vec::with_capacity(self.0.len() + 1);
        let mut carry = 0;
        for limb in &self.0 {
            let (limb, high) = split(u64::from(*limb) * u64::from(factor) + carry);
            product.push(limb);
            carry = high;
        }
        if carry > 0 {
            product.push(split(carry).0);
        }
        let mut product = Self(product);
        product.trim();
        product
    }

    /// Returns the quotient and whether there is a remainder. The quotient of a division by zero is zero.
    pub(super) fn divided(&self, divisor: u32) -> (Self, bool) {
        if divisor == 0 {
            return (Self::default(), !self.is_zero());
        }
        let divisor = u64::from(divisor);
        let mut remainder = 0;
        let mut quotient: Vec<u32> = self.0.iter().rev().fold(Vec::with_capacity(self.0.len()), |mut limbs, limb| {
            let value = remainder * BASE + u64::from(*limb);
            remainder = value % divisor;
            limbs.push(split(value / divisor).0);
            limbs
        });
        quotient.reverse();
        let mut quotient = Self(quotient);
        quotient.trim();
        (quotient, remainder > 0)
    }

    /// Rounds up to a multiple of `10^-decimals` units and returns the factor; `decimals` is at most 9.
    pub(super) fn ceil(&self, decimals: u32) -> Self {
        let (quotient, rest) = self.divided(10_u32.saturating_pow(9_u32.saturating_sub(decimals)));
        if rest { quotient.plus(&Self(vec![1])) } else { quotient }
    }

    /// Returns the number, if it fits.
    pub(super) fn to_u64(&self) -> Option<u64> {
        self.0.iter().rev().try_fold(0_u64, |value, limb| value.checked_mul(BASE)?.checked_add(u64::from(*limb)))
    }

    /// Returns the decimal digits; empty for zero.
    pub(super) fn to_decimal(&self) -> Vec<u8> {
        let mut digits = vec![b'0'; self.0.len() * LIMB_DIGITS];
        for (chunk, limb) in digits.rchunks_mut(LIMB_DIGITS).zip(&self.0) {
            let mut rest = *limb;
            for digit in chunk.iter_mut().rev() {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
                rest /= 10;
            }
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        digits
    }
}

impl Ord for Magnitude {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

impl PartialOrd for Magnitude {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
