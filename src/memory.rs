//! The module's allocator.
//!
//! A request makes some thousand small values, reads them once, and is over; a fifth of its time would go into joining
//! free neighbours that nobody asks for again. Here what is freed is kept for the next of its size, and everything is
//! taken back at once when the next call begins: nothing outlives a call.
#![allow(unsafe_code, reason = "this is what memory is made of")]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr;

/// Every block begins at a multiple of this, which no type of the module asks more than.
const ALIGN: usize = 16;
/// The longest block of a class of its own width; longer ones have four classes for each doubling.
const SMALL_MAX: usize = 512;
const SMALL_CLASSES: usize = SMALL_MAX / ALIGN + 1;
const CLASSES: usize = SMALL_CLASSES + 4 * 23;
/// Bytes of a page of WebAssembly.
const PAGE: usize = 64 * 1024;
/// How many pages are asked for at least: each time costs the host a system call.
const PAGES_MIN: usize = 4;

/// Where memory comes from: one piece that grows at its end.
pub trait Pages {
    /// The first address that may be given away.
    fn start() -> usize;
    /// The address behind the last.
    fn end() -> usize;
    /// Asks for so many pages more; whether they are there.
    fn grow(pages: usize) -> bool;
}

/// The memory behind the module's data.
#[cfg(target_arch = "wasm32")]
pub struct Module;

#[cfg(target_arch = "wasm32")]
impl Pages for Module {
    fn start() -> usize {
        unsafe extern "C" {
            /// Where the module's data ends: its address counts, not what is there.
            static __heap_base: u8;
        }
        (&raw const __heap_base).addr()
    }

    fn end() -> usize {
        core::arch::wasm32::memory_size(0) * PAGE
    }

    fn grow(pages: usize) -> bool {
        core::arch::wasm32::memory_grow(0, pages) != usize::MAX
    }
}

/// A block that is free: it says where the next one is.
struct Block {
    next: *mut Block,
}

struct Heap {
    /// The first address that was never given away, and the one behind the last.
    top: usize,
    end: usize,
    /// What is free, by class.
    free: [*mut Block; CLASSES],
}

/// An allocator.
pub struct Memory<P> {
    heap: UnsafeCell<Heap>,
    pages: PhantomData<P>,
}

// SAFETY: the module has no threads.
unsafe impl<P> Sync for Memory<P> {}

/// The class of blocks for so many bytes, and how long these are.
#[inline(always)]
#[allow(clippy::inline_always, reason = "each value of a request asks for it twice")]
const fn class(size: usize) -> (usize, usize) {
    if size <= SMALL_MAX {
        let class = size.div_ceil(ALIGN);
        return (class, class * ALIGN);
    }
    let doubling = (size - 1).ilog2();
    let quarter = (size - 1) >> (doubling - 2) & 3;
    (SMALL_CLASSES + (doubling as usize - SMALL_MAX.ilog2() as usize) * 4 + quarter, (5 + quarter) << (doubling - 2))
}

impl Heap {
    /// Makes the block that begins at `start`, where the part begins that was never given away or its last block, `size`
    /// bytes long; whether there is room.
    fn extend<P: Pages>(&mut self, start: usize, size: usize) -> bool {
        let Some(top) = start.checked_add(size) else { return false };
        if top > self.end {
            let pages = (top - self.end).div_ceil(PAGE);
            if !P::grow(pages.max(PAGES_MIN)) && !P::grow(pages) {
                return false;
            }
            self.end = P::end();
        }
        self.top = top;
        true
    }
}

impl<P: Pages> Memory<P> {
    /// Memory of which nothing is known yet; [`Memory::reset`] comes first.
    pub const fn new() -> Self {
        let heap = Heap { top: 0, end: 0, free: [ptr::null_mut(); CLASSES] };
        Self { heap: UnsafeCell::new(heap), pages: PhantomData }
    }

    /// Takes everything back.
    ///
    /// # Safety
    /// Nothing that was allocated may be used any more.
    pub unsafe fn reset(&self) {
        // SAFETY: no reference to it lives anywhere but within the functions of this file, which do not call each other
        // while they hold one.
        let heap = unsafe { &mut *self.heap.get() };
        heap.top = P::start().next_multiple_of(ALIGN);
        heap.end = P::end();
        heap.free = [ptr::null_mut(); CLASSES];
    }
}

// SAFETY: blocks do not overlap, are as long as their class, which is at least what was asked for, and begin at multiples
// of `ALIGN`; what asks for more than that gets nothing. A class is a function of the size alone, so a block comes back
// to the list that it was or will be taken from.
unsafe impl<P: Pages> GlobalAlloc for Memory<P> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > ALIGN {
            return ptr::null_mut();
        }
        // SAFETY: as in `reset`.
        let heap = unsafe { &mut *self.heap.get() };
        let (class, size) = class(layout.size());
        if let Some(first) = heap.free.get_mut(class)
            && !first.is_null()
        {
            let block = *first;
            // SAFETY: what is in a list is free, and was written by `dealloc`.
            *first = unsafe { (*block).next };
            return block.cast();
        }
        let start = heap.top;
        if heap.extend::<P>(start, size) { ptr::with_exposed_provenance_mut(start) } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `reset`.
        let heap = unsafe { &mut *self.heap.get() };
        if let Some(first) = heap.free.get_mut(class(layout.size()).0) {
            let block: *mut Block = block.cast();
            // SAFETY: the block is free now, and long enough for an address.
            unsafe { (*block).next = *first };
            *first = block;
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let ((old_class, old_size), (new_class, size)) = (class(layout.size()), class(new_size));
        if old_class == new_class {
            return block;
        }
        {
            // SAFETY: as in `reset`.
            let heap = unsafe { &mut *self.heap.get() };
            // The last block grows where it is.
            if block.addr() + old_size == heap.top && size > old_size {
                return if heap.extend::<P>(block.addr(), size) { block } else { ptr::null_mut() };
            }
        }
        // SAFETY: alignment is what it was, and the size fits: the caller says so.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(new_size, layout.align()));
            if !new.is_null() {
                ptr::copy_nonoverlapping(block, new, layout.size().min(new_size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests;
