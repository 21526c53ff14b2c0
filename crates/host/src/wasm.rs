//! The sections of a WebAssembly module, as far as reading and writing custom sections needs them.
//!
//! A module starts with eight bytes of magic number and version. Sections follow: an id, a length (LEB128, 32 bits) and
//! that many bytes of content. A custom section has id 0; its content starts with its name, preceded by the name's
//! length.

/// The magic number and version 1.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";
const CUSTOM: u8 = 0;
const DATA: u8 = 11;

/// Why the bytes are not a WebAssembly module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WasmError {
    /// The bytes do not start with the magic number and version 1.
    #[error("not a WebAssembly module: it does not start with the magic number and version 1")]
    Header,
    /// A section is cut off. The number is the byte where it starts.
    #[error("not a WebAssembly module: the section at byte {0} is cut off")]
    CutOff(usize),
}

/// A section. `whole` includes its id and length.
struct Section<'a> {
    id: u8,
    content: &'a [u8],
    whole: &'a [u8],
}

impl<'a> Section<'a> {
    /// Returns the name and the data of a custom section.
    fn custom(&self) -> Option<(&'a [u8], &'a [u8])> {
        let (length, rest) = (self.id == CUSTOM).then(|| number(self.content))??;
        rest.split_at_checked(length)
    }
}

fn sections(module: &[u8]) -> Result<Vec<Section<'_>>, WasmError> {
    let mut rest = module.strip_prefix(HEADER).ok_or(WasmError::Header)?;
    let mut sections = Vec::new();
    while let Some((id, after)) = rest.split_first() {
        let cut_off = WasmError::CutOff(module.len() - rest.len());
        let (length, after) = number(after).ok_or(cut_off)?;
        let (content, after) = after.split_at_checked(length).ok_or(cut_off)?;
        let whole = rest.get(..rest.len() - after.len()).ok_or(cut_off)?;
        sections.push(Section { id: *id, content, whole });
        rest = after;
    }
    Ok(sections)
}

/// Reads an unsigned LEB128 number of 32 bits.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value: u64 = 0;
    for (index, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).ok()?;
            return Some((usize::try_from(value).ok()?, bytes.get(index + 1..)?));
        }
    }
    None
}

/// Writes an unsigned LEB128 number.
fn write_number(mut value: usize, into: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        into.push(if value == 0 { low } else { low | 0x80 });
        if value == 0 {
            return;
        }
    }
}

/// Returns the data of the first custom section with this name.
///
/// # Errors
/// [`WasmError`] if the bytes are not a module.
pub fn custom_section<'a>(module: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, WasmError> {
    let named = |(found, data): (&[u8], &'a [u8])| (found == name.as_bytes()).then_some(data);
    Ok(sections(module)?.iter().find_map(|section| section.custom().and_then(named)))
}

/// Returns the module with this custom section at its end. Existing sections of the same name are removed.
///
/// # Errors
/// [`WasmError`] if the bytes are not a module.
pub fn with_custom_section(module: &[u8], name: &str, data: &[u8]) -> Result<Vec<u8>, WasmError> {
    let mut result = Vec::with_capacity(module.len() + name.len() + data.len() + HEADER.len());
    result.extend_from_slice(HEADER);
    for section in sections(module)? {
        if section.custom().is_none_or(|(found, _)| found != name.as_bytes()) {
            result.extend_from_slice(section.whole);
        }
    }
    let mut content = Vec::with_capacity(name.len() + data.len() + 5);
    write_number(name.len(), &mut content);
    content.extend_from_slice(name.as_bytes());
    content.extend_from_slice(data);
    result.push(CUSTOM);
    write_number(content.len(), &mut result);
    result.extend_from_slice(&content);
    Ok(result)
}

/// Whether the module's constant data contains this text.
pub(crate) fn data_holds(module: &[u8], text: &str) -> Result<bool, WasmError> {
    let holds = |data: &[u8]| data.windows(text.len().max(1)).any(|window| window == text.as_bytes());
    Ok(sections(module)?.iter().any(|section| section.id == DATA && holds(section.content)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn module(sections: &[(u8, &[u8])]) -> Vec<u8> {
        let mut module = HEADER.to_vec();
        for (id, content) in sections {
            module.push(*id);
            write_number(content.len(), &mut module);
            module.extend_from_slice(content);
        }
        module
    }

    #[test]
    fn a_section_takes_the_place_of_all_with_its_name() {
        let old = module(&[(0, b"\x01aold"), (1, b"types"), (0, b"\x01bother"), (0, b"\x01aolder")]);
        assert_eq!(custom_section(&old, "a").unwrap(), Some(b"old".as_slice()));
        let new = with_custom_section(&old, "a", b"new").unwrap();
        assert_eq!(new, module(&[(1, b"types"), (0, b"\x01bother"), (0, b"\x01anew")]));
        assert_eq!(with_custom_section(&new, "a", b"new").unwrap(), new);
        assert_eq!(custom_section(&new, "c").unwrap(), None);
    }

    #[rstest]
    #[case::empty(b"", WasmError::Header)]
    #[case::text(b"hello, world", WasmError::Header)]
    #[case::component(b"\0asm\x0d\0\x01\0", WasmError::Header)]
    #[case::no_length(b"\0asm\x01\0\0\0\x01", WasmError::CutOff(8))]
    #[case::endless_length(b"\0asm\x01\0\0\0\x01\xff\xff\xff\xff\xff\xff", WasmError::CutOff(8))]
    #[case::short(b"\0asm\x01\0\0\0\x01\x01x\x02\x05abc", WasmError::CutOff(11))]
    fn what_is_no_module_is_refused(#[case] bytes: &[u8], #[case] expected: WasmError) {
        assert_eq!(custom_section(bytes, "a"), Err(expected));
        assert_eq!(with_custom_section(bytes, "a", b""), Err(expected));
    }

    #[test]
    fn a_custom_section_without_a_whole_name_has_none() {
        let broken = module(&[(0, b"\x09a")]);
        assert_eq!(custom_section(&broken, "a"), Ok(None));
    }

    #[test]
    fn texts_are_looked_for_in_the_data_alone() {
        let module = module(&[(1, b"types"), (11, b"..data..")]);
        assert_eq!((data_holds(&module, "data"), data_holds(&module, "types")), (Ok(true), Ok(false)));
    }

    proptest! {
        #[test]
        fn any_data_of_any_length_comes_back(data in prop::collection::vec(any::<u8>(), 0..40_000), name in ".{0,200}") {
            let annotated = with_custom_section(&module(&[(1, b"types")]), &name, &data).unwrap();
            prop_assert_eq!(custom_section(&annotated, &name).unwrap(), Some(data.as_slice()));
        }
    }
}
