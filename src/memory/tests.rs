use std::cell::Cell;

use proptest::prelude::*;

use super::*;

const ROOM: usize = 40 * PAGE;

thread_local! {
    /// Stands for the memory of an instance: all of it is there, but only so many pages of it are told of.
    static ARENA: (usize, Cell<usize>) = (Box::leak(vec![0_u8; ROOM].into_boxed_slice()).as_mut_ptr().expose_provenance(), Cell::new(1));
}

struct Arena;

impl Pages for Arena {
    fn start() -> usize {
        // Not where a block may begin.
        ARENA.with(|(start, _)| start + 1)
    }

    fn end() -> usize {
        ARENA.with(|(start, pages)| start + pages.get() * PAGE)
    }

    fn grow(more: usize) -> bool {
        ARENA.with(|(_, pages)| {
            let grown = pages.get() + more;
            let fits = grown * PAGE <= ROOM;
            if fits {
                pages.set(grown);
            }
            fits
        })
    }
}

#[test]
fn a_block_is_as_long_as_asked_and_at_most_a_fourth_longer() {
    let mut before = (0, 0);
    for size in 1..70_000 {
        let (class, length) = class(size);
        assert!(length >= size && length.is_multiple_of(ALIGN) && class < CLASSES, "{size}");
        assert!(length < size + ALIGN || length * 4 <= size * 5, "{size}: {length}");
        // One class, one length: what is freed fits whoever takes it.
        assert!((class, length) == before || (class == before.0 + 1 && length > before.1), "{size}");
        before = (class, length);
    }
    assert!(class((u32::MAX >> 1) as usize).0 < CLASSES);
}

/// What a program does: allocates so many bytes, frees one of its blocks, or makes one longer or shorter.
#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    Free(prop::sample::Index),
    Resize(prop::sample::Index, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop_oneof![8 => 1_usize..200, 3 => 200_usize..5_000, 1 => 5_000_usize..300_000];
    let step = prop_oneof![
        3 => size().prop_map(Step::Take),
        2 => any::<prop::sample::Index>().prop_map(Step::Free),
        2 => (any::<prop::sample::Index>(), size()).prop_map(|(index, size)| Step::Resize(index, size)),
    ];
    prop::collection::vec(step, 1..120)
}

/// A block, its size, and the byte that it is full of.
type Owned = (*mut u8, usize, u8);

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn fill((block, size, byte): Owned) {
    // SAFETY: the block is as long.
    unsafe { block.write_bytes(byte, size) };
}

/// Whether a block still holds what its owner has written.
fn is_whole((block, size, byte): Owned) -> bool {
    // SAFETY: the block is as long.
    (0..size).all(|at| unsafe { block.add(at).read() } == byte)
}

proptest! {
    #[test]
    fn blocks_keep_what_is_in_them_until_they_are_freed(calls in prop::collection::vec(steps(), 1..3)) {
        let memory: Memory<Arena> = Memory::new();
        for steps in calls {
            // SAFETY: nothing is left of the call before.
            unsafe { memory.reset() };
            let mut owned: Vec<Owned> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                let byte = u8::try_from(number).unwrap();
                match step {
                    Step::Take(size) => {
                        // SAFETY: the size is not zero.
                        let block = unsafe { memory.alloc(layout(size)) };
                        if !block.is_null() {
                            prop_assert_eq!(block.addr() % ALIGN, 0);
                            prop_assert!(block.addr() >= Arena::start() && block.addr() + size <= Arena::end());
                            owned.push((block, size, byte));
                            fill((block, size, byte));
                        }
                    }
                    Step::Free(index) if !owned.is_empty() => {
                        let (block, size, byte) = owned.swap_remove(index.index(owned.len()));
                        prop_assert!(is_whole((block, size, byte)));
                        // SAFETY: it was allocated with this size, and is not used again.
                        unsafe { memory.dealloc(block, layout(size)) };
                    }
                    Step::Resize(index, new_size) if !owned.is_empty() => {
                        let (block, size, byte) = owned.swap_remove(index.index(owned.len()));
                        // SAFETY: as above.
                        let new = unsafe { memory.realloc(block, layout(size), new_size) };
                        if new.is_null() {
                            owned.push((block, size, byte));
                        } else {
                            prop_assert!(is_whole((new, size.min(new_size), byte)));
                            owned.push((new, new_size, byte));
                            fill((new, new_size, byte));
                        }
                    }
                    Step::Free(_) | Step::Resize(..) => {}
                }
            }
            prop_assert!(owned.into_iter().all(is_whole));
        }
    }
}

#[test]
fn what_cannot_be_had_is_null_and_leaves_the_rest_usable() {
    let memory: Memory<Arena> = Memory::new();
    // SAFETY: nothing was allocated; sizes are not zero; null is not used.
    unsafe {
        memory.reset();
        assert!(memory.alloc(layout(ROOM + PAGE)).is_null());
        assert!(memory.alloc(Layout::from_size_align(16, 64).unwrap()).is_null());
        let block = memory.alloc(layout(8));
        assert!(!block.is_null());
        assert!(memory.realloc(block, layout(8), ROOM + PAGE).is_null());
        memory.dealloc(block, layout(8));
        assert_eq!(memory.alloc(layout(16)), block, "what is freed is taken again");
    }
}
