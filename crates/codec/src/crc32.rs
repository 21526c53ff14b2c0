//! The checksum of Ethernet and gzip (RFC 1952, section 8).

/// What four bits do to the checksum.
const STEPS: [u32; 16] = steps();

#[allow(clippy::indexing_slicing, reason = "the compiler would notice")]
const fn steps() -> [u32; 16] {
    let mut steps = [0; 16];
    let mut index = 0;
    while index < 16 {
        let mut crc = index;
        let mut bit = 0;
        while bit < 4 {
            crc = crc >> 1 ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
            bit += 1;
        }
        steps[index as usize] = crc;
        index += 1;
    }
    steps
}

/// The checksum of some bytes.
pub fn crc32(bytes: &[u8]) -> u32 {
    // Four bits are always an index.
    let step = |crc: u32| crc >> 4 ^ STEPS.get((crc & 15) as usize).copied().unwrap_or_default();
    !bytes.iter().fold(u32::MAX, |crc, byte| step(step(crc ^ u32::from(*byte))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_is_that_of_the_catalogues() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32(b""), 0);
    }
}
