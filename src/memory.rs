//! The module's allocator.
//!
//! A request makes some thousand small values, reads them once, and is over; a fifth of its time would go into joining
//! free neighbours that nobody asks for again. Here what is freed is kept for the next of its size, and everything is
//! taken back at once when the next call begins: nothing outlives a call.
#![allow(unsafe_code, reason = "this is what memory is made of")]

use core::alloc::{GlobalAlloc, Layout};
use core::arch::wasm32;
use core::cell::UnsafeCell;
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

/// A block that is free: it says where the next one is.
type Free = *mut Block;

struct Block {
    next: Free,
}

struct Heap {
    /// The first address that was never given away, and the one behind the last.
    top: usize,
    end: usize,
    /// What is free, by class.
    free: [Free; CLASSES],
}

/// The memory behind the module's data.
pub struct Memory(UnsafeCell<Heap>);

// SAFETY: the module has no threads.
unsafe impl Sync for Memory {}

/// The class of blocks for so many bytes, and how long these are.
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
    /// A block of the never used part that ends `size` bytes above `start`, which is where that part begins or the block
    /// that ends there.
    fn extend(&mut self, start: usize, size: usize) -> bool {
        let Some(top) = start.checked_add(size) else { return false };
        if top > self.end {
            let pages = (top - self.end).div_ceil(PAGE).max(PAGES_MIN);
            let before = wasm32::memory_grow(0, pages);
            if before == usize::MAX {
                return false;
            }
            self.end = (before + pages) * PAGE;
        }
        self.top = top;
        true
    }
}

impl Memory {
    /// Memory of which nothing is known yet; [`Memory::reset`] comes first.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(Heap { top: 0, end: 0, free: [ptr::null_mut(); CLASSES] }))
    }

    /// Takes everything back.
    ///
    /// # Safety
    /// Nothing that was allocated may be used any more.
    pub unsafe fn reset(&self) {
        unsafe extern "C" {
            /// Where the module's data ends: its address counts, not what is there.
            static __heap_base: u8;
        }
        // SAFETY: no reference to it lives anywhere but within the functions of this file.
        let heap = unsafe { &mut *self.0.get() };
        heap.top = (&raw const __heap_base).addr().next_multiple_of(ALIGN);
        heap.end = wasm32::memory_size(0) * PAGE;
        heap.free = [ptr::null_mut(); CLASSES];
    }
}

// SAFETY: blocks do not overlap, are as long as their class, which is at least what was asked for, and begin at multiples
// of `ALIGN`; what asks for more than that gets nothing. A class is a function of the size alone, so a block comes back
// to the list that it was or will be taken from.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() > ALIGN {
            return ptr::null_mut();
        }
        // SAFETY: as in `reset`.
        let heap = unsafe { &mut *self.0.get() };
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
        if heap.extend(start, size) { ptr::with_exposed_provenance_mut(start) } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `reset`.
        let heap = unsafe { &mut *self.0.get() };
        if let Some(first) = heap.free.get_mut(class(layout.size()).0) {
            let block: Free = block.cast();
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
            let heap = unsafe { &mut *self.0.get() };
            // The last block grows where it is.
            if block.addr() + old_size == heap.top && size > old_size {
                return if heap.extend(block.addr(), size) { block } else { ptr::null_mut() };
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
